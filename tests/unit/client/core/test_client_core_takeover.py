"""ClientCore: taking a session over, and having it taken."""

from raykeeper.client.core.effects import OpenLink
from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.client.errors import AuthFailedError, SessionMovedError
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import CloseFrame, ConnectReply
from raykeeper.znodes.requests import ClientFrame, Connect
from tests.unit.client.wire import (
    CONNECTED,
    PASSWORD,
    SESSION,
    SET,
    SUSPENDED,
    S,
    Wire,
    Z,
    done,
    write,
)

OTHER = ClientId(SESSION, b"the former one\0\0")


def taking(attempt: int) -> Connect:
    return Connect(SESSION, OTHER.password, Millis(S), ZERO, attempt, PASSWORD)


def test_a_takeover_goes_on_with_the_numbers_of_the_session() -> None:
    wire = Wire(taken=OTHER)
    wire.start()
    assert wire.opened() == [taking(1)]
    wire.failed("its answer is lost")
    assert wire.opened() == [taking(2)]
    assert wire.connected(last=7) == [CONNECTED]
    assert wire.core.client_id == ClientId(SESSION, PASSWORD)
    assert wire.submit(SET) == [ClientFrame(1, [write(8, acked=7)])]
    wire.items(done(8))
    wire.failed()
    assert wire.opened() == [Connect(SESSION, PASSWORD, Millis(S), Z[2], 3)]
    assert wire.connected(last=8) == [CONNECTED]
    assert wire.submit(SET) == [ClientFrame(2, [write(9, acked=8)])]


def test_a_wrong_password_fences_nobody() -> None:
    wire = Wire(taken=OTHER)
    wire.start()
    wire.opened()
    _, lost = wire.told(ConnectReply(Code.AUTH_FAILED, SESSION, Millis(0), ZERO, 0))
    assert type(lost.cause) is AuthFailedError


def test_a_handle_closed_before_the_takeover_leaves_the_session_alone() -> None:
    wire = Wire(taken=OTHER)
    wire.start()
    wire.opened()
    assert [type(effect).__name__ for effect in wire.close()] == ["CloseLink", "ChangeState"]


def test_the_former_owner_learns_that_its_session_moved() -> None:
    wire = Wire().serving()
    wire.submit(SET)
    _, suspended, opening = wire.told(CloseFrame(Code.SESSION_MOVED))
    assert suspended == SUSPENDED and isinstance(opening, OpenLink)
    wire.opened()
    _, lost, failed = wire.told(ConnectReply(Code.AUTH_FAILED, SESSION, Millis(0), ZERO, 0))
    assert lost.state is ClientState.LOST
    assert type(lost.cause) is type(failed.error) is SessionMovedError
    assert not failed.error.definite
    (late,) = wire.submit(SET)
    assert type(late.error) is SessionMovedError
