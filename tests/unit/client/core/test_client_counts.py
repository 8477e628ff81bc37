"""ClientCounts: what a handle counts on its way over many connections."""

from raykeeper.client.core.client_counts import ClientCounts
from raykeeper.client.core.outstanding import Query
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import CloseFrame, ErrorReply, GetDataReply, WriteReply
from raykeeper.znodes.requests import GetChildren, GetData, Sync
from tests.unit.client.wire import SET, STAT, Wire, Z, done


def test_an_answered_request_counts_once_however_often_it_was_sent() -> None:
    wire = Wire().serving()
    wire.submit(SET, Query(GetData, "/a"), SET)
    assert wire.core.counts.by_outcome() == {}
    wire.reconnected()
    wire.items(done(1), GetDataReply(1, Z[2], b"", STAT), WriteReply(2, Z[3], -103, "", None))
    assert wire.core.counts.by_outcome() == {
        ("write", "ok"): 1,
        ("write", "bad_version"): 1,
        ("get_data", "ok"): 1,
    }


def test_an_error_counts_by_its_code() -> None:
    wire = Wire().serving()
    wire.submit(Query(GetChildren, "/a"), Query(GetData, "/a"), Query(Sync, "/"))
    wire.items(*(ErrorReply(n, Z[2], Code.NO_NODE) for n in (1, 2)), ErrorReply(3, Z[2], -999))
    assert {k: n for k, n in wire.core.counts.by_outcome().items() if n} == {
        ("get_children", "no_node"): 1,
        ("get_data", "no_node"): 1,
        ("other", "-999"): 1,
    }


def test_the_time_without_a_connection_begins_with_the_handle_and_with_each_loss() -> None:
    wire = Wire().at(1_000)
    wire.start()
    counts = wire.core.counts
    assert counts.is_without_connection()
    wire.at(1_300).opened()
    wire.connected()
    assert (counts.connects, counts.without_ms) == (1, 300)
    assert not counts.is_without_connection()
    assert counts.without_connection_ms(Millis(9_999)) == 300
    wire.at(2_000).failed()
    assert counts.is_without_connection()
    assert counts.without_connection_ms(Millis(2_400)) == 700
    wire.at(2_500).opened()
    wire.connected()
    assert (counts.connects, counts.without_connection_ms(Millis(3_000))) == (2, 800)


def test_a_session_that_the_servers_end_is_lost_and_one_that_is_closed_is_not() -> None:
    lost, closed = Wire().serving(), Wire().serving()
    lost.told(CloseFrame(Code.SESSION_EXPIRED))
    closed.close()
    closed.told(CloseFrame(Code.SESSION_EXPIRED))
    assert (lost.core.counts.losses, closed.core.counts.losses) == (1, 0)


def test_a_gap_begins_with_its_first_loss() -> None:
    counts = ClientCounts()
    counts.on_disconnected(Millis(500))
    counts.on_disconnected(Millis(700))
    counts.on_connected(Millis(900))
    assert counts.without_ms == 400
