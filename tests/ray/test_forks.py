"""A child that was forked off a process with Ray is told so at once, and the parent works on."""

import sys
from pathlib import Path

import pytest

from raykeeper.clusters import Ensemble
from tests.ray import programs

PARENT = """
import asyncio, multiprocessing, os, pickle, subprocess, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
import ray
from raykeeper.client import AsyncClient, connect, with_session
from raykeeper.client.errors import WrongContextError
from raykeeper.client.ray_tools import ConcurrencyLimit
from raykeeper.clusters import attach, list_ensembles

NAME = sys.argv[1]
ray.init(log_to_driver=False)
client, limit, ensemble = connect(NAME), ConcurrencyLimit(NAME, "/limit", 1), attach(NAME)
calls = {
    "connect": lambda: connect(NAME, timeout_s=3),
    "connect async": lambda: asyncio.run(AsyncClient.connect(NAME, timeout_s=3)),
    "with_session": lambda: with_session(NAME)(lambda client: None)(),
    "handle": lambda: client.exists("/"),
    "handle passed on": lambda: pickle.loads(pickle.dumps(client)).get("/"),
    "tool": limit.holders,
    "attach": lambda: attach(NAME),
    "list": list_ensembles,
    "status": ensemble.status,
}

def refused():
    for name, call in calls.items():
        try:
            call()
        except WrongContextError as error:
            assert "spawn" in str(error) and "Ray task" in str(error), error
        else:
            raise AssertionError(f"{name} was not refused")
    return os.getpid()

def check_parent(when):
    connect(NAME).close()
    assert client.create("/parent-", sequence=True) and ensemble.status(timeout_s=20).leader
    print("parent works", when, flush=True)

def fork(then):
    child = os.fork()
    if not child:
        then()
        sys.exit(7)
    return child

def uncaught():
    connect(NAME, timeout_s=3)
"""
FORKS = {
    # A child that ends as any program does, and one whose error nobody catches.
    "os.fork": """
child = fork(refused)
check_parent("beside")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
check_parent("after")
child = fork(uncaught)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
check_parent("after")
""",
    "multiprocessing": """
with multiprocessing.get_context("fork").Pool(2) as pool:
    children = [pool.apply_async(refused) for _ in range(4)]
    check_parent("beside")
    assert os.getpid() not in [each.get() for each in children]
check_parent("after")
""",
    # Of these only the first runs anything of ours in the child, between fork and exec.
    "subprocess": """
program = [sys.executable, "-c", f"from raykeeper.client import connect; connect('{NAME}').close()"]
environment = {**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
subprocess.run(program, env=environment, preexec_fn=lambda: None, check=True)
subprocess.run(program, env=environment, check=True)
check_parent("after")
""",
    "task": """
@ray.remote(num_cpus=0)
def work():
    with connect(NAME) as inside:
        child = multiprocessing.get_context("fork").Process(target=refused)
        child.start()
        child.join()
        assert inside.create("/task-", sequence=True)
        return child.exitcode
assert ray.get(work.remote()) == 0
check_parent("after")
""",
}
OUTPUT = {
    "os.fork": ["parent works beside", "7", "parent works after", "1", "parent works after"],
    "multiprocessing": ["parent works beside", "parent works after"],
    "subprocess": ["parent works after"],
    "task": ["parent works after"],
}


@pytest.mark.smoke
@pytest.mark.parametrize("way", FORKS)
def test_a_forked_child_is_refused_and_its_parent_works_on(
    way: str, shared: Ensemble, driver_environment: dict[str, str], tmp_path: Path
) -> None:
    """A child that asks Ray would hang, and so would the wait for it."""
    program = tmp_path / "parent.py"
    program.write_text(PARENT + FORKS[way])
    done = programs.run(
        [sys.executable, program, shared.name], driver_environment, cwd=programs.ROOT
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, OUTPUT[way]), done.stderr
    is_told = "WrongContextError: this process was forked off one that uses Ray" in done.stderr
    assert is_told is (way == "os.fork"), "an error that nobody catches is shown"
