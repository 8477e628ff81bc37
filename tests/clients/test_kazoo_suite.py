"""kazoo's own tests, which are part of its package, against a pure server over TCP.

Each of its files runs in a process of its own: kazoo's harness has one cluster for a process.
"""

import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from raykeeper.znodes.acl import Identity, digest_id
from tests.clients.kazoo_exceptions import NOT_OFFERED, NOT_RUN, OTHER_FILES
from tests.harness.jute_port import JutePort
from tests.harness.pure_servers import LIMITS, OPTIONS
from tests.harness.tls_files import TlsFolder

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0
SETTINGS = {
    "limits": replace(LIMITS, super_identities=(Identity("digest", digest_id("super", "test")),)),
    "options": replace(OPTIONS, zookeeper=replace(OPTIONS.zookeeper, words=("*",))),
}
"""As kazoo's harness starts ZooKeeper."""


def files_with_a_server() -> list[str]:
    """Return the names of kazoo's files of tests, but for those that are not run."""
    spec = importlib.util.find_spec("kazoo")
    assert spec is not None and spec.origin is not None
    every = {path.stem for path in (Path(spec.origin).parent / "tests").glob("test_*.py")}
    assert not every or set(OTHER_FILES) <= every
    return sorted(every - set(OTHER_FILES))


FILES = files_with_a_server()


def missing() -> str:
    """Return why kazoo's tests cannot run here, empty if they can."""
    if not FILES:
        return "kazoo is installed without its tests"
    if importlib.util.find_spec("objgraph") is None:
        return "PyPI's package objgraph is not installed"
    return ""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the plugin is told of a port and of one with TLS."""
    folder = tmp_path_factory.mktemp("tls")
    tls = TlsFolder(folder).of_server(asks_clients=True)
    with JutePort(**SETTINGS) as plain, JutePort(tls, **SETTINGS) as encrypted:
        yield f"{plain.address}\n{encrypted.address}\n{folder}"


def outcomes(report: Path) -> dict[str, set[str]]:
    """Return the names of the tests of a report, by what became of them."""
    found: dict[str, set[str]] = {"passed": set(), "pytest.skip": set(), "pytest.xfail": set()}
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        outcome = "passed" if skipped is None else skipped.attrib["type"]
        name = f"{case.attrib['classname'].rpartition('.')[2]}::{case.attrib['name']}"
        found[outcome].add(name)
    return found


def listed(names: dict[str, str], file: str) -> set[str]:
    """Return the names of a file's tests in a list."""
    return {name.removeprefix(f"{file}::") for name in names if name.startswith(f"{file}::")}


@pytest.mark.skipif(missing() != "", reason=missing())
@pytest.mark.parametrize("file", FILES)
def test_the_tests_of_kazoo_pass(port: str, file: str, tmp_path: Path) -> None:
    # A test that a signal interrupts waits for its own threads without a bound, so a thread ends
    # the process. That thread keeps objects of tests, and test_cache counts those that are left.
    report = tmp_path / "report.xml"
    done = subprocess.run(
        [
            # Not -v, with which pytest keeps objects that test_cache counts.
            *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", tmp_path),
            *("-p", "no:cacheprovider", "-p", "tests.clients.kazoo_plugin"),
            *(
                "--timeout",
                "60",
                "--timeout-method",
                "signal" if file == "test_cache" else "thread",
            ),
            *("--junit-xml", report, "--pyargs", f"kazoo.tests.{file}"),
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "KAZOO_TESTS": port,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    found = outcomes(report)
    assert found["passed"]
    assert found["pytest.skip"] == listed(NOT_RUN, file)
    assert found["pytest.xfail"] == listed(NOT_OFFERED, file)
