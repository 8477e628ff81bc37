"""Certificates in files: whether they can be used for TLS, and when they expire.

The standard library decodes a certificate only at the end of a handshake. So the file is used on
both ends of one in memory, which also shows whether the key belongs to it and can be read.
"""

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from raykeeper.clusters.doctor.rules.facts import TlsFileFacts
from raykeeper.links.jute_tls import TlsFiles, make_context

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which `ssl.VerifyFlags` does not name."""


def examine_certificate(files: TlsFiles, used_for: str) -> list[TlsFileFacts]:
    """Return the facts of a server's certificate, and of the authority that it trusts.

    Args:
        files: Where they are on this node.
        used_for: What they are used for.
    """
    certificate = Path(files.certificate).expanduser()
    facts = [_examined(certificate, used_for, lambda: _expiry_of_own(files))]
    if files.authority:
        authority = Path(files.authority).expanduser()
        facts.append(
            _examined(authority, f"{used_for}, as their authority", lambda: _expiry_of(authority))
        )
    return facts


def _examined(path: Path, used_for: str, read: Callable[[], float | None]) -> TlsFileFacts:
    try:
        expires_at = read()
    except OSError as error:  # also what `ssl` raises
        told = str(error)
        problem = told if str(path) in told else f"cannot use {path}: {told}"
        return TlsFileFacts(used_for=used_for, path=str(path), problem=problem)
    left = None if expires_at is None else round(expires_at - time.time())
    return TlsFileFacts(used_for=used_for, path=str(path), expires_in_s=left)


def _expiry_of_own(files: TlsFiles) -> float | None:
    """Return when the certificate expires that a server shows."""
    own = TlsFiles(files.certificate, files.key)
    server_end, client_end = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = make_context(own).wrap_bio(server_end, client_end, server_side=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # It is its own authority here, and may have expired: neither is the question.
    context.load_verify_locations(Path(files.certificate).expanduser())
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    client = context.wrap_bio(client_end, server_end)
    waiting = [client, server]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
    shown = client.getpeercert()
    return _time_of(shown["notAfter"]) if shown else None


def _expiry_of(authority: Path) -> float | None:
    """Return when the first certificate of an authority expires."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    times = [_time_of(each["notAfter"]) for each in context.get_ca_certs()]
    return min((each for each in times if each is not None), default=None)


def _time_of(text: object) -> float | None:
    return ssl.cert_time_to_seconds(text) if isinstance(text, str) else None
