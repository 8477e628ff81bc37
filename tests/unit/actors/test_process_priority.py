"""The priority of a process: each thread has it, and it is raised as far as the system allows."""

import os
import subprocess
import sys

import pytest

from raykeeper.actors.process_priority import raise_priority, read_niceness

PROGRAM = """
import os, resource, sys, threading
from raykeeper.actors.process_priority import raise_priority, read_niceness

at, to, limit = map(int, sys.argv[1:])
begun, ends = threading.Barrier(3), threading.Event()

def run():
    begun.wait()
    ends.wait()

os.nice(at - os.nice(0))
for _ in range(2):  # threads that begin with the low priority
    threading.Thread(target=run, daemon=True).start()
begun.wait()
if limit >= 0:
    try:
        resource.setrlimit(resource.RLIMIT_NICE, (limit, limit))
    except ValueError:
        sys.exit(77)
    os.setuid(65534)
print(raise_priority(to))
threads = map(int, os.listdir("/proc/self/task"))
print(read_niceness(), *{os.getpriority(os.PRIO_PROCESS, thread) for thread in threads})
"""
NOT_ALLOWED = (
    "niceness {} cannot become {}: that needs root, CAP_SYS_NICE, or a limit of {} (`ulimit -e`) "
    "where Ray is started"
)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may raise and lower priorities at will")
@pytest.mark.parametrize(
    ("at", "to", "limit", "told", "has"),
    [
        (15, 0, -1, "", 0),  # root
        (15, 0, 20, "", 0),  # a limit that suffices
        (15, 0, 0, NOT_ALLOWED.format(15, 0, 20), 15),
        (15, -5, 0, NOT_ALLOWED.format(15, -5, 25), 15),
        (0, 15, 0, "", 0),  # nothing is lowered
        (15, 19, 0, "", 15),  # what leaves it to Ray asks for nothing
    ],
)
def test_all_threads_have_at_most_the_niceness_that_is_asked_for(
    at: int, to: int, limit: int, told: str, has: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, (at, to, limit))],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("the root of this machine may not raise limits")
    assert done.stdout.splitlines() == [told, f"{has} {has}"], done.stderr


def test_a_process_that_has_it_needs_no_right() -> None:
    has = read_niceness()
    assert raise_priority(has) == ""
    assert read_niceness() == has
