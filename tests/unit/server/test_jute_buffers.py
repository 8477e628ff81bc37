"""What ZooKeeper's clients make a server keep: the sum, and who goes first above the bound."""

from msgspec.structs import replace

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import GetDataResponse, PathWatchRequest, SetDataRequest
from raykeeper.server import server_trace_events
from raykeeper.server.client_send_queues import FRAME_BYTES_MAX, JUTE_UNSENT_BYTES
from raykeeper.server.context import ZooKeeperOptions
from raykeeper.server.events import ClientBytesSent, JuteBytesArrived
from raykeeper.server.jute_buffers import FREE_BYTES, JuteBuffers
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import OPTIONS, PureServer

VALUE = bytes(100_000)


def test_what_each_keeps_above_its_free_bytes_is_added_up() -> None:
    buffers = JuteBuffers(10)
    buffers.note(1, FREE_BYTES)
    buffers.note(2, FREE_BYTES + 10)
    assert buffers.bytes == 10 and not buffers.is_full and buffers.largest() == []
    buffers.note(3, FREE_BYTES + 1)
    assert buffers.is_full
    buffers.note(2, FREE_BYTES + 4)
    assert buffers.bytes == 5 and not buffers.is_full
    buffers.note(2, 0)
    buffers.discard(3)
    buffers.discard(3)
    assert buffers.bytes == 0


def test_the_largest_go_until_the_others_fit() -> None:
    buffers = JuteBuffers(10)
    for number, size in ((1, 3), (2, 8), (3, 5), (4, 6)):
        buffers.note(number, FREE_BYTES + size)
    assert buffers.largest() == [2, 4]
    buffers.discard(2)
    assert buffers.largest() == [4]


def test_all_go_if_none_may_keep_anything() -> None:
    buffers = JuteBuffers(0)
    for number in (1, 2):
        buffers.note(number, FREE_BYTES + number)
    assert buffers.largest() == [2, 1]


def server(bytes_max: int) -> PureServer:
    options = replace(OPTIONS, zookeeper=ZooKeeperOptions(buffer_bytes_max=bytes_max))
    return PureServer(options=options)


def kept(host: PureServer) -> int:
    return host.server._context.jute_buffers.bytes


def limited(host: PureServer) -> list[int]:
    """The connections that were closed for what they made the server keep."""
    found = []
    for number, reason in host.notes(server_trace_events.CLIENT_LIMITED):  # type: ignore[misc]
        assert "zookeeper_buffer_bytes is" in reason
        found.append(number)
    return found


def reading(caller: JuteCaller) -> None:
    """Let the client take everything that was sent to it."""
    host, number = caller.host, caller.connection
    host.step(ClientBytesSent(number, host.unsent.pop(number)))


def clients(host: PureServer, count: int) -> list[JuteCaller]:
    """Clients with sessions that have taken everything so far."""
    found = [connected(host, number) for number in range(1, count + 1)]
    for each in found:
        reading(each)
    return found


def test_a_request_that_has_not_arrived_as_a_whole_is_kept() -> None:
    host = server(60_000)
    callers = clients(host, 3)
    frames = [each.frame(OpCode.SET_DATA, SetDataRequest("/", VALUE, -1)) for each in callers]
    for caller, frame, size in zip(callers, frames, (70_000, 90_000, 80_000), strict=True):
        caller.raw(frame[:size])
    assert kept(host) == 240_000 - 3 * FREE_BYTES and limited(host) == []
    callers[2].raw(frames[2][80_000:-1])
    assert limited(host) == [3], "the one that keeps the most"
    assert [each.is_closed for each in callers] == [False, False, True]
    callers[0].raw(frames[0][70_000:])
    assert callers[0].read()[0].err == 0


