"""ACLs as users write them, and what is sent to prove an identity."""

from base64 import b64encode
from typing import Any

import pytest

from raykeeper.client.access import (
    make_acl,
    make_digest_acl,
    make_scrypt_acl,
    proof_of,
)
from raykeeper.client.errors import BadArgumentsError
from raykeeper.znodes.acl import Acl, proven_identity


def test_entries() -> None:
    assert make_acl("ip", "10.0.0.0/8", read=True, admin=True) == Acl(17, "ip", "10.0.0.0/8")
    assert make_acl("world", "anyone", all=True, read=False) == Acl(31, "world", "anyone")
    # The example of ZooKeeper's documentation of the scheme.
    digest = make_digest_acl("super", "test", all=True)
    assert digest == Acl(31, "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")


@pytest.mark.parametrize("scheme", ["digest", "scrypt"])
def test_whoever_proves_it_is_whom_the_entry_means(scheme: str) -> None:
    make: Any = {
        "digest": make_digest_acl,
        "scrypt": lambda *user: make_scrypt_acl("uuid", *user),
    }[scheme]
    for credential in ("ann:a:b", b"ann:a:b"):
        identity = proven_identity(scheme, proof_of("uuid", scheme, credential))
        assert identity is not None
        assert identity.id == make("ann", "a:b").id


def test_neither_the_password_nor_what_opens_another_ensemble_travels() -> None:
    proof = proof_of("uuid", "scrypt", "ann:secret")
    assert b"secret" not in proof
    assert proof != proof_of("other", "scrypt", "ann:secret")
    kept = make_scrypt_acl("uuid", "ann", "secret").id
    assert b64encode(proof[4:]).decode() not in kept


def test_refuses_what_is_no_entry() -> None:
    with pytest.raises(BadArgumentsError, match="'raed' is no permission"):
        make_acl("world", "anyone", raed=True)  # type: ignore[call-arg]
    for name in ("a:b", 3):
        with pytest.raises(BadArgumentsError, match="a user name is a text without"):
            make_digest_acl(name, "secret")  # type: ignore[arg-type]
