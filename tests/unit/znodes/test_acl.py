"""Access control: which entry grants what to whom, what may stand in a list, and what is shown."""

import pytest

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import (
    ENTRIES_CEILING,
    OPEN_ACL,
    READ_ONLY_ACL,
    SUPER,
    Acl,
    Acls,
    Identities,
    Identity,
    Permission,
    allows,
    authenticate,
    digest_id,
    identities_of,
    mask_hashes,
    normalize_acls,
    scrypt_id,
    scrypt_key,
)
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.reads import reply_to_aux_read, reply_to_read
from raykeeper.znodes.replies import ErrorReply, GetAclsReply, GetDataReply, WhoAmIReply
from raykeeper.znodes.requests import (
    AddAuth,
    Connect,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    SessionId,
    SetAcls,
    SetData,
    WhoAmI,
    WriteOp,
)
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CreateTxn, ErrorTxn, SetAclTxn, SetIdentitiesTxn
from tests.unit.znodes.one_leader import OneLeader, password

READ, WRITE, CREATE, DELETE, ADMIN, ALL = (int(each) for each in (*Permission, Permission.ALL))
ANN = Identity("digest", digest_id("ann", "pw"))
BOB = Identity("scrypt", "bob:hash")
HERE = Identity("ip", "10.1.2.3")
ANNS = Acl(ALL, ANN.scheme, ANN.id)


def test_the_ids_of_digest_are_zookeepers() -> None:
    # Known from its documentation: super:admin.
    assert digest_id("super", "admin") == "super:xQJmxLMiHGwaqBvst5y6rkB6HQs="


def test_the_kept_scrypt_hash_does_not_prove_the_password() -> None:
    key = scrypt_key("e1", "ann", "pw")
    assert authenticate("scrypt", b"ann:" + key) == Identity("scrypt", scrypt_id("e1", "ann", "pw"))
    others = {
        scrypt_key("e2", "ann", "pw"),
        scrypt_key("e1", "bob", "pw"),
        scrypt_key("e1", "ann", "p"),
    }
    assert key not in others and len(others) == 3


