"""Peer: the stream of a snapshot to a learner."""

import pytest

from raykeeper.zab.effects import (
    CancelSnapshot,
    DiscardSnapshot,
    Role,
    StreamSnapshot,
)
from raykeeper.zab.ids import FOUNDING_DISK
from raykeeper.zab.messages import (
    AckEpoch,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
)
from tests.unit.zab.histories import S1, S2, S3, S4, Bench, sent, z
from tests.unit.zab.test_peer import E1, E2, LAST, following, leading, recovering_follower


class TestSnapshots:
    """The stream to a learner is the server's; the peer drops what comes too late."""

    def streaming(self) -> Bench:
        bench = leading()
        bench.peer.propose([b"d"], bench.now)
        bench.link(S2)
        bench.hear(S2, FollowerInfo(E1, 1, FOUNDING_DISK), AckEpoch(E1, z(1, 9), False))
        assert StreamSnapshot(S2) in bench.take()
        return bench

    def test_reaches_the_learner(self) -> None:
        bench = self.streaming()
        bench.peer.snapshot_begin(S2, LAST)
        bench.peer.snapshot_chunk(S2, b"tree")
        bench.peer.snapshot_end(S2, LAST)
        assert sent(bench.take(), S2) == [
            Snapshot(LAST),
            SnapshotChunk(b"tree"),
            SnapshotEnd(LAST),
            Proposals(z(2, 1), [b"d"], z(1, 3)),
            NewLeader(E2, z(2, 1)),
        ]

    @pytest.mark.parametrize("learner", [S1, S2, S4])
    def test_of_no_use_any_more(self, learner: int) -> None:
        for bench in (self.streaming(), following()):
            if bench.peer.leader == S3 and bench.peer.role is Role.LEADER:
                bench.peer.link_down(S2, bench.now)
                assert CancelSnapshot(S2) in bench.take()
            bench.take()
            bench.peer.snapshot_begin(learner, LAST)  # type: ignore[arg-type]
            bench.peer.snapshot_chunk(learner, b"")  # type: ignore[arg-type]
            bench.peer.snapshot_end(learner, LAST)  # type: ignore[arg-type]
            assert bench.take() == []

    def test_half_received_is_discarded_with_the_role(self) -> None:
        bench = recovering_follower()
        bench.hear(S3, LeaderInfo(E2, 1))
        bench.save_epochs()
        bench.hear(S3, Snapshot(z(1, 9)))
        bench.take()
        bench.peer.link_down(S3, bench.now)
        assert DiscardSnapshot() in bench.take()
