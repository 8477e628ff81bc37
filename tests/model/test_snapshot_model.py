"""The fuzzy snapshot: walked while the state changes, loaded, replayed, and then the same.

The key test of the room. A walk that writes one element a step is interleaved with a history in
every possible way, or in random ones where that is too many.
"""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes import children, tree
from raykeeper.znodes.requests import CloseSession, Create, Delete, SetData
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from tests.model.histories import PATHS, START, Command, Run, histories, image, written

Log = list[tuple[Zxid, bytes]]


def state_after(log: Log) -> State:
    state = State()
    for zxid, data in log:
        state.apply(zxid, data)
    return state


def walk_and_replay(log: Log, start: int, schedule: list[bool], *, twice: bool = False) -> int:
    """Begin to walk after `start` transactions; a True of the schedule applies the next one.

    A loaded znode is hashed after each transaction that is replayed, and some are left. After the
    schedule the walk goes on to its end. Returns how many steps the walk took.
    """
    state = state_after(log[:start])
    z0 = state.zxid
    walk = SnapshotWalk(state, chunk_bytes=1)
    chunks: list[bytes] = []
    position = start
    for applies in schedule:
        if applies and position < len(log):
            state.apply(*log[position])
            position += 1
        elif (chunk := walk.next_chunk()) is not None:
            chunks.append(chunk)
    while (chunk := walk.next_chunk()) is not None:
        chunks.append(chunk)
    z1 = state.zxid
    loader = SnapshotLoader()
    for chunk in chunks:
        loader.load(chunk)
    loaded = loader.finish(z0, z1)
    for zxid, data in log[start:position]:
        loaded.apply(zxid, data)
        if twice:
            loaded.apply(zxid, data)
        loaded.tree.hash_loaded(1)
    assert loaded.zxid == z1
    assert image(loaded) == image(state)
    assert loaded.digest() == state.digest()
    assert loaded.time_ms == state.time_ms
    for zxid, data in log[position:]:
        state.apply(zxid, data)
        loaded.apply(zxid, data)
    assert loaded.digest() == state.digest()
    loaded.tree.hash_loaded(len(loaded.tree.unhashed))
    assert loaded.tree.digest == state.tree.digest
    return len(chunks)


@settings(max_examples=400)
@given(st.data(), histories)
def test_any_walk_of_any_history_restores_the_state(
    data: st.DataObject, history: list[Command]
) -> None:
    log = written(history).log
    start = data.draw(st.integers(0, len(log)))
    schedule = data.draw(st.lists(st.booleans(), max_size=60))
    walk_and_replay(log, start, schedule, twice=data.draw(st.booleans()))


BUILD = Create("/a", b"", 0), Create("/a/x", b"", 0), Create("/a/x/1", b"1", 1)
TEAR_DOWN = Delete("/a/x/1", -1), Delete("/a/x", -1), Delete("/a", -1)
STORIES: dict[str, tuple[list[Command], list[Command]]] = {
    # name: what happened before the walk, what happens during it
    "the parent's whole line is deleted and created again": (
        [("connect", 0, 2_000), *(("write", 0, op) for op in BUILD)],
        [("write", 0, op) for op in (*TEAR_DOWN, *BUILD)],
    ),
    "a parent comes back without its child, a child with another value": (
        [("connect", 0, 2_000), ("write", 0, BUILD[0]), ("write", 0, Create("/a/y", b"old", 0))],
        [
            ("write", 0, Delete("/a/y", -1)),
            ("write", 0, TEAR_DOWN[2]),
            ("write", 0, Create("/a", b"", 0)),
            ("write", 0, Create("/a/s-", b"", 2)),
            ("write", 0, Create("/a/y", b"new", 0)),
            ("write", 0, SetData("/a/y", b"newest", 0)),
        ],
    ),
    "sessions begin, end, move and end with their ephemerals": (
        [("connect", 0, 2_000), ("connect", 1, 2_000), ("write", 1, Create("/b", b"", 1))],
        [
            ("connect", 2, 2_000),
            ("write", 2, Create("/a", b"", 1)),
            ("connect", 1, 3_001),
            ("write", 1, CloseSession()),
            ("write", 0, Create("/b", b"", 1)),
            ("expire", 2, None),
        ],
    ),
    "a password is used again": (
        [("connect", 1, 2_000), ("write", 1, Create("/a", b"", 1))],
        [
            ("expire", 1, None),
            ("connect", 1, 2_000),
            ("write", 1, Create("/a", b"", 1)),
            ("write", 1, CloseSession()),
            ("connect", 1, 2_000),
            ("write", 1, Create("/a", b"", 1)),
        ],
    ),
    "outcomes come and are acknowledged": (
        [("connect", 2, 2_000), *[("write", 2, op) for op in (BUILD[0], BUILD[0], BUILD[0])]],
        [("write", 2, SetData("/a", b"%d" % n, n % 3)) for n in range(6)],
    ),
    "votes move to other disks, one of them twice": (
        [("connect", 0, 2_000), ("replace", 1, "d1")],
        [("replace", 1, "d2"), ("replace", 0, "d1"), ("write", 0, BUILD[0]), ("replace", 1, "d3")],
    ),
    "null data becomes empty, and an empty value null": (
        [("connect", 0, 2_000), ("write", 0, Create("/a", None, 0)), ("write", 0, BUILD[1])],
        [
            ("write", 0, SetData("/a", b"", -1)),
            ("write", 0, SetData("/a/x", None, -1)),
            ("write", 0, Create("/b", None, 1)),
        ],
    ),
    "the first transaction of all": ([], [("connect", 0, 2_000), ("write", 0, BUILD[0])]),
}


