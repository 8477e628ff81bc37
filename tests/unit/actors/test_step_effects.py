"""The order in which the shell performs the effects of a step."""

import pytest

from raykeeper.actors.step_effects import StepEffects, sort_effects
from raykeeper.server.effects import CloseClient, Effect, Restart, SendClient, SendPeer
from raykeeper.zab.effects import Append, BreakLink, SaveEpochs, TraceEvent
from raykeeper.zab.ids import Epoch, ServerId, Zxid
from raykeeper.zab.messages import Ack, Commit

ONE, TWO = ServerId(1), ServerId(2)
ACK, COMMIT = Ack(Zxid(7)), Commit(Zxid(7))
TO_CLIENT, TO_ANOTHER, CLOSE = SendClient(5, b"a"), SendClient(6, b"b"), CloseClient(5)
TRACE = TraceEvent("something", None)
APPEND, SAVE = Append(Zxid(8), [b"t"], Zxid(7)), SaveEpochs(Epoch(1), Epoch(1))
BREAK = BreakLink(ONE, "it lies")
RESTART = Restart("the disk has space again", wipe_disk=False)


@pytest.mark.parametrize(
    ("effects", "found"),
    [
        ([], StepEffects()),
        # Those on clients keep their order, beside whatever stands between them.
        (
            [TO_CLIENT, SendPeer(ONE, ACK), TRACE, APPEND, TO_ANOTHER, CLOSE],
            StepEffects([(ONE, [ACK])], [TO_CLIENT, TRACE, TO_ANOTHER, CLOSE], [APPEND]),
        ),
        # Messages to one server leave together, in order.
        (
            [SendPeer(ONE, ACK), SendPeer(TWO, ACK), APPEND, SendPeer(ONE, COMMIT), SAVE],
            StepEffects([(ONE, [ACK, COMMIT]), (TWO, [ACK])], [], [APPEND, SAVE]),
        ),
        # What was sent before the link breaks leaves before that, and nothing later with it.
        (
            [SendPeer(ONE, ACK), SendPeer(TWO, ACK), BREAK, SendPeer(ONE, COMMIT)],
            StepEffects([(ONE, [ACK]), (TWO, [ACK]), (ONE, BREAK), (ONE, [COMMIT])], [], []),
        ),
        # Nothing follows the end of the process; clients and the disk get what came before.
        (
            [SendPeer(ONE, ACK), TO_CLIENT, APPEND, RESTART, TO_ANOTHER, SAVE, SendPeer(TWO, ACK)],
            StepEffects([], [TO_CLIENT], [APPEND], RESTART),
        ),
    ],
)
def test_the_effects_of_a_step(effects: list[Effect], found: StepEffects) -> None:
    assert sort_effects(effects) == found
