"""Arguments that make no sense: refused by both clients before anything is sent, in words that say
what was wrong and what was expected.
"""

from typing import Any

import pytest

from raykeeper.client import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    Acl,
    ClientState,
    QuotaLimits,
    make_acl,
)
from raykeeper.client.errors import AuthFailedError, BadArgumentsError, InvalidAclError
from tests.contract.client_handles import Open
from tests.contract.test_clients import client, connect, opener, top

__all__ = ["client", "connect", "opener", "top"]

LIMITS_OF_A = "/zookeeper/quota/a/zookeeper_limits"
BAD = [
    # Paths and values.
    (lambda c: c.create("a"), 'a path must start with "/"'),
    (lambda c: c.get(b"/a"), "a path must be a string, not bytes"),
    (lambda c: c.set("/a", "text"), "a value must be bytes, not str"),
    (lambda c: c.set("/a", b"", version="1"), "a version must be a 32-bit integer, not '1'"),
    (lambda c: c.ensure_path("/a/"), 'must not end with "/"'),
    (lambda c: c.get_all_children_number(""), "a path cannot be empty"),
    (lambda c: c.get_ephemerals("a"), "a prefix is text that starts with \"/\", not 'a'"),
    # What is to be created.
    (lambda c: c.create("/a", ttl_s=0), "ttl_s must be a positive number of seconds, not 0"),
    (lambda c: c.create("/a", ttl_s="1"), "ttl_s must be a positive number of seconds, not '1'"),
    (lambda c: c.create("/a", ttl_s=True), "ttl_s must be a positive number"),
    (lambda c: c.create("/a", ttl_s=float("nan")), "ttl_s must be a positive number"),
    (lambda c: c.create("/a", ttl_s=1e12), "ttl_s must be a positive number"),
    (lambda c: c.create("/a", ttl_s=1, ephemeral=True), "ttl_s goes with neither ephemeral nor"),
    (lambda c: c.create("/a", ttl_s=1, container=True), "ttl_s goes with neither ephemeral nor"),
    (lambda c: c.create("/a", container=True, sequence=True), "container goes with neither"),
    (lambda c: c.create("/a", container=True, ephemeral=True), "container goes with neither"),
    # How it is to be read.
    (lambda c: c.get("/a", consistency="strong"), '"session" or "linearizable", not \'strong\''),
    (lambda c: c.exists("/a", consistency=None), '"session" or "linearizable", not None'),
    (lambda c: c.get_children("/a", consistency=1), '"session" or "linearizable", not 1'),
    (lambda c: c.get_many("/a"), "paths must be a list of paths, not '/a'"),
    (lambda c: c.get_many(3), "paths must be a list of paths, not 3"),
    (lambda c: c.get_many(["/a", "b"]), 'a path must start with "/"'),
    (lambda c: c.get_many(["/a"] * 1001), "1001 paths, at most 1000"),
    # Who may do what.
    (lambda c: c.add_auth(3, "a:b"), "a scheme is text, not 3"),
    (lambda c: c.add_auth("digest", 3), "a credential is text, not int"),
    (lambda c: c.set_acls("/a", OPEN_ACL_UNSAFE, version=None), "32-bit integer, not None"),
    # Quotas.
    (lambda c: c.set_quota("/", QuotaLimits()), "it cannot have a quota"),
    (lambda c: c.set_quota("/zookeeper/x", QuotaLimits()), "it cannot have a quota"),
    (lambda c: c.set_quota("/a", 3), "limits must be QuotaLimits, not 3"),
    (lambda c: c.set_quota("/a", QuotaLimits(bytes=-2)), "bytes must be a number"),
    (lambda c: c.set_quota("/a", QuotaLimits(hard_znodes=1.5)), "hard_znodes must be a number"),
    (lambda c: c.remove_quota("a"), 'a path must start with "/"'),
    (lambda c: c.get_quota("a"), 'a path must start with "/"'),
    (lambda c: c.set(LIMITS_OF_A, b"garbage"), "a quota looks like b'count=5,bytes=100=;byteHard"),
    (lambda c: c.create(LIMITS_OF_A, b"count=-5", makepath=True), "not b'count=-5'"),
    (lambda c: c.transaction().set(LIMITS_OF_A, b"9" * 1000), f"not {b'9' * 80!r}"),
    (lambda c: c.create("/zookeeper/quota/zookeeper_limits"), "it cannot have a quota"),
    (lambda c: c.transaction().create("/zookeeper/quota/zookeeper/zookeeper_limits"), "it cannot"),
    # Transactions.
    (lambda c: c.transaction().check("/a", version=1.0), "32-bit integer, not 1.0"),
    (lambda c: c.transaction().get("a"), 'a path must start with "/"'),
    (lambda c: c.transaction().exists("a"), 'a path must start with "/"'),
    (lambda c: c.transaction().otherwise.get_children("a"), 'a path must start with "/"'),
    (lambda c: c.transaction().when("a", "version", "==", 1), 'a path must start with "/"'),
    (lambda c: c.transaction().when("/a", "owner", "==", 1), "no such condition: 'owner' '=='"),
    (lambda c: c.transaction().when("/a", "value", "=", b""), "no such condition: 'value' '='"),
    (lambda c: c.transaction().when("/a", "value", "==", 1), "value is compared with bytes, not 1"),
    (lambda c: c.transaction().when("/a", "version", "==", True), "compared with int, not True"),
    (lambda c: c.transaction().when("/a", "exists", "==", 1), "exists is compared with bool"),
    (lambda c: c.transaction().when("/a", "mzxid", "<", 1 << 63), "has more than 64 bits"),
]