def test_replies_that_are_not_read_are_kept_and_others_are_answered() -> None:
    host = server(200_000)
    silent, small = clients(host, 2)
    host.stuck |= {1: None, 2: None}
    assert small.set("/", VALUE).err == 0
    read = PathWatchRequest("/", False)
    for _ in range(2):
        silent.send(OpCode.GET_DATA, read)
    assert len(silent.read()) == 2 and limited(host) == []
    assert kept(host) > 200_000 - FREE_BYTES
    reading(silent)
    assert kept(host) == 0
    for _ in range(3):
        silent.send(OpCode.GET_DATA, read)
    assert limited(host) == [1] and silent.is_closed and not small.is_closed
    answer = small.get("/")
    assert isinstance(answer.body, GetDataResponse) and answer.body.data == VALUE


def test_what_a_client_does_not_take_is_not_encoded() -> None:
    host = server(1 << 30)
    (caller,) = clients(host, 1)
    assert caller.set("/", VALUE).err == 0
    reading(caller)
    host.stuck[1] = None
    count, taken = 60, 0
    for _ in range(count):
        caller.send(OpCode.GET_DATA, PathWatchRequest("/", False))
    assert len(caller.read()) == 1 + JUTE_UNSENT_BYTES // len(VALUE)
    while host.unsent.get(1):
        assert host.unsent[1] < JUTE_UNSENT_BYTES + FRAME_BYTES_MAX + 1_000
        reading(caller)
        taken += len(caller.read())
    taken += 1 + JUTE_UNSENT_BYTES // len(VALUE)
    assert taken == count and kept(host) == 0 and limited(host) == []


def test_replies_of_one_step_wait_when_the_buffers_are_full() -> None:
    """They are not all encoded at once; each of the others gets its reply in a later step."""
    host = server(100_000)
    callers = clients(host, 6)
    host.stuck |= dict.fromkeys(range(1, 7))
    assert callers[0].set("/", VALUE).err == 0
    reading(callers[0])
    frames = [each.frame(OpCode.GET_DATA, PathWatchRequest("/", False)) for each in callers]
    host.step(
        *(JuteBytesArrived(each.connection, x) for each, x in zip(callers, frames, strict=True))
    )
    sent = sum(len(host.streams[each.connection]) > len(VALUE) for each in callers)
    assert sent < len(callers), "some wait"
    assert kept(host) <= 100_000
    for _ in range(20):
        for each in callers:
            if not each.is_closed and each.connection in host.unsent:
                reading(each)
    closed = set(limited(host))
    assert 0 < len(closed) < len(callers)
    for each in callers:
        if each.connection not in closed:
            (answer,) = each.read()
            assert isinstance(answer.body, GetDataResponse) and answer.body.data == VALUE


def test_a_client_whose_reply_waits_for_the_buffers_can_be_the_one_that_goes() -> None:
    host = server(10_000)
    (caller,) = clients(host, 1)
    read = caller.frame(OpCode.GET_DATA, PathWatchRequest("/", False))
    write = caller.frame(OpCode.SET_DATA, SetDataRequest("/", VALUE, -1))
    caller.raw(read + write[:-1])
    assert limited(host) == [1] and caller.is_closed and caller.read() == []


def test_requests_that_are_not_answered_are_kept() -> None:
    host = server(300_000)
    (caller,) = clients(host, 1)
    host.is_disk_held = True
    frame = caller.frame(OpCode.SET_DATA, SetDataRequest("/", VALUE, -1))
    caller.raw(2 * frame)
    assert kept(host) == 2 * (len(frame) - 4) - FREE_BYTES
    host.release_disk()
    assert kept(host) == 0
    host.is_disk_held = True
    caller.raw(4 * frame)
    assert limited(host) == [1] and caller.is_closed


def test_the_names_of_a_list_that_is_not_complete_are_kept() -> None:
    options = replace(OPTIONS, page_names=3, zookeeper=ZooKeeperOptions(buffer_bytes_max=100))
    host = PureServer(options=options)
    caller, other = clients(host, 2)
    assert other.create("/p").err == 0
    for number in range(1000):
        assert other.create(f"/p/{number:04}" + 60 * "x").err == 0
        reading(other)
    caller.send(OpCode.GET_CHILDREN, PathWatchRequest("/p", False))
    assert caller.is_closed and limited(host) == [1]
    assert other.exists("/p").err == 0
