"""Who is refused after a fork: the child of a process that has Ray's threads, and nobody else."""

import subprocess
import sys

PROGRAM = """
import ctypes, importlib, os, sys, threading
from raykeeper.client import forks
from raykeeper.client.errors import WrongContextError

def begin_thread():
    "As Ray does with its first question."
    begun = threading.Event()
    def run():
        ctypes.CDLL(None).prctl(15, b"gcs_client_io_service", 0, 0, 0)
        begun.set()
        threading.Event().wait()
    threading.Thread(target=run, daemon=True).start()
    begun.wait()

def is_refused():
    try:
        forks.refuse_inherited_ray()
    except WrongContextError:
        return True
    return False

def in_child(*acts):
    child = os.fork()
    if not child:
        sys.exit(7 if [act() for act in acts][-1] else 0)  # as every program ends
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

def import_anew():
    sys.modules["ray"].is_initialized = lambda: True
    importlib.reload(forks)

print("threads of another library", in_child(begin_thread, lambda: in_child(is_refused)))
import ray
print("not used yet", in_child(is_refused))
print("imported after the fork", in_child(import_anew, is_refused))
begin_thread()
print("child", in_child(is_refused))
print("grandchild", in_child(lambda: in_child(is_refused)))
print("parent", is_refused())
"""
REFUSED = {"imported after the fork", "child", "grandchild"}


def test_only_a_child_of_a_process_that_used_ray_is_refused() -> None:
    """Ray is not started: a thread with the name of Ray's stands for it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    told = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0 and len(told) == 6, done.stderr
    assert {who for who, is_refused in told.items() if is_refused == "True"} == REFUSED
