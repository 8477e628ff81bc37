"""What a user asks of `raykeeper import` and `raykeeper export`. Loads without kazoo."""

from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from raykeeper.clusters.config import ConfigError
from raykeeper.commands.subtree_copy import read_credentials


class Order(NamedTuple):
    """How either command is to be done."""

    state: Path | None
    """The file of the journal, None for the usual one."""
    merge: bool
    dry_run: bool
    with_sequences: bool
    delete: bool
    as_json: bool


class Tls(Struct, frozen=True):
    """The files of an encrypted connection: whom to trust, and a certificate to show."""

    ca: str
    certificate: str | None = None
    key: str | None = None


def tls_of(ca: str | None, certificate: str | None, key: str | None) -> Tls | None:
    """Return the files for TLS, None for a plain connection.

    Raises:
        ConfigError: a file is named that is of no use without another one, or cannot be read.
    """
    if ca is None:
        if certificate is not None or key is not None:
            raise ConfigError("--tls-cert and --tls-key need --tls-ca")
        return None
    if (certificate is None) != (key is None):
        raise ConfigError("--tls-cert and --tls-key go together")
    for each in (ca, certificate, key):
        try:
            if each is not None:
                Path(each).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {each}: {error.strerror}") from None
    return Tls(ca, certificate, key)


def proofs_of(auth: list[str] | None, credentials: Path | None) -> list[tuple[str, str]]:
    """Return the schemes and credentials of all `--auth` and of the file.

    Raises:
        ConfigError: one has another form; its text may be secret and is not shown. Or the file
            cannot be read.
    """
    found = [] if credentials is None else read_credentials(credentials)
    for text in auth or ():
        scheme, colon, credential = text.partition(":")
        if scheme not in ("digest", "scrypt") or not colon or ":" not in credential:
            raise ConfigError("--auth needs digest:USER:PASSWORD (or scrypt:USER:PASSWORD)")
        found.append((scheme, credential))
    return found
