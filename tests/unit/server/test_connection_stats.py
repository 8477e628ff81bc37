"""What is known of each connection."""

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import SetDataRequest
from raykeeper.server.connection_stats import ResponseStats
from raykeeper.zab.ids import Millis
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import PureServer

WALL = 1_700_000_000_000
"""What the clock of the tests calls its beginning."""


def test_a_client_of_zookeeper_is_known_by_its_last_operation() -> None:
    host = PureServer()
    caller = connected(host)
    (known,) = host.server.connection_stats()
    zxid = host.server.state.zxid
    assert known.responses == ResponseStats("SESS", 0, zxid, Millis(WALL), 0, 0, 0, 0)
    assert (known.host, known.port, known.is_read) == ("10.0.0.1", 4000, True)
    assert (known.session_id, known.timeout_ms) == (caller.session_id, 10_000)
    host.is_disk_held = True
    host.clock.now = Millis(host.clock.now + 10)
    caller.send(OpCode.PING)
    caller.raw(caller.frame(OpCode.WHO_AM_I))
    (known,) = host.server.connection_stats()
    assert known.responses is not None and known.responses.operation == "HOMI"
    assert known.opened_at_ms == WALL


def test_the_latencies_of_a_client_of_zookeeper_are_its_own() -> None:
    host = PureServer()
    caller = connected(host)
    host.is_disk_held = True
    caller.raw(caller.frame(OpCode.SET_DATA, SetDataRequest("/", b"1", -1), xid=7))
    host.clock.now = Millis(host.clock.now + 30)
    host.release_disk()
    (known,) = host.server.connection_stats()
    responses = known.responses
    assert responses is not None
    assert (responses.operation, responses.xid, responses.took_ms) == ("SETD", 7, 30)
    assert (responses.min_ms, responses.average_ms, responses.max_ms) == (0, 15, 30)
    assert responses.at_ms == WALL + 30


def test_a_ping_is_an_operation_without_a_number() -> None:
    host = PureServer()
    caller = connected(host)
    host.clock.now = Millis(host.clock.now + 5)
    caller.send(OpCode.PING)
    host.pass_time(500)
    (known,) = host.server.connection_stats()
    assert known.responses is not None
    assert (known.responses.operation, known.responses.xid) == ("PING", 0)
    assert known.responses.took_ms > 0


def test_a_connection_that_waits_for_its_session_has_none() -> None:
    host = PureServer()
    host.is_disk_held = True
    JuteCaller(host, 3).connect()
    host.caller(4)
    of_zookeeper, native = host.server.connection_stats()
    assert (of_zookeeper.session_id, of_zookeeper.timeout_ms) == (0, 0)
    assert of_zookeeper.responses is not None and of_zookeeper.responses.operation == "NA"
    assert native.responses is None and native.port == 0