def networks(count: int) -> list[Acl]:
    return [make_acl("ip", f"10.{n >> 8}.{n & 255}.0/24", read=True) for n in range(count)]


BAD_ACLS = [
    (3, "an ACL is a list of Acl, not 3"),
    (["world:anyone:r"], "an ACL is a list of Acl, and has 'world:anyone:r'"),
    ([], "it has 0 entries"),
    (networks(1_001), "it has 1001 entries"),
    ([make_acl("world", "everybody", read=True)], "malformed: Acl("),
    ([make_acl("digest", "ann", read=True)], "malformed: Acl("),
    ([make_acl("ip", "300.1.1.1", read=True)], "malformed: Acl("),
    ([make_acl("kerberos", "ann", read=True)], "malformed: Acl("),
    ([Acl(32, "world", "anyone")], "malformed: Acl("),
    ([Acl("r", "world", "anyone")], "an ACL is a list of Acl, and has Acl("),  # type: ignore[arg-type]
    ([Acl(1, "world", None)], "scheme and id of an Acl must be text"),  # type: ignore[arg-type]
    (OPEN_ACL_UNSAFE[0], "an ACL is a list of Acl, not Acl("),
]


def test_an_acl_that_is_longer_than_the_servers_setting_is_refused_by_its_name(
    client: Any, top: str
) -> None:
    client.set_acls(top, [*client.get_acls(top)[0], *networks(63)])
    for refused in (
        lambda: client.create(f"{top}/a", acl=networks(65)),
        lambda: client.set_acls(top, networks(65)),
    ):
        with pytest.raises(InvalidAclError, match="acl_entries_max"):
            refused()
    assert client.get_children(top) == []


def test_arguments_are_refused_with_what_was_expected(client: Any, top: str) -> None:
    for call, text in BAD:
        with pytest.raises(BadArgumentsError) as caught:
            call(client)
        assert text in str(caught.value)
    for acl, text in BAD_ACLS:
        for refused in (
            lambda acl=acl: client.create(f"{top}/a", acl=acl),
            lambda acl=acl: client.ensure_path(f"{top}/a", acl=acl),
            lambda acl=acl: client.set_acls(top, acl),
            lambda acl=acl: client.transaction().create(f"{top}/a", acl=acl),
        ):
            with pytest.raises(InvalidAclError) as invalid:
                refused()
            assert text in str(invalid.value)
    for unknown in (client.create, client.transaction().create):
        with pytest.raises(TypeError, match="ephemral"):
            unknown(f"{top}/a", ephemral=True)
    assert client.get_children(top) == []


def test_below_a_chroot_quota_names_are_ordinary(connect: Open, client: Any, top: str) -> None:
    inside = connect(top)
    inside.create(LIMITS_OF_A, b"garbage", makepath=True)
    inside.set(LIMITS_OF_A, b"other")
    assert client.get(top + LIMITS_OF_A, consistency="linearizable")[0] == b"other"


def test_an_invalid_credential_fails_alone(client: Any, top: str) -> None:
    """ZooKeeper closes the connection, and its clients give the session up."""
    client.add_auth("digest", "ann:secret")
    client.create(f"{top}/e", ephemeral=True, acl=CREATOR_ALL_ACL)
    who, client_id = client.who_am_i(), client.client_id
    for scheme, credential in (
        *(("kerberos", "ann:secret"), ("super", ""), ("ip", "192.0.2.1"), ("digest", "ann")),
        *(("digest", b"\xff:x"), ("scrypt", "ann"), ("digest", "u" * 129 + ":x")),
    ):
        with pytest.raises(AuthFailedError):
            client.add_auth(scheme, credential)
    assert (client.who_am_i(), client.client_id) == (who, client_id)
    assert client.state is ClientState.CONNECTED
    client.set(f"{top}/e", b"by ann")


def test_a_transaction_that_is_too_large_is_refused(client: Any, top: str) -> None:
    t = client.transaction()
    for _ in range(65):
        t.set(top, bytes(1 << 20))
    with pytest.raises(BadArgumentsError, match="at most 67108864 are allowed"):
        t.commit()
    t = client.transaction()
    for _ in range(32_768):
        t.check(top)
    with pytest.raises(BadArgumentsError):
        t.commit()
    assert client.exists(top).version == 0