@pytest.mark.parametrize(
    ("scheme", "credential", "identity"),
    [
        ("digest", b"ann:pw", ANN),
        ("digest", b":", Identity("digest", digest_id("", ""))),
        # As in ZooKeeper: the hash is of the whole text, the user is what stands before a colon.
        ("digest", b"ann", Identity("digest", "ann:dEy5qfs9VYN0TqPs6bTYGdkL3uI=")),
        ("digest", b"", Identity("digest", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk=")),
        ("digest", b"\xff:pw", Identity("digest", digest_id("\ufffd", "pw"))),
        ("digest", b"a" * 128 + b":pw", Identity("digest", digest_id("a" * 128, "pw"))),
        ("digest", b"a" * 129 + b":pw", None),
        ("digest", b"\xff" * 43, None),
        ("scrypt", b"annpw", None),
        ("scrypt", b"\xff:" + bytes(32), None),
        ("scrypt", b"a" * 200 + b":" + bytes(32), None),
        ("scrypt", b"ann:" + bytes(31), None),
        ("scrypt", b"ann:" + bytes(33), None),
        ("ip", b"10.1.2.3:", None),
        ("super", b":", None),
    ],
)
def test_credentials_become_identities(
    scheme: str, credential: bytes, identity: Identity | None
) -> None:
    assert authenticate(scheme, credential) == identity


@pytest.mark.parametrize(
    ("acls", "identities", "granted"),
    [
        (None, (), ALL),
        (OPEN_ACL, (), ALL),
        (READ_ONLY_ACL, (ANN,), READ),
        ((ANNS,), (), 0),
        ((ANNS,), (ANN,), ALL),
        ((ANNS,), (BOB, ANN), ALL),
        ((ANNS,), (Identity("scrypt", ANN.id),), 0),
        ((ANNS,), (SUPER,), ALL),
        ((Acl(READ, "world", "anyone"), Acl(WRITE, *("scrypt", BOB.id))), (BOB,), READ | WRITE),
        ((Acl(DELETE, "ip", "10.1.2.3"),), (HERE,), DELETE),
        ((Acl(DELETE, "ip", "10.1.0.0/16"),), (HERE,), DELETE),
        ((Acl(DELETE, "ip", "10.1.9.9/16"),), (HERE,), DELETE),
        ((Acl(DELETE, "ip", "10.2.0.0/16"),), (HERE,), 0),
        ((Acl(DELETE, "ip", "2001:db8::/32"),), (HERE,), 0),
        ((Acl(DELETE, "ip", "2001:db8::/32"),), (Identity("ip", "2001:db8::7"),), DELETE),
        ((Acl(DELETE, "ip", "10.0.0.0/8"),), (Identity("ip", "host7"),), 0),
        ((Acl(0, "world", "anyone"),), (ANN,), 0),
    ],
)
def test_each_entry_grants_its_permissions(
    acls: Acls | None, identities: Identities, granted: int
) -> None:
    for permission in (READ, WRITE, CREATE, DELETE, ADMIN):
        assert allows(acls, identities, permission) is bool(granted & permission)


INVALID = Code.INVALID_ACL


@pytest.mark.parametrize(
    ("acls", "identities", "kept"),
    [
        (None, (), None),
        (list(OPEN_ACL), (), None),
        ([*OPEN_ACL, *OPEN_ACL], (), None),
        ([ANNS, ANNS], (), (ANNS,)),
        ([Acl(READ, "auth", "")], (HERE,), INVALID),
        (
            [Acl(READ, "auth", "x")],
            (HERE, ANN, BOB),
            (Acl(READ, *("digest", ANN.id)), Acl(READ, *("scrypt", BOB.id))),
        ),
        ([Acl(READ, "ip", "10.0.0.0/8")], (), (Acl(READ, "ip", "10.0.0.0/8"),)),
        ([], (), INVALID),
        ([Acl(-1, "world", "anyone")], (), INVALID),
        ([Acl(32, "world", "anyone")], (), INVALID),
        ([Acl(63, "world", "anyone")], (), INVALID),
        ([Acl(-(1 << 31), "world", "anyone")], (), INVALID),
        ([Acl(0, "world", "anyone")], (), (Acl(0, "world", "anyone"),)),
        ([Acl(16, "world", "anyone")], (), (Acl(16, "world", "anyone"),)),
        ([Acl(1, "world", "someone")], (), INVALID),
        ([Acl(1, "super", "")], (SUPER,), INVALID),
        ([Acl(1, "digest", "ann")], (), INVALID),
        ([Acl(1, "digest", "ann:")], (), INVALID),
        ([Acl(1, "digest", ":")], (), INVALID),
        ([Acl(1, "digest", ":hash")], (), (Acl(1, "digest", ":hash"),)),
        ([Acl(1, "digest", "a:b:c")], (), INVALID),
        ([Acl(1, "digest", "a:" + "b" * 600)], (), INVALID),
        ([Acl(1, "ip", "10.0.0.0/33")], (), INVALID),
        ([Acl(1, "sasl", "ann")], (), INVALID),
        (
            [Acl(1, "digest", f"u{i}:x") for i in range(ENTRIES_CEILING)],
            (),
            tuple(Acl(1, "digest", f"u{i}:x") for i in range(ENTRIES_CEILING)),
        ),
        ([Acl(1, "digest", f"u{i}:x") for i in range(ENTRIES_CEILING + 1)], (), INVALID),
        ([Acl(1, "ip", "::1")] * 10 * ENTRIES_CEILING, (), (Acl(1, "ip", "::1"),)),
    ],
)
def test_acls_are_stored_in_zookeepers_form(
    acls: list[Acl] | None, identities: Identities, kept: object
) -> None:
    assert normalize_acls(acls, identities) == kept


def test_hashes_are_shown_to_administrators_only() -> None:
    acls = (Acl(READ, *("digest", ANN.id)), Acl(ADMIN, *("scrypt", BOB.id)), *READ_ONLY_ACL)
    hidden = (Acl(READ, "digest", "ann:x"), Acl(ADMIN, "scrypt", "bob:x"), *READ_ONLY_ACL)
    assert mask_hashes(None, ()) == OPEN_ACL
    assert mask_hashes(acls, (ANN,)) == hidden
    assert mask_hashes(acls, (BOB,)) == acls
    assert mask_hashes(acls, (SUPER,)) == acls


def test_the_address_is_an_identity_when_there_is_one() -> None:
    assert identities_of((ANN,), "") == (ANN,)
    assert identities_of((ANN,), "10.1.2.3") == (ANN, HERE)


class Two:
    """Ann has proved who she is, Eve has not; the znode is Ann's, with a child."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.leader = OneLeader(limits)
        self.ann = self.leader.open(1)
        self.eve = self.leader.open(2, "10.1.2.3")
        self.leader.do(self.ann, AddAuth("digest", b"ann:pw"))

    def create(self, permissions: int) -> None:
        self.leader.do(self.ann, Create("/a", b"v", 0))
        self.leader.do(self.ann, Create("/a/b", b"", 0))
        acls = [ANNS, Acl(permissions, "world", "anyone")]
        assert isinstance(self.leader.do(self.ann, SetAcls("/a", acls, 0)), SetAclTxn)

    def code(self, session: SessionId, op: WriteOp) -> int:
        change = self.leader.do(session, op)
        return change.code if isinstance(change, ErrorTxn) else 0


WRITES: list[tuple[WriteOp, int]] = [
    (SetData("/a", b"", -1), WRITE),
    (SetData("/a", b"", 99), WRITE),
    (Create("/a/c", b"", 0), CREATE),
    (Create("/a/b", b"", CreateMode.EPHEMERAL), CREATE),
    (Delete("/a/b", -1), DELETE),
    (Delete("/a/x", -1), DELETE),
    (SetAcls("/a", list(OPEN_ACL), -1), ADMIN),
]


@pytest.mark.parametrize(("op", "needed"), WRITES)
def test_a_write_needs_its_permission(op: WriteOp, needed: int) -> None:
    two = Two()
    two.create(ALL & ~needed)
    assert two.code(two.eve, op) == Code.NO_AUTH
    two = Two()
    two.create(needed)
    assert two.code(two.eve, op) != Code.NO_AUTH
    two = Two()
    two.create(0)
    assert two.code(two.ann, op) != Code.NO_AUTH


def test_a_deletion_ignores_the_acl_of_the_znode_itself() -> None:
    two = Two()
    two.create(0)
    two.leader.do(two.ann, Delete("/a/b", -1))
    assert two.code(two.eve, Delete("/a", -1)) == 0


@pytest.mark.parametrize(
    "request_", [GetData(1, "/a", True), Exists(1, "/a", False), GetChildren(1, "/a", False)]
)
def test_a_read_needs_its_permission(request_: GetData | Exists | GetChildren) -> None:
    two = Two()
    two.create(ALL & ~READ)
    state = two.leader.state
    identities = {each: state.sessions.by_id[each].identities for each in (two.ann, two.eve)}
    assert reply_to_read(state, identities[two.eve], request_) == ErrorReply(
        1, state.zxid, Code.NO_AUTH
    )
    assert not isinstance(reply_to_read(state, identities[two.ann], request_), ErrorReply)


def test_an_acl_is_readable_with_read_or_admin() -> None:
    for permissions, is_shown in ((READ, True), (ADMIN, True), (WRITE | CREATE | DELETE, False)):
        two = Two()
        two.create(permissions)
        state = two.leader.state
        item = reply_to_aux_read(state, state.sessions.by_id[two.eve], GetAcls(1, "/a"))
        assert isinstance(item, GetAclsReply if is_shown else ErrorReply)
        if isinstance(item, GetAclsReply):
            assert item.acls[0].id == (ANN.id if permissions == ADMIN else "ann:x")
            assert item.stat.aversion == 1
    item = reply_to_aux_read(state, state.sessions.by_id[two.eve], GetAcls(1, "/none"))
    assert item == ErrorReply(1, state.zxid, Code.NO_NODE)


def test_who_am_i_lists_the_identities() -> None:
    two = Two()
    sessions = two.leader.state.sessions.by_id
    for session, identities in ((two.ann, (ANN,)), (two.eve, (HERE,))):
        item = reply_to_aux_read(two.leader.state, sessions[session], WhoAmI(1))
        assert item == WhoAmIReply(1, two.leader.state.zxid, identities)


def test_auth_becomes_what_the_session_has_proved_so_far() -> None:
    two = Two()
    mine = [Acl(ALL, "auth", "")]
    assert two.code(two.eve, Create("/e", b"", 0, mine)) == Code.INVALID_ACL
    change = two.leader.do(two.ann, Create("/a", b"", 0, mine))
    assert isinstance(change, CreateTxn) and change.acls == (ANNS,)
    # Also what an outstanding write proves.
    two.leader.prepare(two.eve, AddAuth("digest", b"eve:pw"))
    change = two.leader.prepare(two.eve, Create("/e", b"", 0, mine))
    assert isinstance(change, CreateTxn) and change.acls is not None
    assert change.acls[0].id == digest_id("eve", "pw")


def test_an_acl_has_as_many_entries_as_the_setting_says() -> None:
    two = Two(Limits(acl_entries_max=2))
    entries = [Acl(1, "digest", f"u{number}:x") for number in range(3)]
    assert two.code(two.ann, Create("/a", b"", 0, entries[:2])) == 0
    assert two.code(two.ann, Create("/b", b"", 0, [*entries[:2], entries[0]])) == 0, "once"
    assert two.code(two.ann, Create("/c", b"", 0, entries)) == Code.INVALID_ACL
    two.leader.do(two.ann, Create("/d", b"", 0))
    assert two.code(two.ann, SetAcls("/d", entries, -1)) == Code.INVALID_ACL
    assert two.code(two.ann, SetAcls("/d", entries[:2], -1)) == 0


@pytest.mark.parametrize("most", [64, 3])
def test_an_identity_is_added_once_up_to_the_setting(most: int) -> None:
    two = Two(Limits(session_identities_max=most))
    assert two.leader.do(two.ann, AddAuth("digest", b"ann:pw")) == SetIdentitiesTxn((ANN,))
    for number in range(most - 1):
        assert two.code(two.ann, AddAuth("digest", b"u%d:pw" % number)) == 0
    assert two.code(two.ann, AddAuth("digest", b"more:pw")) == Code.AUTH_FAILED
    assert two.code(two.ann, AddAuth("digest", b"u1:pw")) == 0  # it has that already


def test_a_super_user_may_do_everything() -> None:
    two = Two(Limits(super_identities=(Identity("digest", digest_id("root", "pw")),)))
    two.create(0)
    assert two.code(two.eve, SetData("/a", b"", -1)) == Code.NO_AUTH
    two.leader.do(two.eve, AddAuth("digest", b"root:pw"))
    assert SUPER in two.leader.state.sessions.by_id[two.eve].identities
    assert two.code(two.eve, SetData("/a", b"", -1)) == 0
    assert two.code(two.eve, SetData("/zookeeper/config", b"", -1)) == 0


def test_the_config_znode_is_read_only() -> None:
    two = Two()
    assert two.code(two.ann, SetData("/zookeeper/config", b"", -1)) == Code.NO_AUTH
    state = two.leader.state
    assert isinstance(
        reply_to_read(state, (), GetData(1, "/zookeeper/config", False)), GetDataReply
    )


def test_identities_stay_when_the_session_moves_and_the_address_goes_with_the_connection() -> None:
    two = Two()
    two.leader.prepare_open(Connect(two.ann, password(1), Millis(5_000), Zxid(0)), "10.9.9.9")
    change = two.leader.prepare(two.ann, Create("/m", b"", 0, [Acl(ALL, "auth", "")]))
    assert isinstance(change, CreateTxn) and change.acls == (ANNS,)
    two.leader.apply()
    session = two.leader.state.sessions.by_id[two.ann]
    assert session.identities == (ANN, Identity("ip", "10.9.9.9"))


def test_a_new_acl_changes_the_aversion_alone() -> None:
    two = Two()
    two.leader.create(two.ann, "/a", b"v")
    before = two.leader.state.tree.znodes["/a"]
    was = (before.mzxid, before.mtime, before.version, before.pzxid)
    for aversion in (1, 2, 3):
        change = two.leader.do(
            two.ann, SetAcls("/a", list(OPEN_ACL if aversion == 2 else [ANNS]), aversion - 1)
        )
        assert isinstance(change, SetAclTxn) and change.stat.aversion == aversion
    after = two.leader.state.tree.znodes["/a"]
    assert (after.mzxid, after.mtime, after.version, after.pzxid) == was


def test_acls_and_identities_survive_a_snapshot_and_are_part_of_the_digest() -> None:
    two = Two()
    two.create(READ)
    state = two.leader.state
    walk, loader = SnapshotWalk(state), SnapshotLoader()
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    loaded = loader.finish(state.zxid, state.zxid)
    assert loaded.digest() == state.digest()
    assert loaded.tree.znodes["/a"].attributes is state.tree.znodes["/a"].attributes  # shared
    assert loaded.sessions.by_id[two.eve].identities == (HERE,)
    before = state.digest()
    two.leader.do(two.ann, SetAcls("/a", [ANNS], -1))
    changed = state.digest() - before
    two.leader.do(two.eve, AddAuth("digest", b"eve:pw"))
    assert state.digest() - before not in (0, changed) and changed


def replayed(two: Two, since: int) -> State:
    """The present state, written down whole, with the log applied over it once more."""
    state = two.leader.state
    walk, loader = SnapshotWalk(state), SnapshotLoader()
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    loaded = loader.finish(two.leader.log[since][0], state.zxid)
    for zxid, data in two.leader.log[since:]:
        loaded.apply(zxid, data)
    return loaded


def test_a_replay_over_a_later_state_changes_no_acl_and_no_identity() -> None:
    two = Two()
    two.create(READ)
    for acls in ([ANNS], list(OPEN_ACL), [ANNS]):
        two.leader.do(two.ann, SetAcls("/a", acls, -1))
    two.leader.do(two.ann, AddAuth("digest", b"more:pw"))
    # A later life of a path has a list of its own, and one that is gone has none.
    two.leader.do(two.ann, Create("/x", b"", 0))
    two.leader.do(two.ann, SetAcls("/x", [ANNS], -1))
    two.leader.do(two.ann, Delete("/x", -1))
    two.leader.do(two.ann, Create("/x", b"", 0))
    two.leader.do(two.ann, Create("/y", b"", 0))
    two.leader.do(two.ann, SetAcls("/y", [ANNS], -1))
    two.leader.do(two.ann, Delete("/y", -1))
    for since in range(len(two.leader.log)):
        loaded = replayed(two, since)
        assert loaded.digest() == two.leader.state.digest(), since
        traits = loaded.tree.znodes["/a"].attributes
        assert traits is not None and traits.aversion == 4
        assert len(loaded.sessions.by_id[two.ann].identities) == 2
