"""Hostile clients of ZooKeeper's port, over TCP: memory stays bounded, and others are answered.

Beside each crowd stand a native client and one of ZooKeeper's that behaves. A server in a thread of
this process serves all of them, so what Python allocates here is the server's and the crowd's.
"""

import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import pytest
from msgspec.structs import replace

from raykeeper.jute.frames import (
    FrameReader,
    decode_connect_response,
    decode_reply,
    encode_connect,
    encode_request,
)
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    ConnectRequest,
    CreateRequest,
    PathWatchRequest,
    SetDataRequest,
)
from raykeeper.links.jute_listener import LINGER_BYTES
from raykeeper.server import server_trace_events
from raykeeper.server.context import ZooKeeperOptions
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ConnectReply, ServerFrame, WriteReply, decode_server_frame
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    SessionId,
    SetData,
    Write,
    encode_client_frame,
    encode_op,
)
from tests.harness.jute_port import JutePort
from tests.harness.pure_servers import OPTIONS

PATIENCE_S = 30.0
HELLO = encode_connect(ConnectRequest(0, 0, 60_000, 0, bytes(16), False))
VALUE = bytes(1_000_000)
BUFFER_BYTES = 16 << 20
MEMORY_BYTES = BUFFER_BYTES + LINGER_BYTES + (24 << 20)
"""The bound, what closed connections may still have, and the replies of one step."""
LENGTHS = -1, -(1 << 31), (1 << 31) - 1, 1 << 20


class Native:
    """A native client that sets one znode."""

    def __init__(self, port: JutePort) -> None:
        self._port = port
        self._numbers = count(1)
        port.send_native(
            encode_client_frame(Connect(SessionId(0), bytes(16), Millis(60_000), ZERO))
        )
        reply = decode_server_frame(port.native.get(timeout=PATIENCE_S))
        assert isinstance(reply, ConnectReply) and reply.code == Code.OK

    def set(self) -> None:
        """Set the znode, and wait for the answer."""
        number = next(self._numbers)
        op = encode_op(SetData("/", b"%d" % number, -1))
        self._port.send_native(
            encode_client_frame(ClientFrame(number, [Write(number, number - 1, op)]))
        )
        while True:
            frame = decode_server_frame(self._port.native.get(timeout=PATIENCE_S))
            assert isinstance(frame, ServerFrame), frame
            for item in frame.items:
                assert isinstance(item, WriteReply) and (item.number, item.code) == (number, 0)
                return


class Guest:
    """A connection of ZooKeeper's protocol; it reads when it is told to."""

    def __init__(self, port: JutePort, *, has_session: bool = True) -> None:
        host, _, number = port.address.rpartition(":")
        self.socket = socket.create_connection((host, int(number)), PATIENCE_S)
        self._reader = FrameReader(1 << 30)
        if has_session:
            self.socket.sendall(HELLO)
            assert decode_connect_response(self.frame()).timeout > 0

    def frame(self) -> bytes:
        """Read a frame."""
        while (payload := self._reader.next()) is None:
            data = self.socket.recv(1 << 16)
            assert data, "the server ended the connection"
            self._reader.feed(data)
        return payload

    def set(self) -> None:
        """Set the znode of all, and wait for the answer."""
        self.socket.sendall(encode_request(1, OpCode.SET_DATA, SetDataRequest("/", b"", -1)))
        assert decode_reply(self.frame(), OpCode.SET_DATA).header.err == 0

    def is_ended(self) -> bool:
        """Read what comes, and whether the server ends the connection; waits for it."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True


class Scene:
    """A port, a client of each kind that behaves, and a crowd."""

    def __init__(self, port: JutePort, stack: ExitStack) -> None:
        self.port = port
        self.native = Native(port)
        self._stack = stack
        self.guest = self.open()
        value = CreateRequest("/value", VALUE, list(OPEN_ACL), 0)
        self.guest.socket.sendall(encode_request(1, OpCode.CREATE, value))
        assert decode_reply(self.guest.frame(), OpCode.CREATE).header.err == 0
        tracemalloc.start()
        stack.callback(tracemalloc.stop)

    def open(self, *, has_session: bool = True) -> Guest:
        guest = Guest(self.port, has_session=has_session)
        self._stack.callback(guest.socket.close)
        return guest

    def check(self) -> None:
        """Whether both clients are answered, and never more memory was taken than is allowed."""
        self.native.set()
        self.guest.set()
        _, most = tracemalloc.get_traced_memory()
        assert most < MEMORY_BYTES, f"{most >> 20} MiB"

    def limited(self) -> int:
        """How many connections were closed for what all of them made the server keep."""
        reasons = [
            each.detail[1]
            for each in self.port.traced
            if each.name == server_trace_events.CLIENT_LIMITED
        ]
        assert all("zookeeper_buffer_bytes is" in reason for reason in reasons), reasons
        return len(reasons)


@contextmanager
def scene(**bounds: int) -> Iterator[Scene]:
    options = replace(OPTIONS, zookeeper=ZooKeeperOptions(buffer_bytes_max=BUFFER_BYTES))
    with JutePort(options=options, **bounds) as port, ExitStack() as stack:
        yield Scene(port, stack)


@pytest.fixture
def crowded() -> Iterator[Scene]:
    with scene() as opened:
        yield opened


def test_connections_that_never_speak_keep_nobody_out() -> None:
    with scene(without_session_max=50) as crowded:
        silent = [crowded.open(has_session=False) for _ in range(200)]
        crowded.check()
        crowded.open().set()
        assert all(each.is_ended() for each in silent[:150])
        crowded.check()


@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_that_lies_ends_its_own_connection(crowded: Scene, length: int) -> None:
    frame = length.to_bytes(4, signed=True)
    for round_number in range(30):
        guest = crowded.open(has_session=round_number % 2 == 1)
        guest.socket.sendall(frame + bytes(100))
        assert guest.is_ended()
        guest.socket.close()
    crowded.check()


def test_slow_senders_are_answered_in_the_end(crowded: Scene) -> None:
    slow = [crowded.open() for _ in range(5)]
    for byte in encode_request(1, OpCode.GET_DATA, PathWatchRequest("/value", False)):
        for each in slow:
            each.socket.sendall(bytes([byte]))
        crowded.check()
    for each in slow:
        reply = decode_reply(each.frame(), OpCode.GET_DATA)
        assert reply.header.err == 0


def test_halves_of_requests_are_kept_up_to_the_bound(crowded: Scene) -> None:
    frame = encode_request(1, OpCode.SET_DATA, SetDataRequest("/value", VALUE, -1))
    for _ in range(60):
        crowded.open().socket.sendall(frame[:-1])
        crowded.check()
    assert crowded.limited() >= 60 - BUFFER_BYTES // len(VALUE) - 2


def many_reads() -> bytes:
    read = encode_request(1, OpCode.GET_DATA, PathWatchRequest("/value", False))
    return 20 * read


def one_multi_read() -> bytes:
    reads = [Operation(OpCode.GET_DATA, PathWatchRequest("/value", False))] * 1000
    return 5 * encode_request(1, OpCode.MULTI_READ, MultiRequest(reads))


@pytest.mark.parametrize("asked", [many_reads, one_multi_read])
def test_clients_that_never_read_are_kept_up_to_the_bound(
    crowded: Scene, asked: Callable[[], bytes]
) -> None:
    frames = asked()
    for _ in range(70):
        crowded.open().socket.sendall(frames)
        crowded.check()
    assert crowded.limited() >= 40
