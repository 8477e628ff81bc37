"""The two ends that open a stream: a quick carrier from process to process, without Ray between.

A server listens at the address of its Ray node, on a port that the system picks, and gives address
and key to everyone who can call its actor (`StreamAddress`). Both ends prove that they have the key
before anything is parsed (`stream_auth`), all of it inside TLS if Ray uses TLS (`stream_socket`);
then the dialer says its hello, and the link is open (`stream_link`).

Invariants: from a connection without a proof nothing is read but as many bytes as a proof takes,
and it is closed when it takes too long; no length that the other end announces is believed beyond
a bound.
"""

import asyncio
import socket
from collections.abc import Awaitable
from functools import partial

from msgspec import Struct

from raykeeper.links.contract import Acceptor, LinkEvents, LinkRefused, LinkUnreachable
from raykeeper.links.handshake import (
    NOT_A_HELLO,
    LinkDialer,
    acceptor_queue_bytes,
    allowed_keepalive_s,
    welcome_from,
)
from raykeeper.links.hello import Hello, LinkKind, Refusal, Welcome, decode_hello, encode_hello
from raykeeper.links.limits import (
    CLIENT_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    GRACE_MS,
    HANDSHAKE_MS,
    HANDSHAKES_MAX,
    HELLO_BYTES_MAX,
    QUEUE_BYTES_MAX,
    STREAM_OPEN_MS,
)
from raykeeper.links.stream_auth import (
    MAGIC,
    NONCE_BYTES,
    PROOF_BYTES,
    Role,
    is_valid_proof,
    new_key,
    new_nonce,
    proof,
)
from raykeeper.links.stream_frames import HEAD_BYTES, encode_frame
from raykeeper.links.stream_link import StreamLink
from raykeeper.links.stream_socket import StreamSocket, tls_context
from raykeeper.zab.ids import ServerId

BACKLOG = 1024
ACCEPT_PAUSE_S = 0.1
ACCEPTED_MAX = 64
"""Connections that are accepted before others have their turn."""


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


