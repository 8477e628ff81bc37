"""Exactly once: whichever process dies, at whichever step, a write has one effect, one result."""

from collections.abc import Callable

import pytest

from raykeeper.znodes.acl import Acl
from raykeeper.znodes.requests import (
    ANY_VERSION,
    AddAuth,
    Check,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Multi,
    ReadChildren,
    ReadData,
    Relation,
    SetAcls,
    SetData,
    WriteOp,
)
from tests.simulation.every_step import STEPS_MAX, Kill, KillWorld
from tests.simulation.mutations.catalogue import mutations_of

EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL
TTL_MS = 1_000_000
HERE = Compare("/here", CompareField.EXISTS, Relation.EQUAL, 1)
GONE = Compare("/gone", CompareField.EXISTS, Relation.EQUAL, 1)

WRITES: dict[str, Callable[[int], WriteOp]] = {
    "create": lambda n: Create(f"/a{n}", b"", 0),
    "create ephemeral": lambda n: Create(f"/e{n}", b"", EPHEMERAL),
    "create sequential": lambda _: Create("/here/s-", b"", SEQUENTIAL),
    "create ephemeral sequential": lambda _: Create("/here/s-", b"", EPHEMERAL | SEQUENTIAL),
    "create container": lambda n: Create(f"/c{n}", b"", CreateMode.CONTAINER),
    "create with a TTL": lambda n: Create(f"/t{n}", b"", CreateMode.TTL, None, TTL_MS),
    "create sequential with a TTL": lambda _: Create(
        "/here/s-", b"", CreateMode.TTL_SEQUENTIAL, None, TTL_MS
    ),
    "create what is there": lambda _: Create("/here", b"", 0),
    "set": lambda n: SetData("/here", b"%d" % n, ANY_VERSION),
    "set at the wrong version": lambda _: SetData("/here", b"", 1_000),
    "delete": lambda n: Delete(f"/d{n}", ANY_VERSION),
    "delete what is gone": lambda _: Delete("/gone", ANY_VERSION),
    "set the ACL": lambda _: SetAcls("/here", [Acl(31, *("world", "anyone"))], ANY_VERSION),
    "add an identity": lambda _: AddAuth("digest", b"alice:a"),
    "add a wrong one": lambda _: AddAuth("digest", b"alice"),
    "transaction": lambda n: Multi(
        [HERE],
        [Create("/here/s-", b"", SEQUENTIAL), SetData("/here", b"%d" % n, -1), ReadData("/here")],
        [],
    ),
    "the other branch": lambda n: Multi(
        [GONE], [], [Create(f"/a{n}", b"", 0), ReadChildren("/here")]
    ),
    "aborted transaction": lambda n: Multi(
        [], [Create(f"/a{n}", b"", 0), ReadData("/here"), Check("/gone", ANY_VERSION)], []
    ),
}


KILLS = [
    *((Kill.LINK, by_leader) for by_leader in (True, False)),
    *((Kill.SERVER, by_leader) for by_leader in (True, False)),
    (Kill.LEADER, False),  # otherwise the leader is the server of the client
    (Kill.CLIENT, False),
]
MANY = [(Kill.OTHERS, True), (Kill.OTHERS, False), (Kill.ALL, False)]
CASES = [
    pytest.param(name, *kill, id=f"{name}, {kill[0].name}, {'leader' if kill[1] else 'follower'}")
    for name in WRITES
    for kill in [*KILLS, *(MANY if name in ("transaction", "set") else ())]
]


@pytest.mark.parametrize(("name", "kill", "by_leader"), CASES)
def test_a_write_is_done_once_with_a_kill_at_any_step(
    name: str, kill: Kill, by_leader: bool
) -> None:
    world = KillWorld(1)
    for path in ("/here", "/after"):
        world.do(Create(path, b"", 0))
    for at in range(STEPS_MAX):
        if name == "delete":
            world.do(Create(f"/d{at}", b"", 0))
        if not world.kill_during_write(WRITES[name](at), kill, at, by_leader=by_leader):
            break
    assert 10 < at < STEPS_MAX - 1, at
    world.checks.finish(world.nodes)


@pytest.mark.parametrize(("kill", "by_leader"), [*KILLS, *MANY])
def test_a_session_is_closed_once_with_a_kill_at_any_step(kill: Kill, by_leader: bool) -> None:
    world = KillWorld(1)
    for at in range(STEPS_MAX):
        world.do(Create(f"/e{at}", b"", EPHEMERAL))
        if not world.kill_during_close(kill, at, by_leader=by_leader):
            break
    assert 10 < at < STEPS_MAX - 1, at
    world.checks.finish(world.nodes)


@pytest.mark.parametrize(
    "what",
    ["unanswered requests are not sent again", "a lower number is not answered"],
)
def test_a_duplicate_would_be_found(what: str) -> None:
    mutation = next(each for each in mutations_of("exactly_once") if each.what == what)
    with mutation.applied(), pytest.raises(AssertionError):
        for kill, by_leader in KILLS:
            test_a_write_is_done_once_with_a_kill_at_any_step("set", kill, by_leader)
