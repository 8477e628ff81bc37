"""What was held, or waited for, is gone: LostError, whichever recipe it is."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from raykeeper.client.errors import (
    ConnectionLossError,
    DeposedError,
    LostError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    StaleTokenError,
)
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import Member, RecipeStage

PATH = "/x"


class Limits(msgspec.Struct):
    rate: int = 1


def _calls(thing: Any, *names: str) -> list[Callable[[], object]]:
    return [getattr(thing, name) for name in names]


def _of_held(held: Any, *names: str) -> list[Callable[[], object]]:
    return [held.lost.check, *_calls(held, *names)]


def _of_lock(lock: Any) -> list[Callable[[], object]]:
    return [
        *_of_held(lock.acquire(), "release"),
        *_calls(lock, "acquire", "contenders"),
        lock.__enter__,
    ]


def _of_block(lock: Any) -> list[Callable[[], object]]:
    lock.__enter__()
    return [lambda: lock.__exit__(None, None, None)]


def _of_lease(lease: Any) -> list[Callable[[], object]]:
    return [*_of_held(lease.acquire(), "renew", "release"), lease.acquire]


def _of_election(election: Any) -> list[Callable[[], object]]:
    leadership = election.lead()
    return [*_of_held(leadership, "resign"), *_calls(election, "lead", "leader", "candidates")]


def _of_latch(latch: Any) -> list[Callable[[], object]]:
    latch.start()
    return [latch.wait().lost.check, latch.wait]


def _of_group(group: Any) -> list[Callable[[], object]]:
    membership = group.join()
    return [
        membership.lost.check,
        lambda: membership.update(b"new"),
        membership.leave,
        *_calls(group, "join", "members"),
        lambda: group.watch(print),
    ]


def _of_services(services: Any) -> list[Callable[[], object]]:
    registration = services.register("web", "10.0.0.7", 80)
    return [
        registration.lost.check,
        lambda: registration.announce("10.0.0.7", 81),
        registration.leave,
        services.names,
        lambda: services.pick("web"),
    ]


def _of_rendezvous(rendezvous: Any) -> list[Callable[[], object]]:
    meeting = rendezvous.join()
    return [*_of_held(meeting, "leave"), meeting.broken.check, rendezvous.join]


def _of_partitioner(partitioner: Any) -> list[Callable[[], object]]:
    partitioner.start()
    (partition,) = partitioner.wait()
    return [partition.lost.check, partitioner.wait]


def _of_lock_queue(queue: Any) -> list[Callable[[], object]]:
    queue.put(b"job")
    return [*_of_held(queue.get(), "consume", "release"), *_calls(queue, "get", "size")]


def _of_double_barrier(barrier: Any) -> list[Callable[[], object]]:
    barrier.enter()
    return _calls(barrier, "leave")


CASES: dict[str, Callable[[Member], list[Callable[[], object]]]] = {
    "lock": lambda member: _of_lock(member.lock(PATH)),
    "simple lock": lambda member: _of_lock(member.simple_lock(PATH)),
    "read lock": lambda member: _of_lock(member.read_write_lock(PATH).read),
    "write lock": lambda member: _of_lock(member.read_write_lock(PATH).write),
    "reentrant lock": lambda member: _of_lock(member.reentrant_lock(PATH)),
    "multi-lock": lambda member: _of_lock(member.multi_lock([PATH, "/y"])),
    "semaphore": lambda member: _of_lock(member.semaphore(PATH, 1)),
    "lease": lambda member: _of_lease(member.lease(PATH, 60)),
    "block": lambda member: _of_block(member.lock(PATH)),
    "election": lambda member: _of_election(member.election(PATH)),
    "leader latch": lambda member: _of_latch(member.leader_latch(PATH)),
    "group": lambda member: _of_group(member.group(PATH)),
    "services": lambda member: _of_services(member.services(PATH)),
    "rendezvous": lambda member: _of_rendezvous(member.rendezvous(PATH, 1)),
    "partitioner": lambda member: _of_partitioner(member.partitioner(PATH, ["a"])),
    "lock queue": lambda member: _of_lock_queue(member.lock_queue(PATH)),
    "queue": lambda member: _calls(member.queue(PATH), "get", "size"),
    "counter": lambda member: _calls(member.counter(PATH), "get", "increment"),
    "barrier": lambda member: _calls(member.barrier(PATH), "create", "wait", "remove"),
    "double barrier": lambda member: _of_double_barrier(member.double_barrier(PATH, 1)),
    "two-phase commit": lambda member: _calls(member.two_phase_commit(PATH), "progress", "decide"),
    "configuration": lambda member: _calls(member.configuration(PATH, Limits), "get", "follow"),
    "published": lambda member: _calls(member.published(PATH), "read", "follow"),
    "tree cache": lambda member: _calls(member.tree_cache(PATH), "start"),
    "fenced resource": lambda member: [lambda: member.fenced_resource(PATH).check(1)],
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_holder_paused_beyond_its_session_gets_lost_error(
    stage: RecipeStage, case: Callable[[Member], list[Callable[[], object]]]
) -> None:
    alice = stage.member()
    calls = case(alice)
    alice.freeze()
    stage.pass_time(11_000)
    alice.thaw()
    stage.pass_time(100)
    for call in calls:
        with pytest.raises(LostError):
            call()


@pytest.mark.parametrize("kind", ["lock", "simple_lock", "reentrant_lock", "election"])
def test_a_waiter_paused_beyond_its_session_gets_lost_error(stage: RecipeStage, kind: str) -> None:
    alice, bob = stage.member(), stage.member()
    getattr(alice, kind)(PATH).__enter__()
    wait = bob.begin(getattr(bob, kind)(PATH).__enter__)
    bob.freeze()
    stage.pass_time(11_000)
    bob.thaw()
    stage.pass_time(100)
    assert isinstance(wait.error, LostError)


@pytest.mark.parametrize("case", ["lock", "simple lock", "semaphore", "lease", "election"])
def test_a_holder_whose_znode_was_deleted_gets_lost_error(stage: RecipeStage, case: str) -> None:
    alice = stage.member()
    lock = {
        "lock": alice.lock(PATH),
        "simple lock": alice.simple_lock(PATH),
        "semaphore": alice.semaphore(PATH, 1),
        "lease": alice.lease(PATH, 60),
        "election": alice.election(PATH),
    }[case]
    held = lock.__enter__()
    stage.member().ask(Delete(held.path, -1))
    with pytest.raises(LostError):
        held.lost.check()
    with pytest.raises(LostError):
        lock.__exit__(None, None, None)


def test_lost_error_is_the_base_of_the_errors_of_a_loss() -> None:
    for error in (SessionExpiredError, SessionMovedError, StaleTokenError):
        assert issubclass(error, LostError)
    for error in (ConnectionLossError, OperationTimeoutError, DeposedError):
        assert not issubclass(error, LostError)
