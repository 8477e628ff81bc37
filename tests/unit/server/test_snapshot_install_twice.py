"""SnapshotInstall: a second tree arrives before the first one counts.

Server 1 is the only one that knows how much is committed, so only the leader's UPTODATE can
tell it when a received tree has caught up with what its clients saw.
"""

from raykeeper.server import server_trace_events
from raykeeper.server.events import EpochsSaved, LinkDown, LinkUp, SnapshotInstalled
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, ServerId
from raykeeper.zab.messages import (
    LeaderInfo,
    NewLeader,
    Notification,
    PeerState,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    UpToDate,
    Vote,
)
from raykeeper.znodes.snapshot import SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import ErrorTxn
from tests.unit.server.test_server_votes import S2, S3, Alone, recovered, txn, zxid

FIRST, LAST = zxid(1, 1), zxid(1, 2)
CHANGES = [ErrorTxn(-1), ErrorTxn(-2)]


def follow(alone: Alone, round_: int, stint: int) -> None:
    """The others already follow server 3, and server 1 accepts its epoch again."""
    for server, state in ((S2, PeerState.FOLLOWING), (S3, PeerState.LEADING)):
        alone.step(LinkUp(server))
        vote, own = Vote(Epoch(1), LAST, S3), Vote(Epoch(1), ZERO, server)
        alone.hear(server, Notification(round_, vote, state, True, own, FOUNDING_DISK))
    assert alone.server.peer.leader == S3
    alone.hear(S3, LeaderInfo(Epoch(2), stint))
    if stint == 1:
        alone.step(EpochsSaved(Epoch(2), Epoch(1)))


def send_tree(alone: Alone) -> None:
    """Send a tree as of the first transaction, and the second transaction after it."""
    state = State()
    state.apply(FIRST, txn(CHANGES[0]))
    walk = SnapshotWalk(state)
    alone.hear(S3, Snapshot(FIRST))
    while (chunk := walk.next_chunk()) is not None:
        alone.hear(S3, SnapshotChunk(chunk))
    rest = Proposals(LAST, [txn(CHANGES[1])])
    alone.hear(S3, SnapshotEnd(FIRST), rest, NewLeader(Epoch(2), LAST))
    alone.step(SnapshotInstalled(FIRST))
    assert TraceEvent(server_trace_events.SNAPSHOT_INSTALLED, "1:1") in alone.effects
    assert alone.server.state.zxid == FIRST


def test_it_is_measured_by_what_clients_saw_before_the_first() -> None:
    alone = Alone(recovered(2, *CHANGES))
    follow(alone, 1, 1)
    send_tree(alone)
    alone.step(EpochsSaved(Epoch(2), Epoch(2)))
    for server in (S2, S3):
        alone.step(LinkDown(ServerId(server)))
    follow(alone, 2, 2)
    send_tree(alone)
    alone.step(EpochsSaved(Epoch(2), Epoch(2)))
    assert alone.server.state.zxid == FIRST
    alone.hear(S3, UpToDate(LAST))
    assert alone.server.state.zxid == LAST
    assert TraceEvent(server_trace_events.READS_RESUMED) in alone.effects
