"""Links over direct streams: the quick carrier, from one process to another without Ray between.

A server listens at the address of its Ray node, on a port that the system picks, and gives address
and key to whoever asks its actor's handle (`StreamAddress`). Both ends prove that they have the key
before anything is parsed (`stream_proofs`), all of it inside TLS if Ray uses TLS
(`stream_sockets`); then the dialer says its hello, and the link is open (`stream_link`).

Invariants: from a connection that has not proved itself nothing is read but so many bytes as that
takes, and it is closed when it takes too long; no length that the other end announces is believed
beyond a bound.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from raykeeper.links.contract import (
    Acceptor,
    LinkEvents,
    LinkRefused,
    LinkUnreachable,
    summarize_error,
)
from raykeeper.links.hello import (
    LINK_VERSION,
    Fence,
    Hello,
    LinkKind,
    Refusal,
    Welcome,
    decode_answer,
    decode_hello,
    encode_hello,
)
from raykeeper.links.limits import (
    CLIENT_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    GRACE_MS,
    HANDSHAKE_MS,
    HANDSHAKES_MAX,
    HELLO_BYTES_MAX,
    KEEPALIVE_MS_MAX,
    KEEPALIVE_MS_MIN,
    PEER_QUEUE_BYTES_MAX,
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
from raykeeper.zab.errors import DECODE_ERRORS
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
        for greeting in self._handshakes:
            greeting.cancel()

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
                # No file descriptor is left, most likely; some will be closed.
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(ACCEPT_PAUSE_S, self._listen)
                return
            if len(self._handshakes) >= HANDSHAKES_MAX:
                connected.close()
            else:
                greeting = self._loop.create_task(self._handle_connection(connected))
                self._handshakes.add(greeting)
                greeting.add_done_callback(partial(self._connection_handled, connected))

    def _connection_handled(self, connected: socket.socket, greeting: "asyncio.Task[None]") -> None:
        self._handshakes.discard(greeting)
        if greeting.cancelled():
            connected.close()  # it may not even have begun

    async def _handle_connection(self, connected: socket.socket) -> None:
        stream = None
        try:
            stream = StreamSocket(connected, self._tls)
            async with asyncio.timeout(self._handshake_s):
                hello, park_s = await self._handshake(stream)
            await self._accept(stream, hello, park_s)
        # Whoever it was is gone, slow, or no part of this ensemble.
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
        theirs = first[len(MAGIC) :]
        await stream.write(nonce + proof(key, Role.ACCEPTOR, theirs, nonce))
        if not is_valid_proof(await stream.read(PROOF_BYTES), key, Role.DIALER, theirs, nonce):
            raise _HandshakeFailed
        park_ms = int.from_bytes(await stream.read(4))
        hello = decode_hello(await _read_frame(stream))
        if hello is None:
            await stream.write(_encode_answer(Refusal(f"not a hello of version {LINK_VERSION}")))
            raise _HandshakeFailed
        return hello, min(max(park_ms, KEEPALIVE_MS_MIN), KEEPALIVE_MS_MAX) / 1000

    async def _accept(self, stream: StreamSocket, hello: Hello, park_s: float) -> None:
        of_peer = hello.kind is LinkKind.PEER
        queue_max = PEER_QUEUE_BYTES_MAX if of_peer else self._client_queue_bytes_max
        frame_max = FRAME_BYTES_MAX if of_peer else CLIENT_FRAME_BYTES_MAX
        link = StreamLink(stream, hello.incarnation, queue_max, park_s, self._grace_s, frame_max)
        acceptor = self._acceptor
        try:
            link.events = acceptor.accept(hello, link)
        except LinkRefused as refusal:
            await stream.write(_encode_answer(Refusal(str(refusal)[: HELLO_BYTES_MAX // 4])))
            stream.close()
            return
        welcome = _encode_answer(Welcome(LINK_VERSION, acceptor.server_id, acceptor.incarnation))
        # A fresh connection takes so few bytes at once. From here on the link is the acceptor's.
        if stream.send(welcome) == len(welcome):
            link.begin()
        else:
            link.fail("the stream took no welcome")


class StreamDialer:
    """Dials servers at the addresses that their actors tell."""

    def __init__(
        self,
        find: Callable[[ServerId], Awaitable[StreamAddress | None]],
        hello: Hello,
        keepalive_ms: int,
        *,
        fence: Fence | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
    ) -> None:
        """Introduce every link with `hello`.

        Args:
            find: Asks a server for its address, None if it does not listen; any exception means
                that the server cannot be reached.
            hello: Who dials.
            park_ms: How often an idle link gives a sign of life, at both ends.
            fence: Of the dialer's owner; answers of fenced incarnations are refused.
            queue_bytes_max: What may wait on a link before it breaks.
            grace_ms: How much later than that a sign may come.
        """
        self._find = find
        self._hello = encode_hello(hello)
        self._keepalive_ms = keepalive_ms
        self._keepalive_s = keepalive_ms / 1000
        self._fence = fence or Fence()
        self._queue_bytes_max = queue_bytes_max
        self._grace_s = grace_ms / 1000

    async def dial(
        self, server: ServerId, events: LinkEvents, hello: Hello | None = None
    ) -> StreamLink:
        """Open a link to `server`, introduced with `hello` if this one shall be special.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: its actor was not found, failed, or did not answer in time.
            StreamUnavailable: it does not listen, or no stream to it opens.
        """
        address = await self._look_up_address(server)
        stream = None
        try:
            async with asyncio.timeout(STREAM_OPEN_MS / 1000):
                stream = await _connect(address)
                welcome = await self._handshake(
                    stream, address.key, self._hello if hello is None else encode_hello(hello)
                )
        except BaseException as error:
            if stream is not None:
                stream.close()
            if isinstance(error, TimeoutError):
                raise StreamUnavailable(f"{address} did not answer in time") from None
            if isinstance(error, OSError):
                raise StreamUnavailable(f"no stream to {address}: {error}") from error
            raise
        objection = self._refusal_reason(server, welcome)
        if isinstance(welcome, Refusal) or objection:
            stream.close()
            raise LinkRefused(objection)
        link = StreamLink(
            stream, welcome.incarnation, self._queue_bytes_max, self._keepalive_s, self._grace_s
        )
        link.events = events
        link.begin()
        return link

    async def _look_up_address(self, server: ServerId) -> StreamAddress:
        try:
            address = await asyncio.wait_for(self._find(server), self._grace_s)
        except TimeoutError:
            raise LinkUnreachable(
                f"server {server} did not answer within {self._grace_s} s"
            ) from None
        # Whatever Ray raises means the same here: no link this time.
        except Exception as error:
            raise LinkUnreachable(f"server {server}: {summarize_error(error)}") from error
        if address is None:
            raise StreamUnavailable(f"server {server} does not listen")
        return address

    async def _handshake(self, stream: StreamSocket, key: bytes, hello: bytes) -> Welcome | Refusal:
        await stream.encrypt()
        nonce = new_nonce()
        await stream.write(MAGIC + nonce)
        theirs = await stream.read(NONCE_BYTES)
        if not is_valid_proof(await stream.read(PROOF_BYTES), key, Role.ACCEPTOR, nonce, theirs):
            raise StreamUnavailable("somebody else answers at the server's address")
        first = self._keepalive_ms.to_bytes(4) + encode_frame(hello)
        await stream.write(proof(key, Role.DIALER, nonce, theirs) + first)
        answer = await _read_frame(stream)
        try:
            welcome: Welcome | Refusal = decode_answer(answer)
        except DECODE_ERRORS as error:
            return Refusal(f"its answer cannot be understood: {error}")
        return welcome

    def _refusal_reason(self, server: ServerId, answer: Welcome | Refusal) -> str:
        if isinstance(answer, Refusal):
            return f"server {server}: {answer.reason}"
        if answer.server_id != server:
            return f"server {answer.server_id} answered in the place of {server}"
        return self._fence.refusal_reason(server, answer.incarnation)


class _HandshakeFailed(Exception):
    """Whoever connected does not belong here."""


def _encode_answer(answer: Welcome | Refusal) -> bytes:
    return encode_frame(encode_hello(answer))


async def _read_frame(stream: StreamSocket) -> bytes:
    """One frame of the first words, of the other end, which has proved itself.

    Raises:
        OSError: the connection is broken, or the frame is too long.
    """
    size = int.from_bytes(await stream.read(HEAD_BYTES)) >> 1
    if size > HELLO_BYTES_MAX:
        raise ConnectionAbortedError(f"a frame of {size} bytes in the place of a hello")
    return await stream.read(size)


async def _connect(address: StreamAddress) -> StreamSocket:
    """A connection to a server, which has proved nothing yet.

    Raises:
        OSError: nobody listens there, or Ray's TLS files cannot be used.
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
