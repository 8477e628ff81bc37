"""RecentLog against a plain list of pairs."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import Epoch, Zxid, counter_of, epoch_of, make_zxid
from raykeeper.zab.recent_log import RecentLog, follows, split_run
from tests.harness.log_entries import entries_of

TXNS = st.lists(st.binary(max_size=4), min_size=1, max_size=4)


class WindowMachine(RuleBasedStateMachine):
    """The same steps on the window and on a list."""

    @initialize(epoch=st.integers(0, 2), counter=st.integers(1, 3))
    def begin(self, epoch: int, counter: int) -> None:
        self.base = make_zxid(Epoch(epoch), counter if epoch else 0)
        self.window = RecentLog(self.base)
        self.pairs: list[tuple[Zxid, bytes]] = []

    def positions(self) -> list[Zxid]:
        return [self.base, *(zxid for zxid, _ in self.pairs)]

    @rule(txns=TXNS, skip=st.integers(0, 2))
    def extend(self, txns: list[bytes], skip: int) -> None:
        last = self.positions()[-1]
        epoch = epoch_of(last) + skip
        fresh = skip or not epoch_of(last)
        first = make_zxid(Epoch(max(1, epoch)), 1) if fresh else Zxid(last + 1)
        assert follows(first, last)
        self.window.extend(first, txns)
        self.pairs += entries_of(LogRun(first, txns))

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        upto = data.draw(st.sampled_from(self.positions()))
        self.window.truncate(upto)
        self.pairs = [pair for pair in self.pairs if pair[0] <= upto]

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        upto = data.draw(st.sampled_from(self.positions()))
        self.window.trim(upto)
        self.pairs = [pair for pair in self.pairs if pair[0] > upto]
        self.base = upto

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def slice(self, data: st.DataObject) -> None:
        near = [Zxid(z + d) for z in self.positions() for d in (-1, 0, 1) if z + d >= 0]
        after, upto = (data.draw(st.sampled_from(near)) for _ in range(2))
        found = self.window.between(after, upto)
        assert entries_of(*found) == [pair for pair in self.pairs if after < pair[0] <= upto]
        for run in found:
            parts = list(split_run(run, 3))
            assert entries_of(*parts) == entries_of(run)
            assert all(sum(map(bool, p.txns)) == 1 or sum(map(len, p.txns)) <= 3 for p in parts)

    @rule(count=st.integers(0, 9))
    def oldest(self, count: int) -> None:
        assert self.window.position_after(count) == self.positions()[: count + 1][-1]

    @invariant()
    def is_the_list(self) -> None:
        window = self.window
        assert entries_of(*window.between(window.base, window.last)) == self.pairs
        assert (window.base, window.last) == (self.base, self.positions()[-1])
        assert window.count == len(self.pairs)
        assert window.bytes == sum(len(txn) for _, txn in self.pairs)
        for zxid in self.positions():
            assert window.has(zxid)
            assert window.has(Zxid(zxid + 1)) == (zxid + 1 in self.positions())
        # No holes (ZOOKEEPER-4925).
        for (before, _), (after, _) in zip(self.pairs, self.pairs[1:], strict=False):
            assert after == before + 1 or counter_of(after) == 1


def test_the_recent_log_behaves_as_a_list() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        WindowMachine, settings=settings(max_examples=80, stateful_step_count=20)
    )
