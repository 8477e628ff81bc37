"""ACLs as users write them, and the credentials that a client sends."""

from base64 import b64encode
from typing import Any

import pytest

from raykeeper.client.access import (
    credential_proof,
    make_acl,
    make_digest_acl,
    make_scrypt_acl,
)
from raykeeper.client.errors import AuthFailedError, BadArgumentsError
from raykeeper.znodes.acl import USER_BYTES_MAX, Acl, authenticate


def test_acl_helpers_make_entries() -> None:
    assert make_acl("ip", "10.0.0.0/8", read=True, admin=True) == Acl(17, "ip", "10.0.0.0/8")
    assert make_acl("world", "anyone", all=True, read=False) == Acl(31, "world", "anyone")
    # The example of ZooKeeper's documentation of the scheme.
    digest = make_digest_acl("super", "test", all=True)
    assert digest == Acl(31, "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")


@pytest.mark.parametrize("scheme", ["digest", "scrypt"])
def test_the_credential_proves_the_identity_of_the_entry(scheme: str) -> None:
    make: Any = {
        "digest": make_digest_acl,
        "scrypt": lambda *user: make_scrypt_acl("uuid", *user),
    }[scheme]
    for credential in ("ann:a:b", b"ann:a:b"):
        identity = authenticate(scheme, credential_proof("uuid", scheme, credential))
        assert identity is not None
        assert identity.id == make("ann", "a:b").id


def test_no_password_or_reusable_credential_is_sent() -> None:
    proof = credential_proof("uuid", "scrypt", "ann:secret")
    assert b"secret" not in proof
    assert proof != credential_proof("other", "scrypt", "ann:secret")
    kept = make_scrypt_acl("uuid", "ann", "secret").id
    assert b64encode(proof[4:]).decode() not in kept


# ZooKeeper 3.8.0 answers AuthFailed to the schemes of the first line but `ip`, which it takes and
# which changes nothing; of `digest` it takes a user without a password.
@pytest.mark.parametrize(
    ("scheme", "credential", "text"),
    [
        *((scheme, "ann:x", "a scheme is") for scheme in ("", "Digest", "world", "auth", "super")),
        *((scheme, "x", f"not {scheme!r}") for scheme in ("ip", "sasl", "x509", "kerberos")),
        ("kerberos", b"\xff", "not 'kerberos'"),
        ("digest", "", 'has the form "user:password"'),
        ("digest", "ann", 'has the form "user:password"'),
        ("scrypt", b"ann", 'has the form "user:password"'),
        ("digest", b"ann:\xff", "must be valid UTF-8"),
        ("scrypt", "\ud800:x", "must be valid UTF-8"),
        ("digest", "u" * (USER_BYTES_MAX + 1) + ":x", "at most 128 bytes, not 129"),
        ("scrypt", "\u00fc" * 65 + ":x", "at most 128 bytes, not 130"),
    ],
)
def test_an_invalid_credential_is_not_sent(scheme: str, credential: str | bytes, text: str) -> None:
    with pytest.raises(AuthFailedError) as caught:
        credential_proof("uuid", scheme, credential)
    assert text in str(caught.value) and caught.value.definite


@pytest.mark.parametrize(
    ("scheme", "credential"),
    [("digest", ":"), ("digest", ":x"), ("digest", "ann:"), ("scrypt", "u" * USER_BYTES_MAX + ":")],
)
def test_every_credential_sent_proves_an_identity(scheme: str, credential: str) -> None:
    assert authenticate(scheme, credential_proof("uuid", scheme, credential)) is not None


def test_an_invalid_entry_is_refused() -> None:
    with pytest.raises(BadArgumentsError, match="'raed' is no permission"):
        make_acl("world", "anyone", raed=True)  # type: ignore[call-arg]
    for name in ("a:b", 3):
        with pytest.raises(BadArgumentsError, match="a user name is a text without"):
            make_digest_acl(name, "secret")  # type: ignore[arg-type]