class StreamListener:
    """The end that is dialed."""

    def __init__(
        self,
        acceptor: Acceptor,
        host: str,
        client_queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
        handshake_ms: int = HANDSHAKE_MS,
    ) -> None:
        """Listen on the running loop, in the name of `acceptor`.

        Raises:
            OSError: the address is not one of this machine, or Ray's TLS files cannot be used.
        """
        self._acceptor = acceptor
        self._client_queue_bytes_max = client_queue_bytes_max
        self._grace_s = grace_ms / 1000
        self._handshake_s = handshake_ms / 1000
        self._tls = tls_context(is_acceptor=True)
        self._handshakes: set[asyncio.Task[None]] = set()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self.address = StreamAddress(host, self._socket.getsockname()[1], new_key())
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._listen()

    def close(self) -> None:
        """Accept nothing more; links that are open stay open."""
        self._is_closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for handshake in self._handshakes:
            handshake.cancel()

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
            if len(self._handshakes) >= HANDSHAKES_MAX:
                connected.close()
            else:
                handshake = self._loop.create_task(self._handle_connection(connected))
                self._handshakes.add(handshake)
                handshake.add_done_callback(partial(self._connection_handled, connected))

    def _connection_handled(self, connected: socket.socket, task: "asyncio.Task[None]") -> None:
        self._handshakes.discard(task)
        if task.cancelled():
            connected.close()  # the task may not even have begun

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
        first = await stream.read(len(MAGIC) + NONCE_BYTES)
        if not first.startswith(MAGIC):
            raise _HandshakeFailed
        dialer_nonce = first[len(MAGIC) :]
        await stream.write(nonce + proof(key, Role.ACCEPTOR, dialer_nonce, nonce))
        received = await stream.read(PROOF_BYTES)
        if not is_valid_proof(received, key, Role.DIALER, dialer_nonce, nonce):
            raise _HandshakeFailed
        keepalive_ms = int.from_bytes(await stream.read(4))
        hello = decode_hello(await _read_frame(stream))
        if hello is None:
            await stream.write(_encode_answer(NOT_A_HELLO))
            raise _HandshakeFailed
        return hello, allowed_keepalive_s(keepalive_ms)

    async def _accept(self, stream: StreamSocket, hello: Hello, keepalive_s: float) -> None:
        link = StreamLink(
            stream,
            hello.incarnation,
            acceptor_queue_bytes(hello.kind, self._client_queue_bytes_max),
            keepalive_s,
            self._grace_s,
            FRAME_BYTES_MAX if hello.kind is LinkKind.PEER else CLIENT_FRAME_BYTES_MAX,
        )
        try:
            link.events = self._acceptor.accept(hello, link)
        except LinkRefused as refusal:
            await stream.write(_encode_answer(Refusal(str(refusal)[: HELLO_BYTES_MAX // 4])))
            stream.close()
            return
        welcome = _encode_answer(welcome_from(self._acceptor))
        # A new connection takes so few bytes at once. From here on the link is the acceptor's.
        if stream.send(welcome) == len(welcome):
            link.begin()
        else:
            link.fail("the stream did not take the welcome")


class StreamDialer(LinkDialer):
    """Dials servers at the addresses that their actors tell.

    `find` asks a server's actor for its address, which is None if the server does not listen.
    """

    async def dial(
        self, server: ServerId, events: LinkEvents, hello: Hello | None = None
    ) -> StreamLink:
        """Open a link to `server`, introduced with `hello` instead of the usual one if given.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: its actor was not found, failed, or did not answer in time.
            StreamUnavailable: it does not listen, or no stream to it opens.
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
        stream = None
        try:
            async with asyncio.timeout(STREAM_OPEN_MS / 1000):
                stream = await _connect(address)
                answer = await self._handshake(stream, address.key, self._encode_hello(hello))
            welcome = self._check_answer(server, answer)
        except BaseException as error:
            if stream is not None:
                stream.close()
            if isinstance(error, TimeoutError):
                raise StreamUnavailable(f"{address} did not answer in time") from None
            if isinstance(error, OSError):
                raise StreamUnavailable(f"no stream to {address}: {error}") from error
            raise
        link = StreamLink(
            stream,
            welcome.incarnation,
            self._queue_bytes_max,
            self._keepalive_ms / 1000,
            self._grace_s,
        )
        link.events = events
        link.begin()
        return link

    async def _handshake(self, stream: StreamSocket, key: bytes, hello: bytes) -> bytes:
        await stream.encrypt()
        nonce = new_nonce()
        await stream.write(MAGIC + nonce)
        acceptor_nonce = await stream.read(NONCE_BYTES)
        received = await stream.read(PROOF_BYTES)
        if not is_valid_proof(received, key, Role.ACCEPTOR, nonce, acceptor_nonce):
            raise StreamUnavailable("another process answers at the server's address")
        introduction = self._keepalive_ms.to_bytes(4) + encode_frame(hello)
        await stream.write(proof(key, Role.DIALER, nonce, acceptor_nonce) + introduction)
        return await _read_frame(stream)


class _HandshakeFailed(Exception):
    """The dialer has no key of this server, or speaks another version."""


def _encode_answer(answer: Welcome | Refusal) -> bytes:
    return encode_frame(encode_hello(answer))


async def _read_frame(stream: StreamSocket) -> bytes:
    """Read one frame of the handshake, from an end that has proved itself.

    Raises:
        OSError: the connection is broken, or the frame is too long.
    """
    size = int.from_bytes(await stream.read(HEAD_BYTES)) >> 1
    if size > HELLO_BYTES_MAX:
        raise ConnectionAbortedError(f"a hello of {size} bytes is too long")
    return await stream.read(size)


async def _connect(address: StreamAddress) -> StreamSocket:
    """Connect to a server, which has proved nothing yet.

    Raises:
        OSError: nothing listens there, or Ray's TLS files cannot be used.
    """
    context = tls_context(is_acceptor=False)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connecting, (address.host, address.port))
        return StreamSocket(connecting, context)
    except BaseException:
        connecting.close()
        raise
