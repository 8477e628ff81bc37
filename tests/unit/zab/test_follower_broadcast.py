"""FollowerBroadcast: what each step emits, as a table, and what it refuses.

What ends it, and a full disk, are scenarios in data/.
"""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Append, Deliver, Effect, Send, TraceEvent
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.follower_broadcast import FollowerBroadcast, FollowerBroadcastMessage
from raykeeper.zab.history import History
from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.zab.messages import Ack, Commit, Ping, Pong, Proposals
from raykeeper.zab.settings import Settings
from tests.unit.zab.histories import S1, S3, T0, THREE, make_history, z

LEADER = S3
Z1, Z2, Z3 = (z(7, n) for n in range(1, 4))
AB, C = Proposals(Z1, [b"a", b"b"]), Proposals(Z3, [b"c"])
LOG_AB, LOG_C = Append(Z1, [b"a", b"b"], ZERO), Append(Z3, [b"c"], ZERO)

Step = FollowerBroadcastMessage | Zxid  # a bare zxid is our disk saying "synced up to here"


def ack(upto: Zxid) -> Send:
    return Send(LEADER, Ack(upto))


def follow(*steps: Step) -> tuple[FollowerBroadcast, History, list[Effect]]:
    out: list[Effect] = []
    history = make_history(out, accepted=7, current=7)
    role = FollowerBroadcast(Settings(S1, THREE), history, LEADER, ZERO, out, T0)
    for step in steps:
        if isinstance(step, int):
            history.log_synced(step)
            role.log_synced()
        else:
            role.receive(step, T0)
    return role, history, out


@pytest.mark.parametrize(
    ("steps", "emitted"),
    [
        # A batch is logged whole, and acked only once the disk has it.
        ([AB],                         [LOG_AB]),
        ([AB, Z2],                     [LOG_AB, ack(Z2)]),
        # One sync, and so one ack, may cover several batches or a part of one.
        ([AB, C, Z3],                  [LOG_AB, LOG_C, ack(Z3)]),
        ([AB, Z1, Z2],                 [LOG_AB, ack(Z1), ack(Z2)]),
        ([AB, Z2, Z2],                 [LOG_AB, ack(Z2)]),
        # A commit covers all up to it, and may overtake our own disk: a quorum has the txns.
        ([AB, Commit(Z2), Z2],         [LOG_AB, Deliver(Z1, [b"a", b"b"]), ack(Z2)]),
        ([AB, Commit(Z1), Commit(Z2)], [LOG_AB, Deliver(Z1, [b"a"]), Deliver(Z2, [b"b"])]),
        # The log is told what is committed.
        ([AB, Commit(Z2), C],          [LOG_AB, Deliver(Z1, [b"a", b"b"]), Append(Z3, [b"c"], Z2)]),
        # What came before changes nothing; what overlaps adds only its new part.
        ([AB, AB],                     [LOG_AB, TraceEvent(trace_events.PROPOSAL_DUPLICATE, Z1)]),
        ([AB, Proposals(Z2, [b"b", b"c"])], [LOG_AB, LOG_C]),
        ([AB, Commit(Z1), Commit(Z1)], [LOG_AB, Deliver(Z1, [b"a"]),
                                        TraceEvent(trace_events.COMMIT_DUPLICATE, Z1)]),
        # A ping is answered with its number.
        ([Ping(9)],                    [Send(LEADER, Pong(9))]),
    ],
)  # fmt: skip
def test_emits(steps: list[Step], emitted: list[Effect]) -> None:
    begun = len(follow()[2])
    assert follow(*steps)[2][begun:] == emitted


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ([], C),                               # a gap
        ([], Commit(Z1)),                      # a commit of nothing
        ([AB], Commit(Z3)),                    # a commit of what we were never sent
        ([AB], Commit(z(8, 0))),               # or of what nobody was
        ([], Proposals(z(8, 1), [b"x"])),      # a new epoch without a new synchronization
    ],
)  # fmt: skip
def test_refuses_and_keeps_its_state(before: list[Step], refused: FollowerBroadcastMessage) -> None:
    role, history, out = follow(*before)
    was = (history.logged, history.synced, history.delivered, list(out))
    with pytest.raises(PeerProtocolError):
        role.receive(refused, Millis(T0 + 1))
    assert (history.logged, history.synced, history.delivered, out) == was
    assert role.last_received_at == T0


def test_an_illegal_message_of_the_leader_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        follow(Pong(1))  # type: ignore[arg-type]
