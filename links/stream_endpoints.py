"""The two ends that open a stream: a quick carrier from process to process, without Ray between.

A server listens at the address of its Ray node, on a port that the system picks, and gives address
and key to everyone who can call its actor (`StreamAddress`). Both ends prove that they have the key
before anything is parsed (`stream_auth`), all of it inside TLS if Ray uses TLS (`stream_socket`);
then the dialer says its hello, and the link is open (`stream_link`).

A listener with more connections than it handles lets them wait (`HandshakeQueue`), and when the
queue is full tells dialers that it is busy. A client then comes again after a pause, because what
it has reached is the server. Between servers any link at once counts for more than its carrier.

Invariants: from a connection without a proof no more is read than a proof and a hello may take,
nothing of it is parsed, and it is closed when it takes too long; no length that the other end
announces is believed beyond a bound. A dial of a client ends in `StreamUnavailable` only if nobody
has proved there to be the server.
"""

import asyncio
import errno
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import Struct

from raykeeper.links.busy_pauses import BusyPauses
from raykeeper.links.contract import Acceptor, LinkEvents, LinkRefused, LinkUnreachable
from raykeeper.links.handshake import (
    LinkDialer,
    acceptor_queue_bytes,
    allowed_keepalive_s,
    read_hello,
    welcome_from,
)
from raykeeper.links.handshake_queue import HandshakeQueue
from raykeeper.links.hello import Hello, LinkKind, Refusal, Welcome, encode_hello
from raykeeper.links.limits import (
    ACCEPT_BACKLOG,
    BUSY_REPORT_S,
    CLIENT_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    GRACE_MS,
    HANDSHAKE_MS,
    HANDSHAKES_MAX,
    HANDSHAKES_WAITING_MAX,
    HELLO_BYTES_MAX,
    QUEUE_BYTES_MAX,
    STREAM_OPEN_MS,
    STREAM_SILENCES_MAX,
    STREAM_TURN_MS,
)
from raykeeper.links.shared_ticks import ticks_of_running_loop
from raykeeper.links.stream_auth import (
    MAGIC,
    NONCE_BYTES,
    PROOF_BYTES,
    Role,
    busy_notice,
    is_valid_proof,
    new_key,
    new_nonce,
    proof,
)
from raykeeper.links.stream_frames import HEAD_BYTES, encode_frame
from raykeeper.links.stream_link import StreamLink
from raykeeper.links.stream_socket import (
    TLS_BUSY_NOTICE,
    BusyAlertError,
    StreamSocket,
    tls_context,
)
from raykeeper.zab.ids import ServerId

FIRST_BYTES = len(MAGIC) + NONCE_BYTES
"""Size of a dialer's first message; the first message of TLS is longer."""
KEEPALIVE_BYTES = 4
"""Size of the dialer's keepalive interval, in front of its hello."""
INTRODUCTION_BYTES_MAX = KEEPALIVE_BYTES + HEAD_BYTES + HELLO_BYTES_MAX
"""Size of what follows a dialer's proof, which mostly arrives together with it."""
NO_ROOM = "the server has no room for one more handshake now"
TLS_HELLO_BYTES_MAX = 16 << 10
ACCEPT_PAUSE_S = 0.1
ACCEPTED_MAX = 16
"""Connections that are accepted before others have their turn. A crowd that comes back to a starved
machine must leave the server turns short enough to answer its peers: with 64 a turn took 50 ms of
the processor, for which a server among many other processes waits half a second."""


