"""Questions to Ray: how long callers wait for them, and what they get; Ray is not started."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raykeeper.client.errors import BadArgumentsError, RayKeeperError, RayUnavailableError
from raykeeper.client.ray_lookups import SETTING, TIMEOUT_S, ask_ray, fail_after, left_s


@pytest.fixture
def silence() -> Iterator[threading.Event]:
    """What a call waits for that Ray does not answer."""
    ends = threading.Event()
    yield ends
    ends.set()


@pytest.mark.parametrize(
    ("setting", "blocks", "at_most_s"),
    [
        (None, [], TIMEOUT_S),
        ("2.5", [], 2.5),
        ("2.5", [90], 90),  # a caller's time counts before the setting, and the shorter one
        (None, [90, 5], 5),
        (None, [5, 90], 5),
        (None, [0], 0),
    ],
)
def test_a_question_takes_as_long_as_its_callers_allow(
    setting: str | None, blocks: list[float], at_most_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    if setting is not None:
        monkeypatch.setenv(SETTING, setting)
    with ExitStack() as stack:
        for each in blocks:
            stack.enter_context(fail_after(each))
        assert at_most_s - 2 < left_s() <= at_most_s
    assert left_s() == float(setting or TIMEOUT_S), "each block ends"


@pytest.mark.parametrize("setting", ["soon", "0", "-1", "nan", "inf"])
def test_a_setting_that_is_no_time_is_refused(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, setting)
    with pytest.raises(BadArgumentsError, match=f"{SETTING} must be a number of seconds"):
        ask_ray("anything", str)


def test_a_call_that_does_not_return_is_given_up(silence: threading.Event) -> None:
    with (
        fail_after(0.01),
        pytest.raises(RayUnavailableError, match=r"asked for its nodes, .* within .*GCS is away"),
    ):
        ask_ray("its nodes", silence.wait)


def test_an_error_of_ray_is_one_of_ours_with_its_cause() -> None:
    from ray.exceptions import GetTimeoutError

    def fail() -> None:
        raise GetTimeoutError("the GCS is dead\nor under high load")

    with pytest.raises(RayUnavailableError, match=r"asked for its nodes: the GCS is dead$") as told:
        ask_ray("its nodes", fail)
    assert isinstance(told.value, RayKeeperError)
    assert isinstance(told.value.__cause__, GetTimeoutError)


@pytest.mark.parametrize("error", [ValueError("no such actor"), TimeoutError("of the call")])
def test_another_error_of_the_call_is_raised(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        ask_ray("anything", fail)


def test_a_result_is_returned() -> None:
    assert ask_ray("a sum", sum, [1, 2]) == 3
