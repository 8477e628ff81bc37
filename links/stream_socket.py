"""The socket under a stream: in the clear, or in TLS as Ray itself is.

With `RAY_USE_TLS` every stream is TLS, both ends show certificates, and both are checked against
Ray's CA: the same three files as for Ray's own connections. There is no way back to the clear.
Host names are not checked, as Ray does not: nodes call each other by address.

The socket never blocks. The coroutines are for the handshake, whose messages have known lengths;
after it the link itself reads and writes.
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
        self.read_bytes = READ_BYTES if context is None else TLS_RECORD_BYTES
        """A read that returns less has left nothing behind."""

    def fileno(self) -> int:
        """Return the number of the socket, also when it is closed."""
        return self._fd

    def receive(self, size: int = 0) -> bytes | None:
        """Return what is there, up to `size` or `read_bytes`; b"" at the end, None without data.

        Raises:
            OSError: the connection is broken.
        """
        try:
            return self._socket.recv(size or self.read_bytes)
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
        self._socket.close()

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

    async def read(self, size: int) -> bytes:
        """Read exactly `size` bytes.

        Raises:
            OSError: the connection is broken, or ends before.
        """
        pieces = b""
        while len(pieces) < size:
            piece = self.receive(size - len(pieces))
            if piece is None:
                await self._until_ready(to_read=True)
            elif not piece:
                raise ConnectionResetError("the connection was ended")
            else:
                pieces += piece
        return pieces

    async def write(self, data: bytes) -> None:
        """Write all of `data`.

        Raises:
            OSError: the connection is broken.
        """
        rest = memoryview(data)
        while rest := rest[self.send(rest) :]:
            await self._until_ready(to_read=False)

    async def _until_ready(self, *, to_read: bool) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        add: Callable[..., object] = loop.add_reader if to_read else loop.add_writer
        remove = loop.remove_reader if to_read else loop.remove_writer
        add(self._fd, _set, ready)
        try:
            await ready
        finally:
            remove(self._fd)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