class StreamAddress(Struct, frozen=True):
    """Where a server listens, and the key that opens. Keep it secret."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"StreamAddress({self.host}:{self.port})"


class StreamUnavailable(LinkUnreachable):
    """Raised when the server can perhaps be reached, but not by a stream.

    The caller should try another carrier.
    """


class StreamBusy(LinkUnreachable):
    """Raised when the server was reached, but has no room for one more handshake, or is too slow.

    The caller should try again later, over a stream.
    """


class StreamListener:
    """The end that is dialed."""

    def __init__(
        self,
        acceptor: Acceptor,
        host: str,
        client_queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
        handshake_ms: int = HANDSHAKE_MS,
        handshakes_max: int = HANDSHAKES_MAX,
        waiting_max: int = HANDSHAKES_WAITING_MAX,
        log: Callable[..., None] | None = None,
    ) -> None:
        """Listen on the running loop, in the name of `acceptor`.

        Args:
            acceptor: Takes the links.
            host: An address of this machine.
            client_queue_bytes_max: How many bytes may wait on a link to a client.
            grace_ms: How much later than the keepalive interval a sign of life may come.
            handshake_ms: How long a dialer may take to speak, and for its handshake.
            handshakes_max: How many handshakes may be under way.
            waiting_max: How many connections may wait for theirs.
            log: Takes a name and fields for a log line.

        Raises:
            OSError: the address is not one of this machine, or Ray's TLS files cannot be used.
        """
        self._acceptor = acceptor
        self._client_queue_bytes_max = client_queue_bytes_max
        self._grace_s = grace_ms / 1000
        self._handshake_s = handshake_ms / 1000
        self._tls = tls_context(is_acceptor=True)
        self._queue = HandshakeQueue(
            self._handle_connection,
            self._send_away,
            self._on_full,
            first_bytes=FIRST_BYTES,
            silence_s=self._handshake_s,
            turns_max=handshakes_max,
            waiting_max=waiting_max,
        )
        self._waiting_max = waiting_max
        self._log = log or (lambda *_, **__: None)
        self._sent_away = 0  # since the last report
        self._next_report: asyncio.TimerHandle | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=ACCEPT_BACKLOG)
        self._socket.setblocking(False)
        self.address = StreamAddress(host, self._socket.getsockname()[1], new_key())
        self._busy_notice = TLS_BUSY_NOTICE if self._tls else busy_notice(self.address.key)
        self._loop = asyncio.get_running_loop()
        self._ticks = ticks_of_running_loop()
        self._is_closed = False
        self._listen()

    def close(self) -> None:
        """Accept nothing more; links that are open stay open."""
        self._is_closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._queue.close()
        if self._next_report is not None:
            self._next_report.cancel()

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._socket.fileno(), self._accept_waiting)

    def _accept_waiting(self) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                connected, _address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:
                # Most likely no file descriptor is left; some will be closed.
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(ACCEPT_PAUSE_S, self._listen)
                return
            self._queue.add(connected)

    def _send_away(self, connected: socket.socket) -> None:
        # A close before all is read would reset the connection, perhaps before the notice is read.
        with suppress(OSError):
            connected.recv(TLS_HELLO_BYTES_MAX)
        with suppress(OSError):  # the dialer is gone
            connected.send(self._busy_notice)
        connected.close()

    def _on_full(self) -> None:
        self._sent_away += 1
        if self._next_report is None:
            self._report_sent_away()

    def _report_sent_away(self) -> None:
        self._next_report = None
        if self._sent_away:
            self._log("streams.busy", sent_away=self._sent_away, waiting_max=self._waiting_max)
            self._sent_away = 0
            self._next_report = self._loop.call_later(BUSY_REPORT_S, self._report_sent_away)

    async def _handle_connection(self, connected: socket.socket) -> None:
        stream = None
        try:
            stream = StreamSocket(connected, self._tls)
            async with asyncio.timeout(self._handshake_s):
                hello, keepalive_s = await self._handshake(stream)
            await self._accept(stream, hello, keepalive_s)
        # The dialer is gone, slow, or no part of this ensemble.
        except (OSError, TimeoutError, _HandshakeFailed):
            (stream or connected).close()
        except asyncio.CancelledError:
            (stream or connected).close()
            raise

    async def _handshake(self, stream: StreamSocket) -> tuple[Hello, float]:
        await stream.encrypt()
        key, nonce = self.address.key, new_nonce()
        first = await stream.read(FIRST_BYTES)
        if not first.startswith(MAGIC):
            raise _HandshakeFailed
        dialer_nonce = first[len(MAGIC) :]
        await stream.write(nonce + proof(key, Role.ACCEPTOR, dialer_nonce, nonce))
        received = await stream.read(PROOF_BYTES, ahead=INTRODUCTION_BYTES_MAX)
        if not is_valid_proof(received, key, Role.DIALER, dialer_nonce, nonce):
            raise _HandshakeFailed
        head = await stream.read(KEEPALIVE_BYTES + HEAD_BYTES, ahead=HELLO_BYTES_MAX)
        keepalive_ms = int.from_bytes(head[:KEEPALIVE_BYTES])
        hello = read_hello(await _read_body(stream, head[KEEPALIVE_BYTES:]))
        if stream.has_read_ahead():
            raise _HandshakeFailed  # no dialer speaks before it is welcome
        if isinstance(hello, Refusal):
            await stream.write(_encode_answer(hello))
            raise _HandshakeFailed
        return hello, allowed_keepalive_s(keepalive_ms)

    async def _accept(self, stream: StreamSocket, hello: Hello, keepalive_s: float) -> None:
        link = StreamLink(
            stream,
            hello.incarnation,
            acceptor_queue_bytes(hello.kind, self._client_queue_bytes_max),
            keepalive_s,
            self._grace_s,
            self._ticks,
            FRAME_BYTES_MAX if hello.kind is LinkKind.PEER else CLIENT_FRAME_BYTES_MAX,
        )
        try:
            link.events = self._acceptor.accept(hello, link)
        except LinkRefused as refusal:
            await stream.write(_encode_answer(Refusal(str(refusal)[: HELLO_BYTES_MAX // 4])))
            stream.close()
            return
        welcome = _encode_answer(welcome_from(self._acceptor, hello))
        # A new connection takes so few bytes at once. From here on the link is the acceptor's.
        if stream.send(welcome) == len(welcome):
            link.begin()
        else:
            link.fail("the stream did not take the welcome")


class StreamDialer(LinkDialer):
    """Dials servers at the addresses that their actors tell.

    `find` asks a server's actor for its address, which is None if the server does not listen.
    """

    def __init__(
        self,
        find: Callable[[ServerId], Awaitable[StreamAddress | None]],
        hello: Hello,
        keepalive_ms: int,
        *,
        rng: Random | None = None,
        **options: Any,
    ) -> None:
        """As `LinkDialer`; `rng` draws the pauses before a busy server is tried again."""
        super().__init__(find, hello, keepalive_ms, **options)
        self._rng = rng or Random()
        self._silences: Counter[ServerId] = Counter()
        """Connections in a row on which a server has not proved itself in a long time."""

    async def dial(
        self, server: ServerId, events: LinkEvents, hello: Hello | None = None
    ) -> StreamLink:
        """Open a link to `server`, introduced with `hello` instead of the usual one if given.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: its actor was not found, failed, or did not answer in time.
            StreamUnavailable: it does not listen, or no stream to it opens.
            StreamBusy: it was reached, and had no time for this client.
        """
        address = await self.wait_address(server, self._find(server))
        return await self.dial_at(address, server, events, hello)

    async def wait_address(
        self,
        server: ServerId,
        question: Awaitable[StreamAddress | None],
        limit_s: float | None = None,
    ) -> StreamAddress:
        """Await where `server` listens, for `limit_s` or else for the grace time.

        Raises:
            LinkUnreachable: its actor was not found, failed, or did not answer in time.
            StreamUnavailable: it does not listen.
        """
        address = await self._ask(server, question, limit_s)
        if address is None:
            raise StreamUnavailable(f"server {server} does not listen")
        return address

    async def dial_at(
        self,
        address: StreamAddress,
        server: ServerId,
        events: LinkEvents,
        hello: Hello | None = None,
    ) -> StreamLink:
        """As `dial`, to a server that listens at `address`, or did so."""
        hello = hello or self._hello
        try:
            stream, welcome = await self._open_in_turn(server, address, hello)
        except StreamBusy as busy:
            if hello.kind is LinkKind.CLIENT:
                raise
            raise StreamUnavailable(str(busy)) from busy
        link = StreamLink(
            stream,
            welcome.incarnation,
            self._queue_bytes_max,
            self._keepalive_ms / 1000,
            self._grace_s,
            ticks_of_running_loop(),
        )
        link.events = events
        link.begin()
        return link

    async def _open_in_turn(
        self, server: ServerId, address: StreamAddress, hello: Hello
    ) -> tuple[StreamSocket, Welcome]:
        """Open a stream; a client tries again while the server is busy."""
        loop = asyncio.get_running_loop()
        is_client = hello.kind is LinkKind.CLIENT
        until = loop.time() + (STREAM_TURN_MS if is_client else STREAM_OPEN_MS) / 1000
        pauses = BusyPauses(self._rng)
        while True:
            try:
                return await self._open(server, address, hello, until)
            except StreamBusy:
                pause_s = pauses.next_s()
                if not is_client or loop.time() + pause_s >= until:
                    raise
            await asyncio.sleep(pause_s)

    async def _open(
        self, server: ServerId, address: StreamAddress, hello: Hello, until: float
    ) -> tuple[StreamSocket, Welcome]:
        stream = await _connect(address)
        loop = asyncio.get_running_loop()
        began, is_proved = loop.time(), False
        try:
            async with asyncio.timeout_at(until):
                introduction = await self._prove(stream, address.key)
                is_proved = True
                self._silences[server] = 0
                await stream.write(introduction + encode_frame(encode_hello(hello)))
                answer = await _read_frame(stream)
            return stream, self._check_answer(server, answer)
        except BaseException as error:
            stream.close()
            if isinstance(error, StreamBusy):
                self._silences[server] = 0
            is_late = isinstance(error, TimeoutError | asyncio.CancelledError)
            if is_late and not is_proved and loop.time() - began >= STREAM_OPEN_MS / 1000:
                self._silences[server] += 1
            if isinstance(error, TimeoutError):
                is_silent = self._silences[server] >= STREAM_SILENCES_MAX
                kind = StreamUnavailable if is_silent else StreamBusy
                raise kind(f"{address} did not answer in time") from None
            if isinstance(error, OSError):
                kind = StreamBusy if is_proved else StreamUnavailable
                raise kind(f"no stream to {address}: {error}") from error
            raise

    async def _prove(self, stream: StreamSocket, key: bytes) -> bytes:
        """Have the acceptor prove itself; return the dialer's own proof and keepalive interval.

        Raises:
            OSError: the connection is broken.
            StreamBusy: the acceptor has no room.
            StreamUnavailable: it is not the acceptor that answers.
        """
        nonce = new_nonce()
        try:
            await stream.encrypt()
        except BusyAlertError as error:
            raise StreamBusy(NO_ROOM) from error
        await stream.write(MAGIC + nonce)
        acceptor_nonce = await stream.read(NONCE_BYTES, ahead=PROOF_BYTES)
        if acceptor_nonce == busy_notice(key):
            raise StreamBusy(NO_ROOM)
        received = await stream.read(PROOF_BYTES)
        if not is_valid_proof(received, key, Role.ACCEPTOR, nonce, acceptor_nonce):
            raise StreamUnavailable("another process answers at the server's address")
        return proof(key, Role.DIALER, nonce, acceptor_nonce) + self._keepalive_ms.to_bytes(
            KEEPALIVE_BYTES
        )


class _HandshakeFailed(Exception):
    """The dialer has no key of this server, or speaks another version."""


def _encode_answer(answer: Welcome | Refusal) -> bytes:
    return encode_frame(encode_hello(answer))


async def _read_frame(stream: StreamSocket) -> bytes:
    """Read one frame of the handshake, from an end that has proved itself.

    Raises:
        OSError: the connection is broken, or the frame is too long.
    """
    return await _read_body(stream, await stream.read(HEAD_BYTES))


async def _read_body(stream: StreamSocket, head: bytes) -> bytes:
    size = int.from_bytes(head) >> 1
    if size > HELLO_BYTES_MAX:
        raise ConnectionAbortedError(f"a hello of {size} bytes is too long")
    return await stream.read(size)


async def _connect(address: StreamAddress) -> StreamSocket:
    """Connect to a server, which has proved nothing yet.

    Raises:
        StreamUnavailable: nothing listens there, or Ray's TLS files cannot be used.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    connecting = None
    try:
        context = tls_context(is_acceptor=False)
        connecting = socket.socket(family, socket.SOCK_STREAM)
        connecting.setblocking(False)
        await _connect_in_time(connecting, address)
        return StreamSocket(connecting, context)
    except BaseException as error:
        if connecting is not None:
            connecting.close()
        if isinstance(error, TimeoutError):
            raise StreamUnavailable(f"{address} did not answer in time") from None
        if isinstance(error, OSError):
            raise StreamUnavailable(f"no stream to {address}: {error}") from error
        raise


async def _connect_in_time(connecting: socket.socket, address: StreamAddress) -> None:
    failure = connecting.connect_ex((address.host, address.port))
    if failure not in (0, errno.EINPROGRESS):
        raise OSError(failure, os.strerror(failure))
    if _is_connected(connecting):
        return  # as nearly always within a machine: it costs no turn of the loop
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(STREAM_OPEN_MS / 1000):
            await loop.sock_connect(connecting, (address.host, address.port))
    except TimeoutError:
        # This process may only have been slow to see it.
        if not _is_connected(connecting):
            raise


def _is_connected(connecting: socket.socket) -> bool:
    try:
        connecting.getpeername()
    except OSError:
        return False
    return True