def all_interleavings(log: Log, start: int) -> int:
    """Every order of the walk's steps and the transactions after `start`. Returns how many."""
    count = len(log) - start
    # Longest when all is applied before the walk, or all after it.
    steps = max(walk_and_replay(log, start, [True] * n) for n in range(count + 1))
    orders = 0
    for applied in combinations(range(steps + count), count):
        schedule = [False] * (steps + count)
        for position in applied:
            schedule[position] = True
        walk_and_replay(log, start, schedule)
        orders += 1
    return orders


@pytest.mark.parametrize("name", STORIES)
def test_every_interleaving_of_a_walk_restores_the_state(name: str) -> None:
    before, during = STORIES[name]
    run = written(before)
    start = len(run.log)
    for command in during:
        run.do(command)
        run.apply_all()
    assert all_interleavings(run.log, start) > 10


def random_command(random: Random) -> Command:
    kind = random.choices(["write", "connect", "expire"], [8, 1, 1])[0]
    client = random.randrange(2)
    if kind != "write":
        return kind, client, random.randrange(2_000, 2_100)
    path = random.choice(PATHS[2:] + PATHS[:1])
    if random.random() < 0.5:
        return kind, client, Create(path, b"", random.choice([0, 0, 1]))
    if random.random() < 0.7:
        return kind, client, Delete(path, -1)
    return kind, client, SetData(path, b"%d" % random.randrange(9), -1)


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_interleaving_with_a_random_history_restores_the_state(
    seed: int, parted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parted:  # children of the larger znodes are listed in parts
        monkeypatch.setattr(tree, "SHARDED_FROM", 1)
        monkeypatch.setattr(children, "SHARD_SIZE", 1)
    random = Random(seed)
    run = Run()
    for command in START:
        run.do(command)
    for _ in range(5):
        run.do(random_command(random))
    start = len(run.log)
    for _ in range(5):
        run.do(random_command(random))
    run.apply_all()
    assert all_interleavings(run.log, start) > 10


def test_the_whole_log_over_the_last_state_changes_nothing() -> None:
    """The widest fuzz there is: every element as of the end, replayed from the beginning."""
    random = Random(7)
    run = Run()
    run.do(("connect", 0, 2_000))
    run.do(("connect", 1, 2_001))
    for _ in range(400):
        run.do(random_command(random))
    run.apply_all()
    walk = SnapshotWalk(run.state)
    loader = SnapshotLoader()
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    loaded = loader.finish(ZERO, run.state.zxid)
    for zxid, data in run.log:
        loaded.apply(zxid, data)
    assert image(loaded) == image(run.state)
    assert loaded.digest() == run.state.digest()
