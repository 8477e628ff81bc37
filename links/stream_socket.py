"""The socket under a stream: in the clear, or in TLS as Ray itself is.

With `RAY_USE_TLS` every stream is TLS, both ends show certificates, and both are checked against
Ray's CA: the same three files as for Ray's own connections. There is no way back to the clear.
Host names are not checked, as Ray does not: nodes call each other by address.

The socket never blocks. The coroutines are for the handshake, whose messages have known lengths;
after it the link itself reads and writes. A crowd that comes back makes thousands of handshakes at
once, so these take few system calls and few turns of the loop.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress

from raykeeper.links.limits import READ_BYTES, TLS_RECORD_BYTES

TLS_BUSY_NOTICE = b"\x15\x03\x03\x00\x02\x02\x5a"
"""The alert "user canceled" of RFC 8446 in a record of its own: the handshake is not wanted, for a
reason that is not a failure. It needs no encryption, as it comes before there is one."""
_BUSY_ALERT = "TLSV1_ALERT_USER_CANCELLED"

_WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_TLS_FILE_SETTINGS = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def tls_context(
    is_acceptor: bool, environment: Mapping[str, str] = os.environ
) -> ssl.SSLContext | None:
    """Return what encrypts the streams of this process; None if Ray does not use TLS.

    Raises:
        OSError: Ray uses TLS, and its files cannot be used; the text names them.
    """
    if environment.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    missing = [name for name in _TLS_FILE_SETTINGS if name not in environment]
    if missing:
        raise OSError(f"RAY_USE_TLS is set, but {', '.join(missing)} is not")
    certificate, key, authority = (environment[name] for name in _TLS_FILE_SETTINGS)
    protocol = ssl.PROTOCOL_TLS_SERVER if is_acceptor else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except OSError as error:
        files = f"{certificate}, {key} and {authority}"
        raise OSError(f"cannot use the TLS files {files}: {error}") from error
    return context


class BusyAlertError(OSError):
    """Raised when the other end has no time for one more handshake of TLS."""


class StreamSocket:
    """One connected socket."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext | None) -> None:
        """Take over a connected socket; with TLS the acceptor's context tells its role."""
        if connected.gettimeout() != 0.0:
            connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._tls: ssl.SSLSocket | None = None
        if context is not None:
            self._socket = self._tls = context.wrap_socket(
                connected,
                server_side=context.protocol == ssl.PROTOCOL_TLS_SERVER,
                do_handshake_on_connect=False,
            )
        self._fd = self._socket.fileno()
        self._loop = asyncio.get_running_loop()
        self._read_ahead = b""
        self._is_watched = False  # the loop calls `_on_readable`
        self._awaited: asyncio.Future[bytes] | None = None
        self._awaited_bytes = 0
        self.read_bytes = READ_BYTES if context is None else TLS_RECORD_BYTES
        """A read that returns less has left nothing behind."""

    def fileno(self) -> int:
        """Return the number of the socket, also when it is closed."""
        return self._fd

    def receive(self) -> bytes | None:
        """Return what is there, up to `read_bytes`; b"" at the end, None without data.

        Raises:
            OSError: the connection is broken.
        """
        return self._receive(self.read_bytes)

    def _receive(self, size: int) -> bytes | None:
        try:
            return self._socket.recv(size)
        except _WOULD_BLOCK:
            return None
        except ssl.SSLEOFError:
            return b""

    def send(self, data: bytes | memoryview) -> int:
        """Write as much as the socket takes without waiting, perhaps nothing; return its size.

        Raises:
            OSError: the connection is broken.
        """
        try:
            return self._socket.send(data)
        except _WOULD_BLOCK:
            return 0

    def shutdown(self) -> None:
        """Break the connection, and wake a thread that waits for it."""
        with suppress(OSError):  # it is broken already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._unwatch()
        self._socket.close()

    def has_read_ahead(self) -> bool:
        """Return whether `read` has more than it was asked for."""
        return bool(self._read_ahead)

    def end_handshake(self) -> None:
        """Stop reading here: the caller does it from now on, and watches the socket for it."""
        assert not self._read_ahead, len(self._read_ahead)
        self._is_watched = False  # a loop has one reader for each file: the caller's

    async def encrypt(self) -> None:
        """Agree on the encryption, if there is one.

        Raises:
            OSError: the connection is broken, or the other end has no certificate of Ray's CA.
            BusyAlertError: it said `TLS_BUSY_NOTICE`.
        """
        while self._tls is not None:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._until_ready(to_read=True)
            except ssl.SSLWantWriteError:
                await self._until_ready(to_read=False)
            except ssl.SSLError as error:
                if error.reason == _BUSY_ALERT:
                    raise BusyAlertError(_BUSY_ALERT) from error
                raise

    async def read(self, size: int, ahead: int = 0) -> bytes:
        """Read exactly `size` bytes; up to `ahead` more may be read for the next call.

        Raises:
            OSError: the connection is broken, or ends before.
        """
        there = self._read_ahead
        while (missing := size - len(there)) > 0:
            piece = self._receive(missing + ahead)
            if piece is None:
                piece = await self._next_piece(missing + ahead)
            if not piece:
                raise ConnectionResetError("the connection was ended")
            there += piece
        self._read_ahead = there[size:]
        return there[:size]

    async def write(self, data: bytes) -> None:
        """Write all of `data`.

        Raises:
            OSError: the connection is broken.
        """
        rest = memoryview(data)
        while rest := rest[self.send(rest) :]:
            await self._until_ready(to_read=False)

    async def _next_piece(self, size: int) -> bytes:
        """Wait for bytes, and return them, or b"" at the end of the stream."""
        self._awaited_bytes = size
        self._awaited = awaited = self._loop.create_future()
        if not self._is_watched:
            self._is_watched = True
            self._loop.add_reader(self._fd, self._on_readable)
        piece: bytes = await awaited
        return piece

    def _on_readable(self) -> None:
        # To read here, and not in the task that waits, leaves nothing for which the loop would call
        # again before the task has its turn. So the socket is watched from the first wait to the
        # end of the handshake.
        awaited = self._awaited
        if awaited is None or awaited.done():
            self._unwatch()
            return
        try:
            piece = self._receive(self._awaited_bytes)
        except OSError as error:
            awaited.set_exception(error)
        else:
            if piece is not None:
                awaited.set_result(piece)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._fd)

    async def _until_ready(self, *, to_read: bool) -> None:
        if to_read:
            self._unwatch()
        ready: asyncio.Future[None] = self._loop.create_future()
        add: Callable[..., object] = self._loop.add_reader if to_read else self._loop.add_writer
        remove = self._loop.remove_reader if to_read else self._loop.remove_writer
        add(self._fd, _set, ready)
        try:
            await ready
        finally:
            remove(self._fd)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
