"""ClientCore: the end of a session by its owner."""

import pytest

from raykeeper.client.core.effects import (
    CloseLink,
    Complete,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import (
    ClosedError,
    Code,
)
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    EventType,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Exists,
    GetData,
)
from tests.unit.client.wire import CLOSED, SESSION, SET, Wire, Z, done, write


def test_close_waits_for_earlier_requests() -> None:
    wire = Wire().serving()
    wire.submit(SET)
    assert wire.close() == [ClientFrame(2, [write(2, CloseSession())])]
    (refused,) = wire.submit(SET)
    assert isinstance(refused.error, ClosedError)
    assert "closed" in str(refused.error)
    completed, closing, lost = wire.items(done(1), done(2), EmptyReply(77, Z[2]))[:3]
    assert completed == Complete(SET, done(1))
    assert isinstance(closing, CloseLink)
    assert lost == CLOSED


def test_close_calls_the_watchers() -> None:
    wire = Wire().serving()
    wire.watching(Query(GetData, "/a", "w"), Query(Exists, "/a", "w"))
    wire.close()
    *_, fired = wire.items(done(1))
    assert fired.watchers == ["w"]
    assert fired.event.type is EventType.NONE


def test_close_is_sent_again_like_any_write() -> None:
    wire = Wire().serving()
    wire.close()
    (again,) = wire.reconnected()
    assert again.requests == [write(1, CloseSession())]
    assert wire.items(done(1))[-1] == CLOSED


def test_an_expired_session_counts_as_closed() -> None:
    wire = Wire().serving()
    wire.close()
    wire.failed()
    wire.opened()
    answer = ConnectReply(Code.SESSION_EXPIRED, SESSION, Millis(0), ZERO, 0)
    assert wire.told(answer)[-1] == CLOSED


def test_close_is_bounded_in_time() -> None:
    wire = Wire(request_timeout_ms=500).serving()
    wire.submit(SET)
    wire.failed()
    wire.close()
    assert wire.core.deadline() == 1500
    _, lost, end = wire.at(1500).wake()
    assert lost == CLOSED
    assert (type(end.error), end.error.definite) == (ClosedError, False)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_client_may_close_before_its_session_is_open(steps: int) -> None:
    wire = Wire()
    wire.core.submit(SET, SET, wire.now)
    for step in (wire.start, wire.opened)[:steps]:
        step()
    *before, lost, end = wire.close()
    assert [type(effect) for effect in before] == ([CloseLink] if steps else [])
    assert lost == CLOSED
    assert (type(end.error), end.error.definite) == (ClosedError, True)


def test_a_client_may_close_during_its_backoff() -> None:
    wire = Wire(servers=1)
    wire.start()
    wire.failed()
    assert wire.close() == [CLOSED]


def test_a_refused_close_closes() -> None:
    wire = Wire().serving()
    wire.close()
    assert wire.items(done(1, Code.SESSION_EXPIRED))[-1] == CLOSED
