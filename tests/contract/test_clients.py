"""What the two clients promise, each operation through both, over servers of this process.

`tests/ray/test_clients_ray.py` runs the same suite over real servers.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from raykeeper.client import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Identity,
    Permission,
    QuotaLimits,
    make_acl,
    make_digest_acl,
    make_scrypt_acl,
)
from raykeeper.client.errors import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ClosedError,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QuotaExceededError,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SessionMovedError,
)
from tests.contract.client_handles import SUPER, Open, Room, open_awaited, open_blocking
from tests.contract.stream_room import StreamRoom


@pytest.fixture(
    params=[
        (open_blocking, Room),
        (open_awaited, Room),
        (open_blocking, StreamRoom),
        (open_awaited, StreamRoom),
    ]
)
def opener(request: pytest.FixtureRequest) -> Iterator[Open]:
    """What opens a client of either kind, over either carrier."""
    opens, room_of = request.param
    room = room_of()
    yield opens(room)
    room.close()


@pytest.fixture
def connect(opener: Open) -> Iterator[Open]:
    """Opens clients, which are closed after the test."""
    opened: list[Any] = []

    def open_one(chroot: str = "", **options: Any) -> Any:
        opened.append(opener(chroot, **options))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Open) -> Any:
    """A client."""
    return connect()


@pytest.fixture
def top(client: Any) -> str:
    """The path of a new, empty znode."""
    path: str = client.create("/t-", sequence=True)
    return path


# Creating, and all that is below.


def test_a_creation_returns_path_and_stat(client: Any, top: str) -> None:
    path, stat = client.create(f"{top}/a-", b"12", sequence=True, include_data=True)
    assert path == f"{top}/a-0000000000"
    assert stat == client.exists(path)
    assert (stat.data_length, stat.version, stat.ephemeral_owner) == (2, 0, 0)
    path, stat = client.create(f"{top}/x/y", ephemeral=True, makepath=True, include_data=True)
    assert (path, stat.ephemeral_owner) == (f"{top}/x/y", client.session_id)
    with pytest.raises(NoChildrenForEphemeralsError):
        client.create(f"{top}/x/y/z", include_data=True)


@pytest.mark.parametrize("kind", [{"container": True}, {"ttl_s": 3600}, {"ttl_s": 3600.5}])
def test_znodes_of_every_kind_are_created(client: Any, top: str, kind: dict[str, Any]) -> None:
    assert client.create(f"{top}/a", b"v", **kind) == f"{top}/a"
    assert client.create(f"{top}/a/b", **kind) == f"{top}/a/b"
    assert client.exists(f"{top}/a").ephemeral_owner == 0
    if "ttl_s" in kind:
        assert client.create(f"{top}/a/c", sequence=True, **kind) == f"{top}/a/c0000000001"


def test_ensure_path_creates_a_path(client: Any, top: str) -> None:
    client.ensure_path(f"{top}/a/b/c")
    client.set(f"{top}/a/b/c", b"kept")
    client.ensure_path(f"{top}/a/b/c", acl=READ_ACL_UNSAFE)
    assert client.get(f"{top}/a/b/c")[0] == b"kept"
    grown = make_acl("world", "anyone", read=True, create=True)
    client.ensure_path(f"{top}/r/s", acl=[grown])
    assert client.get_acls(f"{top}/r")[0] == client.get_acls(f"{top}/r/s")[0] == [grown]
    client.create(f"{top}/e", ephemeral=True)
    with pytest.raises(NoChildrenForEphemeralsError):
        client.ensure_path(f"{top}/e/f")


def test_a_subtree_is_deleted_and_counted(client: Any, top: str) -> None:
    for path in ("a", "a/b", "a/b/c", "a/d"):
        client.create(f"{top}/{path}")
    assert client.get_all_children_number(f"{top}/a") == 3
    with pytest.raises(NotEmptyError):
        client.delete(f"{top}/a")
    client.delete(f"{top}/a", recursive=True)
    client.delete(f"{top}/a", recursive=True)
    assert client.get_all_children_number(top) == 0
    with pytest.raises(NoNodeError):
        client.get_all_children_number(f"{top}/a")


def test_ephemerals_lists_those_of_the_session(connect: Open, client: Any, top: str) -> None:
    connect().create(f"{top}/other", ephemeral=True)
    for path in ("b", "a", "c"):
        client.create(f"{top}/{path}", ephemeral=True)
    client.create(f"{top}/stays")
    assert client.get_ephemerals() == [f"{top}/a", f"{top}/b", f"{top}/c"]
    assert client.get_ephemerals(f"{top}/b") == [f"{top}/b"]
    assert client.get_ephemerals("/nothing") == []


# Reading.


@pytest.mark.parametrize("consistency", ["session", "linearizable"])
def test_both_kinds_of_reads_are_served(
    connect: Open, client: Any, top: str, consistency: Any
) -> None:
    connect().create(f"{top}/a", b"by another")
    if consistency == "session":
        client.sync()
    events: list[Any] = []
    value, stat = client.get(f"{top}/a", events.append, consistency=consistency)
    assert (value, stat.version) == (b"by another", 0)
    assert client.exists(f"{top}/a", consistency=consistency) == stat
    assert client.exists(f"{top}/b", consistency=consistency) is None
    assert client.get_children(top, consistency=consistency) == ["a"]
    with pytest.raises(NoNodeError):
        client.get_children(f"{top}/b", consistency=consistency)
    client.set(f"{top}/a", b"2")
    client.get(f"{top}/a")
    assert [event.path for event in events] == [f"{top}/a"]


def test_several_znodes_are_read_at_one_zxid(client: Any, top: str) -> None:
    client.create(f"{top}/a", b"1")
    client.create(f"{top}/b", b"2")
    client.create(f"{top}/secret", b"3", acl=[make_acl("ip", "192.0.2.1", all=True)])
    first, missing, second, secret = client.get_many(
        [f"{top}/{name}" for name in ("a", "none", "b", "secret")]
    )
    assert first == client.get(f"{top}/a")
    assert second[0] == b"2"
    assert (type(missing), missing.path) == (NoNodeError, f"{top}/none")
    assert type(secret) is NoAuthError
    assert client.get_many([]) == []


# Transactions.


def test_a_transaction_has_the_results_of_its_operations(client: Any, top: str) -> None:
    client.create(f"{top}/config", b"v1")
    with client.transaction() as t:
        t.check(f"{top}/config", version=0)
        t.check(f"{top}/config")
        t.set(f"{top}/config", b"v2")
        t.set_data(f"{top}/config", b"v3", version=1)
        t.create(f"{top}/log-", b"v3", sequence=True)
        t.create(f"{top}/ttl", ttl_s=60, acl=READ_ACL_UNSAFE)
        t.create(f"{top}/container", container=True)
        t.create(f"{top}/mine", ephemeral=True)
        t.get(f"{top}/config")
        t.exists(f"{top}/none")
        t.exists(f"{top}/config")
        t.get_children(top)
        t.delete(f"{top}/container", version=0)
    assert t.succeeded is True
    checked, again, first, second, log, ttl, container, mine, *reads, deleted = t.results
    assert (checked, again, deleted) == (None, None, None)
    assert (first.version, second.version) == (1, 2)
    assert (log, ttl) == (f"{top}/log-0000000001", f"{top}/ttl")
    assert (container, mine) == (f"{top}/container", f"{top}/mine")
    assert reads[0] == (b"v3", second)
    assert reads[1:3] == [None, second]
    assert sorted(reads[3]) == ["config", "container", "log-0000000001", "mine", "ttl"]
    assert {client.exists(f"{top}/{name}").czxid for name in ("ttl", "mine")} == {second.mzxid}
    assert client.exists(f"{top}/container") is None


def test_a_failed_operation_undoes_all_and_is_named(client: Any, top: str) -> None:
    client.create(f"{top}/a", b"1")
    with pytest.raises(BadVersionError) as caught, client.transaction() as t:
        t.set(f"{top}/a", b"2")
        t.create(f"{top}/b")
        t.check(f"{top}/a", version=7)
        t.delete(f"{top}/a")
    error = caught.value
    assert (error.failed, error.path, error.definite) == (2, f"{top}/a", True)
    assert error.results is not None
    kinds = [None, None, BadVersionError, RuntimeInconsistencyError]
    assert [each and type(each) for each in error.results] == kinds
    assert (t.results, client.get(f"{top}/a")[0]) == (None, b"1")
    assert client.get_children(top) == ["a"]


def test_a_transaction_is_sent_once_or_not_at_all(client: Any, top: str) -> None:
    with suppress(ZeroDivisionError), client.transaction() as t:
        t.create(f"{top}/a")
        raise ZeroDivisionError
    assert t.succeeded is None
    assert client.get_children(top) == []
    with client.transaction() as t:
        t.create(f"{top}/b")
        assert t.commit() == [f"{top}/b"]
    for late in (lambda: t.create(f"{top}/c"), lambda: t.otherwise.get(top), t.commit):
        with pytest.raises(BadArgumentsError, match="has been committed"):
            late()
    assert client.transaction().commit() == []


CONDITIONS = [
    ("version", "==", 1, True),
    ("version", "!=", 1, False),
    ("version", "<", 2, True),
    ("version", ">", 1, False),
    ("value", "==", b"v", True),
    ("value", "<", b"u", False),
    ("exists", "==", True, True),
    ("exists", "!=", True, False),
    ("mzxid", ">", 0, True),
    ("czxid", "<", 1, False),
    ("num_children", "==", 0, True),
    ("num_children", ">", 0, False),
]


@pytest.mark.parametrize(("field", "relation", "operand", "holds"), CONDITIONS)
def test_conditions_choose_a_branch(
    client: Any, top: str, field: Any, relation: Any, operand: Any, holds: bool
) -> None:
    client.create(f"{top}/a")
    client.set(f"{top}/a", b"v")
    with client.transaction() as t:
        t.when(f"{top}/a", field, relation, operand)
        t.set(f"{top}/a", b"then")
        t.otherwise.get(f"{top}/a")
        t.otherwise.create(f"{top}/b")
    assert t.succeeded is holds
    if holds:
        assert t.results == [client.exists(f"{top}/a")]
    else:
        assert t.results == [(b"v", client.exists(f"{top}/a")), f"{top}/b"]


def test_all_conditions_must_hold(client: Any, top: str) -> None:
    for done in ([f"{top}/a"], [f"{top}/b"]):
        with client.transaction() as t:
            t.when(top, "exists", "==", True)
            t.when(f"{top}/a", "exists", "==", True)
            t.create(f"{top}/b")
            t.otherwise.create(f"{top}/a")
        assert (t.succeeded, t.results) == (done == [f"{top}/b"], done)
    with pytest.raises(NodeExistsError) as caught, client.transaction() as t:
        t.when(f"{top}/none", "version", "==", 0)
        t.otherwise.get(top)
        t.otherwise.create(f"{top}/b")
    assert (t.succeeded, caught.value.failed) == (False, 1)


# Who may do what.


@pytest.mark.parametrize("scheme", ["digest", "scrypt"])
def test_acls_grant_access_to_authenticated_clients(
    connect: Open, client: Any, top: str, scheme: str
) -> None:
    path = f"{top}/a"
    with pytest.raises(InvalidAclError):
        client.create(path, acl=CREATOR_ALL_ACL)
    other = connect()
    client.add_auth(scheme, "ann:secret")
    other.add_auth(scheme, b"ann:wrong")
    client.create(path, b"v", acl=CREATOR_ALL_ACL)
    assert client.get(path)[0] == b"v"
    other.sync()
    for refused in (
        lambda: other.get(path),
        lambda: other.exists(path),
        lambda: other.set(path, b""),
        lambda: other.get_children(path),
        lambda: other.get_acls(path),
        lambda: other.set_acls(path, OPEN_ACL_UNSAFE),
        lambda: other.create(f"{path}/a"),
        lambda: other.get_all_children_number(path),
        lambda: other.get(path, consistency="linearizable"),
    ):
        with pytest.raises(NoAuthError):
            refused()
    (acl,), stat = client.get_acls(path)
    assert (acl.scheme, acl.permissions, stat.aversion) == (scheme, Permission.ALL, 0)
    assert [acl.id] == [each.id for each in client.who_am_i() if each.scheme == scheme]


def test_acls_are_read_and_replaced(connect: Open, client: Any, top: str) -> None:
    assert client.get_acls(top)[0] == list(OPEN_ACL_UNSAFE)
    made = [
        make_digest_acl("ann", "secret", all=True),
        make_scrypt_acl(client.ensemble_uuid, "bob", "secret", read=True, write=True),
        make_acl("world", "anyone", read=True, write=False),
    ]
    assert made[1].permissions == Permission.READ | Permission.WRITE
    assert client.set_acls(top, made, version=0).aversion == 1
    acls, stat = client.get_acls(top)
    assert stat.aversion == 1
    assert [each.id for each in acls] == ["ann:x", "bob:x", "anyone"], "hashes are masked"
    with pytest.raises(NoAuthError):
        client.set(top, b"")
    bob = connect()
    bob.add_auth("scrypt", "bob:secret")
    bob.set(top, b"by bob")
    client.add_auth("digest", "ann:secret")
    assert client.get_acls(top)[0] == made
    with pytest.raises(BadVersionError):
        client.set_acls(top, OPEN_ACL_UNSAFE, version=0)
    assert client.set_acls(top, (each for each in OPEN_ACL_UNSAFE), version=1).aversion == 2


def test_a_default_acl_is_used(connect: Open, client: Any, top: str) -> None:
    closed = connect(default_acl=[make_acl("world", "anyone", read=True, create=True)])
    for path in (closed.create(f"{top}/a"), closed.create(f"{top}/b/c", makepath=True)):
        with pytest.raises(NoAuthError):
            closed.set(path, b"")
    with pytest.raises(NoAuthError):
        closed.set(f"{top}/b", b"")
    closed.ensure_path(f"{top}/d")
    with closed.transaction() as t:
        t.create(f"{top}/e")
    assert {len(closed.get_acls(f"{top}/{name}")[0]) for name in "abde"} == {1}
    assert closed.get_acls(f"{top}/d")[0] != list(OPEN_ACL_UNSAFE)
    assert closed.get_acls(f"{top}/e")[0] != list(OPEN_ACL_UNSAFE)
    closed.set(closed.create(f"{top}/f", acl=OPEN_ACL_UNSAFE), b"open")
    with pytest.raises(InvalidAclError, match="it has 0 entries"):
        connect(default_acl=[])


def test_a_super_user_has_all_permissions(connect: Open, client: Any, top: str) -> None:
    path = client.create(f"{top}/a", acl=[make_acl("ip", "192.0.2.1", all=True)])
    root = connect()
    with pytest.raises(NoAuthError):
        root.get(path)
    root.add_auth("digest", SUPER)
    root.set_acls(path, OPEN_ACL_UNSAFE)
    assert Identity("super", "") in root.who_am_i()
    client.set(path, b"")


def test_whoami_lists_the_identities(client: Any, top: str) -> None:
    (here,) = client.who_am_i()
    assert here.scheme == "ip"
    client.create(f"{top}/a", b"v", acl=[make_acl("ip", here.id, read=True)])
    assert client.get(f"{top}/a")[0] == b"v"
    with pytest.raises(NoAuthError):
        client.set(f"{top}/a", b"")
    client.add_auth("digest", "ann:secret")
    client.add_auth("scrypt", "bob:secret")
    digest, scrypt, ip = client.who_am_i()
    assert digest == Identity("digest", make_digest_acl("ann", "secret").id)
    assert scrypt == Identity("scrypt", make_scrypt_acl(client.ensemble_uuid, "bob", "secret").id)
    assert ip == here


# Quotas.


def test_quotas_are_set_read_and_enforced(client: Any, top: str) -> None:
    with pytest.raises(NoNodeError):
        client.get_quota(top)
    client.set_quota(top, QuotaLimits(hard_znodes=3, bytes=100))
    client.create(f"{top}/a", b"12345")
    assert client.get_quota(top) == (QuotaLimits(hard_znodes=3, bytes=100), 2, 5)
    client.create(f"{top}/b")
    with pytest.raises(QuotaExceededError):
        client.create(f"{top}/c")
    client.set_quota(top, QuotaLimits(hard_bytes=5))
    client.create(f"{top}/c")
    with pytest.raises(QuotaExceededError):
        client.set(f"{top}/c", b"6")
    client.set_quota(f"{top}/a", QuotaLimits(hard_bytes=5))
    client.remove_quota(top)
    client.set(f"{top}/c", b"6")
    assert client.get_quota(f"{top}/a").bytes == 5
    client.remove_quota(f"{top}/a")
    assert client.exists(f"/zookeeper/quota{top}") is None
    with pytest.raises(NoNodeError):
        client.remove_quota(top)


# Handles.


def test_a_chroot_hides_the_rest_of_the_tree(connect: Open, client: Any, top: str) -> None:
    inside = connect(f"{top}/app")
    inside.ensure_path("/")
    assert inside.create("/a/b", b"v", makepath=True) == "/a/b"
    assert inside.create("/s-", sequence=True, ephemeral=True) == "/s-0000000001"
    assert len(client.get_children(f"{top}/app", consistency="linearizable")) == 2
    assert client.get(f"{top}/app/a/b", consistency="linearizable")[0] == b"v"
    assert inside.get_ephemerals() == ["/s-0000000001"]
    assert inside.get_ephemerals("/s") == ["/s-0000000001"]
    assert inside.get_all_children_number("/") == 3
    with inside.transaction() as t:
        t.when("/a", "exists", "==", True)
        t.create("/a/c")
        t.get_children("/a")
    path, names = t.results
    assert (path, sorted(names)) == ("/a/c", ["b", "c"])
    with pytest.raises(NodeExistsError) as caught, inside.transaction() as t:
        t.create("/a")
    assert caught.value.path == "/a"
    assert [type(each) for each in inside.get_many(["/", "/x"])] == [tuple, NoNodeError]
    with pytest.raises(NoNodeError) as missing:
        inside.set("/x", b"")
    assert missing.value.path == "/x"
    client.set_quota(f"{top}/app", QuotaLimits(hard_znodes=9))
    inside.sync()
    assert inside.get_quota("/").znodes == 5
    with pytest.raises(BadArgumentsError, match="a handle with a chroot"):
        inside.set_quota("/a", QuotaLimits())
    client.remove_quota(f"{top}/app")
    inside.delete("/a", recursive=True)
    assert inside.exists("/a") is None


def test_a_session_is_taken_over(connect: Open, client: Any, top: str) -> None:
    client.add_auth("digest", "ann:secret")
    client.create(f"{top}/mine", ephemeral=True, acl=CREATOR_ALL_ACL)
    heir = connect(client_id=client.client_id)
    assert heir.session_id == client.session_id
    assert heir.client_id != client.client_id
    assert heir.get_ephemerals() == [f"{top}/mine"]
    heir.set(f"{top}/mine", b"by the heir")
    with pytest.raises((SessionMovedError, ClosedError)):
        client.get(top, consistency="linearizable")
    with pytest.raises(AuthFailedError):
        connect(client_id=client.client_id)
    late = heir.client_id
    heir.close()
    with pytest.raises((SessionExpiredError, AuthFailedError)):
        connect(client_id=late)
