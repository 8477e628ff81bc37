"""TLS on the port for ZooKeeper's own clients: files, and the server's end of one connection.

The bytes pass through buffers in memory (`ssl.MemoryBIO`) and not through the loop's own TLS: so
what waits to be sent is counted with the socket's buffer, a half-closed connection is still
answered, and a connection takes some tens of KB instead of hundreds.

ZooKeeper: `secureClientPort`, `X509Util`; its settings `ssl.keyStore`, `ssl.trustStore`.
"""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

_READ_BYTES: Final = 64 << 10


class TlsFiles(Struct, frozen=True):
    """Files in PEM; `~` is the home on the server's node."""

    certificate: str
    """With the certificates of its issuers, if any are between it and the authority."""
    key: str
    authority: str = ""
    """Whose certificates clients must show; "" asks them for none."""


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Return what encrypts the connections of a port.

    Raises:
        OSError: a file cannot be used; the text names the files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    certificate, key = Path(files.certificate).expanduser(), Path(files.key).expanduser()
    told = f"{certificate} and {key}"
    try:
        # Without the last argument OpenSSL would ask the terminal.
        context.load_cert_chain(certificate, key, _refuse_passphrase)
        if files.authority:
            authority = Path(files.authority).expanduser()
            told = str(authority)
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(authority)
    except OSError as error:
        raise OSError(f"cannot use {told}: {error}") from error
    return context


def _refuse_passphrase() -> NoReturn:
    raise OSError("the key has a passphrase, which nobody can be asked for")


class TlsAcceptor:
    """The files of a port, as they were read last."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            OSError: one cannot be used; the text names the files.
        """
        self._files = files
        self._context, self._stamps = make_context(files), self._changes()

    def renew(self) -> bool:
        """Read the files again if one has changed, and return whether one has.

        Raises:
            OSError: one cannot be used; what was read before stays in use.
        """
        stamps = self._changes()
        if stamps == self._stamps:
            return False
        self._stamps = stamps  # what cannot be used is not tried again before it changes
        self._context = make_context(self._files)
        return True

    def accept(self) -> "TlsEnd":
        """Return the server's end of a new connection."""
        return TlsEnd(self._context)

    def _changes(self) -> list[tuple[int, int]]:
        """Return what is different when a file was replaced; of one that is missing nothing."""
        stamps = []
        for file in (self._files.certificate, self._files.key, self._files.authority):
            try:
                stat = Path(file).expanduser().stat()
            except OSError:
                continue
            stamps.append((stat.st_ino, stat.st_mtime_ns))
        return stamps


class TlsEnd:
    """The server's end of one connection: bytes of the socket to bytes of the client, and back."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.is_over = False
        """Whether the client has said that nothing more comes."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_established = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the socket; return what the client has said with them. See `outgoing`.

        Raises:
            ssl.SSLError: it is not TLS, or the client may not connect; `outgoing` tells it why.
        """
        self._incoming.write(data)
        said: list[bytes] = []
        try:
            if not self._is_established:
                self._tls.do_handshake()
                self._is_established = True
            while piece := self._tls.read(_READ_BYTES):
                said.append(piece)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass  # the rest is to come
        return b"".join(said)

    def outgoing(self) -> bytes:
        """Return what the handshake has to say, for the socket."""
        return self._outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        """Return the bytes for the socket that say `data`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()

    def end(self) -> bytes:
        """Return the bytes for the socket that say that nothing more comes."""
        with suppress(ssl.SSLError):  # the client need not say the same; or no handshake was made
            self._tls.unwrap()
        return self._outgoing.read()
