"""What counts as the death of a process, and that doubt never does; with Ray, see tests/ray."""

import pytest
from msgspec import structs

from raykeeper.actors.process_liveness import is_dead, is_gone, is_raylet_witness
from raykeeper.links.processes import Process, this_process
from raykeeper.links.ray_internals import WorkerExit

EOF = "Worker unexpectedly exits with a connection error code 2. End of file. Some common causes"
REMOTE = Process("there", "ab" * 28, 7, 1, "elsewhere")


def test_of_its_own_node_the_kernel_is_asked() -> None:
    me = this_process("here", "ab" * 28)
    assert not is_gone("here", me, link_is_over=True)
    assert is_gone("here", structs.replace(me, started=me.started + 1), link_is_over=False)


@pytest.mark.parametrize("worker", ["", "no hex", "ab" * 28])
def test_without_ray_there_is_doubt(worker: str) -> None:
    assert not is_gone("here", structs.replace(REMOTE, worker=worker), link_is_over=True)


@pytest.mark.parametrize(
    ("type_", "detail", "proof"),
    [
        (0, EOF, True),
        # Ray has told it to exit, or it has said that it will; it may run on, or stand still.
        (1, "Worker exits because the actor is killed.", False),
        (1, "Actor killed by GCS", False),
        (3, "Shutdown by ray.shutdown().", False),
        # Nobody has seen its end.
        (0, "Node died", False),
        (0, "", False),
        (4, "Task was killed due to the node running low on memory.", False),
        (1, EOF, False),
    ],
)
def test_one_cause_is_proof(type_: int, detail: str, proof: bool) -> None:
    assert is_raylet_witness(WorkerExit(7, type_, detail)) is proof


@pytest.mark.parametrize(
    ("found", "looked", "link_is_over", "dead"),
    [
        (None, False, True, False),  # it lives, as far as Ray knows
        (WorkerExit(7, 0, EOF), True, True, True),
        (WorkerExit(7, 0, EOF), True, False, False),  # only Ray says so; somebody must look
        (WorkerExit(7, 0, EOF), False, False, True),
        (WorkerExit(7, 1, "killed"), None, True, False),
        (WorkerExit(7, 1, "killed"), True, True, False),
        (WorkerExit(7, 1, "killed"), False, True, True),
        (WorkerExit(8, 0, EOF), False, True, False),  # that was another one
    ],
)
def test_what_ray_and_whoever_looks_say(
    found: WorkerExit | None, looked: bool | None, link_is_over: bool, dead: bool
) -> None:
    for own_node in ("here", REMOTE.node):  # where it may be in another container
        answer = is_dead(
            own_node, REMOTE, lambda _: found, lambda _: looked, link_is_over=link_is_over
        )
        assert answer is dead


def test_whatever_fails_leaves_doubt() -> None:
    def fails(_: object) -> None:
        raise RuntimeError("no such table")

    ended = WorkerExit(7, 1, "killed")
    assert not is_dead("here", REMOTE, fails, lambda _: False, link_is_over=True)
    assert not is_dead("here", REMOTE, lambda _: ended, fails, link_is_over=True)
