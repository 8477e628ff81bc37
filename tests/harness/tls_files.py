"""Certificates in files: of an authority, and of a stranger whom nobody trusts."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from raykeeper.links.jute_tls import TlsFiles


class TlsFolder:
    """For each name `NAME.pem`, `NAME.key` and the authority that it trusts, `NAME.ca`."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self._folder = folder
        self._address = address
        self._authority = trustme.CA()
        self.issue("authority")
        self.issue("stranger", trustme.CA())

    def issue(
        self, name: str, signer: trustme.CA | None = None, *, valid_for: timedelta | None = None
    ) -> None:
        """Write new files, of the authority unless another one signs.

        They expire after `valid_for`, which may be negative; None: in the far future.
        """
        expires_at = None if valid_for is None else datetime.now(UTC) + valid_for
        certificate = (signer or self._authority).issue_cert(self._address, not_after=expires_at)
        certificate.cert_chain_pems[0].write_to_path(self.path(name, "pem"))
        certificate.private_key_pem.write_to_path(self.path(name, "key"))
        self._authority.cert_pem.write_to_path(self.path(name, "ca"))

    def path(self, name: str, kind: str) -> str:
        return str(self._folder / f"{name}.{kind}")

    def of_server(self, name: str = "authority", *, asks_clients: bool = False) -> TlsFiles:
        """Return the files of a server, which may ask its clients for a certificate."""
        authority = self.path("authority", "ca") if asks_clients else ""
        return TlsFiles(self.path(name, "pem"), self.path(name, "key"), authority)

    def of_client(self, name: str = "") -> ssl.SSLContext:
        """Return what a client uses, with or without a certificate of its own."""
        context = ssl.create_default_context(cafile=self.path("authority", "ca"))
        if name:
            context.load_cert_chain(self.path(name, "pem"), self.path(name, "key"))
        return context
