"""Only tests/ray starts Ray: everywhere else `ray.init` is an error of the test.

A test may be a coroutine. It runs on the loop of its fixture `runner`, or else on one of its own.
"""

import asyncio
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import lost_workers

# An example that the machine was too busy for has shown nothing.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], parent=settings()
)
settings.load_profile("patient")

RAY_TESTS = Path(__file__).parent / "ray"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the present output into data-driven tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--rewrite", False) and os.environ.get("CI") == "true":
        raise pytest.UsageError("--rewrite accepts any output: not with CI=true")
    lost_workers.watch(config)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether data-driven tests write their present output (tests/harness/datadriven.py)."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(autouse=True)
def no_ray_outside_its_folder(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Refuse `ray.init`, also the one that Ray calls by itself on first use."""
    ray = sys.modules.get("ray")
    if ray is not None and not request.path.is_relative_to(RAY_TESTS):

        def refuse(*_args: object, **_kwargs: object) -> None:
            raise AssertionError("only tests in tests/ray may start Ray")

        monkeypatch.setattr(ray, "init", refuse)
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    test, given = pyfuncitem.obj, pyfuncitem.funcargs
    if not inspect.iscoroutinefunction(test):
        return None
    run = given["runner"].run if "runner" in given else asyncio.run
    run(test(**{name: given[name] for name in inspect.signature(test).parameters}))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in tests/ray, and let it run last: the quick answers come first."""
    for item in items:
        if item.path.is_relative_to(RAY_TESTS):
            item.add_marker(pytest.mark.ray)
    items.sort(key=lambda item: item.path.is_relative_to(RAY_TESTS))
