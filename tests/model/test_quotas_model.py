"""Whatever happens below quotas, their usage is that of a brute-force count."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.zab.ids import Millis
from raykeeper.znodes.quotas import SOFT_LIMIT_NOTICE_MS, QuotaLimits, format_limits, limits_path
from raykeeper.znodes.requests import (
    CloseSession,
    Create,
    Delete,
    SessionId,
    SetData,
    TxnOp,
    WriteOp,
)
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CreateTxn, TxnBody
from tests.unit.znodes.one_leader import OneLeader
from tests.unit.znodes.test_quotas import brute_force, several

PATHS = ["/a", "/a/b", "/a/b/c", "/a/c", "/ab"]
SUBTREES = ["/a", "/a/b", "/ab"]
values = st.none() | st.binary(max_size=3)
limits = st.builds(
    QuotaLimits,
    *[st.integers(-1, 2)] * 2,
    hard_znodes=st.integers(-1, 4),
    hard_bytes=st.integers(-1, 6),
)
texts = limits.map(format_limits)
limit_paths = st.sampled_from(SUBTREES).map(limits_path)
ops: st.SearchStrategy[TxnOp] = st.one_of(
    st.builds(Create, st.sampled_from(PATHS), values, st.sampled_from([0, 0, 1, 2])),
    st.builds(Create, st.sampled_from(PATHS), values, st.just(0)),
    st.builds(Delete, st.sampled_from(PATHS), st.just(-1)),
    st.builds(SetData, st.sampled_from(PATHS), values, st.sampled_from([-1, 0])),
    st.builds(Create, limit_paths, texts, st.just(0)),
    st.builds(SetData, limit_paths, texts, st.just(-1)),
    st.builds(Delete, limit_paths, st.just(-1)),
)
steps = st.one_of(
    *[ops] * 4,
    st.lists(ops, min_size=1, max_size=4).map(lambda several_ops: several(*several_ops)),
    st.just(CloseSession()),
    st.sampled_from(SUBTREES),  # an inquiry: from then on the usage is kept
    st.integers(1, 4),  # transactions applied
)


def usages(state: State) -> dict[str, tuple[int, int]]:
    """Of all quotas, each compared with a brute-force count."""
    found = {}
    for path in state.tree.quotas.limits:
        usage = state.tree.quotas.usage_of(path)
        found[path] = (usage.znodes, usage.bytes)
        assert found[path] == brute_force(state, path)
    return found


class History:
    """What is refused here and what is not is compared with a leader without outstanding writes."""

    def __init__(self) -> None:
        self.late, self.prompt = OneLeader(), OneLeader()
        self.session_id = SessionId(0)
        self.lives = 0
        self.applied = 0
        self.open()
        for path in ("", *SUBTREES[:2], SUBTREES[2]):
            if path:
                self.write(Create(f"/zookeeper/quota{path}", b"", 0))

    def open(self) -> None:
        self.lives += 1
        self.session_id = self.late.open(self.lives)
        assert self.prompt.open(self.lives) == self.session_id
        self.applied = len(self.late.log)

    def write(self, op: WriteOp) -> None:
        change = self.late.prepare(self.session_id, op)
        assert change == self.prompt.do(self.session_id, op)
        check_hard_limits(self.prompt.state, change)
        if isinstance(op, CloseSession):
            self.open()

    def apply(self, count: int) -> None:
        count = min(count, len(self.late.log) - self.applied)
        self.late.apply(count)
        self.applied += count


def check_hard_limits(state: State, change: TxnBody) -> None:
    """No quota is exceeded by what a creation or a growing value was allowed to do."""
    if not isinstance(change, CreateTxn) or change.path.startswith("/zookeeper"):
        return
    for path, each in state.tree.quotas.limits.items():
        if change.path == path or change.path.startswith(path + "/"):
            znodes, size = brute_force(state, path)
            assert each.hard_znodes < 0 or znodes <= each.hard_znodes
            assert each.hard_bytes < 0 or size <= each.hard_bytes or not change.value


@settings(max_examples=300)
@given(st.lists(steps, max_size=40))
def test_usage_equals_a_brute_force_count(history: list[WriteOp | str | int]) -> None:
    run = History()
    for step in history:
        if isinstance(step, int):
            run.apply(step)
        elif isinstance(step, str):
            usages(run.late.state)
        else:
            run.write(step)
    run.apply(1000)
    assert usages(run.late.state) == usages(run.prompt.state)
    assert run.late.state.digest() == run.prompt.state.digest()


@settings(max_examples=300)
@given(st.data(), st.lists(steps, min_size=5, max_size=40))
def test_a_replay_over_a_fuzzy_snapshot_ends_in_the_same_usage(
    data: st.DataObject, history: list[WriteOp | str | int]
) -> None:
    run = History()
    for step in history:
        if not isinstance(step, int | str):
            run.write(step)
    log = run.late.log
    state = State()
    start = data.draw(st.integers(0, len(log)))
    for zxid, txn in log[:start]:
        state.apply(zxid, txn)
    z0 = state.zxid
    walk, loader = SnapshotWalk(state, chunk_bytes=1), SnapshotLoader()
    for zxid, txn in log[start:]:
        for _ in range(data.draw(st.integers(0, 3))):
            if (chunk := walk.next_chunk()) is not None:
                loader.load(chunk)
        state.apply(zxid, txn)
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    loaded = loader.finish(z0, state.zxid)
    for zxid, txn in log[start:]:
        loaded.apply(zxid, txn)
    assert loaded.digest() == state.digest()
    assert loaded.tree.quotas.limits == state.tree.quotas.limits
    assert usages(loaded) == usages(state)


def drawn(rng: Random) -> TxnOp:
    path, kept_at = rng.choice(PATHS), limits_path(rng.choice(SUBTREES))
    value = bytes(rng.randrange(4))
    text = format_limits(QuotaLimits(*(rng.randrange(-1, most) for most in (3, 3, 5, 7))))
    return rng.choice(
        [
            *[Create(path, value, rng.choice([0, 0, 0, 1, 2]))] * 3,
            Delete(path, -1),
            SetData(path, value, rng.choice([-1, 0])),
            Create(kept_at, text, 0),
            SetData(kept_at, text, -1),
            Delete(kept_at, -1),
        ]
    )


@pytest.mark.parametrize("seed", range(50))
def test_the_leaders_count_equals_the_usage_after_delivery(seed: int) -> None:
    """Above all across transactions that are aborted, so that nothing of them may be left."""
    rng, leader = Random(seed), OneLeader()
    session_id = leader.open()
    for path in SUBTREES:
        leader.do(session_id, Create(f"/zookeeper/quota{path}", b"", 0))
    for _ in range(60):
        if rng.random() < 0.4:
            leader.do(session_id, drawn(rng))
        else:
            some = [drawn(rng) for _ in range(rng.randrange(1, 5))]
            leader.do(session_id, several(*some, *rng.choice([[], [Delete("/none", -1)]])))
        quotas = leader.preparation._tree.quotas
        assert quotas.limits == leader.state.tree.quotas.limits
        for path, usage in quotas._usage.items():
            assert path in quotas.limits
            assert (usage.znodes, usage.bytes) == brute_force(leader.state, path)
        if rng.random() < 0.3:
            leader.wall_ms = Millis(leader.wall_ms + SOFT_LIMIT_NOTICE_MS)
