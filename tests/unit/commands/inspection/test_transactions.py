"""Each kind of transaction as a document and as a line, without secrets."""

import json
from typing import Any, get_args

import pytest

from raykeeper.commands.inspection import transactions
from raykeeper.commands.inspection.transactions import (
    acl_documents,
    describe,
    error_name,
    session_of,
    shown_identities,
    transaction_document,
)
from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Acl, Identity, Permission, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    OpDone,
    RaiseLevelTxn,
    ReconfigErrorTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SetAclTxn,
    SetDataTxn,
    SetIdentitiesTxn,
    SuspectSessionTxn,
    Txn,
    TxnBody,
)
from raykeeper.znodes.znode import CONTAINER
from tests.unit.znodes.one_leader import zxid_at

ZXID = zxid_at(17)
SESSION = SessionId(31)
SECRET = digest_id("alice", "password")
ACLS = (Acl(Permission.READ, "digest", SECRET), Acl(Permission.ALL, "ip", "10.0.0.0/8"))
IDENTITIES = (Identity("digest", SECRET), Identity("scrypt", "b\x1bob:hash"))
STAT = Stat(Zxid(1), Zxid(1), Millis(0), Millis(0), 4, 0, 2, 0, 3, 0, Zxid(1))
NEW, MOVED = (
    CreateSessionTxn(session_id, b"secret", Millis(5_000), ServerId(2), 7, 1, "10.0.0.9")
    for session_id in (SessionId(ZXID), SESSION)
)
VALUE = {"value": "abc", "value_base64": None}
NO_TTL = {"container": False, "ttl_ms": None}
OPEN = [{"permissions": 31, "scheme": "world", "id": "anyone"}]
HIDDEN = [
    {"permissions": 1, "scheme": "digest", "id": "alice"},
    {"permissions": 31, "scheme": "ip", "id": "10.0.0.0/8"},
]
SET = {"op": "set", "path": "/a", **VALUE, "version": 4}
MEMBERS = MemberList(
    Zxid(9), {ServerId(1): FOUNDING_DISK, ServerId(4): DiskId("new")}, (ServerId(5),)
)
LIST = {"version": "0:9", "voters": {"1": None, "4": "new"}, "observers": [5]}
CREATED = {"op": "create", "path": "/a", **VALUE, "ephemeral_owner": None, **NO_TTL, "acls": OPEN}

CREATION = CreateTxn("/a", b"abc", SessionId(0), 1)
CASES: list[tuple[TxnBody, str, str, list[Any], dict[str, Any]]] = [
    (CREATION, "create", "create /a (3 bytes)", [CREATED], {}),
    (
        CreateTxn("/a", None, SESSION, 1, ACLS, 5_000),
        "create",
        "create ephemeral /a (0 bytes)",
        [CREATED | {"value": "", "ephemeral_owner": "0x1f", "ttl_ms": 5_000, "acls": HIDDEN}],
        {},
    ),
    (
        CreateTxn("/a", b"abc", SessionId(0), 1, None, CONTAINER),
        "create",
        "create /a (3 bytes)",
        [CREATED | {"container": True}],
        {},
    ),
    (DeleteTxn("/a"), "delete", "delete /a", [{"op": "delete", "path": "/a"}], {}),
    (
        SetDataTxn("/a", b"abc", STAT),
        "set",
        "set /a (3 bytes, version 4)",
        [{"op": "set", "path": "/a", **VALUE, "version": 4}],
        {},
    ),
    (
        SetAclTxn("/a", ACLS, STAT),
        "set_acls",
        "set_acls /a (version 2)",
        [{"op": "set_acls", "path": "/a", "acls": HIDDEN, "aversion": 2}],
        {},
    ),
    (
        NEW,
        "create_session",
        "session opened, timeout 5000 ms",
        [],
        {"is_new": True, "timeout_ms": 5_000, "host": "10.0.0.9", "server_id": 2},
    ),
    (
        MOVED,
        "create_session",
        "session taken to another connection, timeout 5000 ms",
        [],
        {"is_new": False, "timeout_ms": 5_000, "host": "10.0.0.9", "server_id": 2},
    ),
    (
        CreateSessionErrorTxn(ServerId(2), 7, Code.AUTH_FAILED),
        "create_session_error",
        "session refused to a client of server 2: authentication failed (AUTH_FAILED)",
        [],
        {"server_id": 2},
    ),
    (
        CloseSessionTxn(SESSION, ["/a", "/b"]),
        "close_session",
        "session closed by its client; delete /a; delete /b",
        [{"op": "delete", "path": "/a"}, {"op": "delete", "path": "/b"}],
        {"reason": None},
    ),
    (
        CloseSessionTxn(SESSION, [], CloseReason.BY_CLIENT),
        "close_session",
        "session closed by its client",
        [],
        {"reason": "client"},
    ),
    (
        CloseSessionTxn(SESSION, [], CloseReason.EXPIRED),
        "close_session",
        "session expired",
        [],
        {"reason": "expired"},
    ),
    (
        CloseSessionTxn(SESSION, [], CloseReason.PROCESS_DIED),
        "close_session",
        "session ended because its process died",
        [],
        {"reason": "process_died"},
    ),
    (
        ErrorTxn(Code.NO_NODE),
        "error",
        "refused: no such znode (NO_NODE)",
        [],
        {"op": None, "path": None},
    ),
    (
        ErrorTxn(Code.BAD_ARGUMENTS, 1, "/a\n"),
        "error",
        "create /a\\n refused: bad arguments (BAD_ARGUMENTS)",
        [],
        {"op": "create", "path": "/a\n"},
    ),
    (
        ErrorTxn(Code.AUTH_FAILED, 6),
        "error",
        "add_auth refused: authentication failed (AUTH_FAILED)",
        [],
        {"op": "add_auth", "path": None},
    ),
    (
        ErrorTxn(Code.NO_NODE, 99, "/a"),
        "error",
        "request 99 /a refused: no such znode (NO_NODE)",
        [],
        {"op": None, "path": "/a"},
    ),
    (
        ReplaceVoterTxn(ServerId(3), DiskId("d2")),
        "replace_voter",
        "the vote of server 3 moved to disk d2",
        [],
        {"server_id": 3, "disk": "d2"},
    ),
    (
        ReplaceVoterTxn(ServerId(3), DiskId("")),
        "replace_voter",
        "the vote of server 3 moved to its founding disk",
        [],
        {"server_id": 3, "disk": None},
    ),
    (
        RaiseLevelTxn(FeatureLevel(2)),
        "raise_level",
        "feature level 2 is in force",
        [],
        {"level": 2},
    ),
    *(
        (
            SuspectSessionTxn(SESSION, is_suspected),
            "suspect_session",
            text,
            [],
            {"is_suspected": is_suspected},
        )
        for is_suspected, text in (
            (True, "session suspected: half of its timeout has passed in silence"),
            (False, "session heard again"),
        )
    ),
    (
        SetIdentitiesTxn(IDENTITIES),
        "add_auth",
        r"proved digest:alice, scrypt:b\x1bob",
        [],
        {
            "identities": [
                {"scheme": "digest", "id": "alice"},
                {"scheme": "scrypt", "id": r"b\x1bob"},
            ]
        },
    ),
    (
        MultiTxn(True, [CREATION, DeleteTxn("/b")], [OpDone("", None)] * 3),
        "multi",
        "create /a (3 bytes); delete /b",
        [CREATED, {"op": "delete", "path": "/b"}],
        {"is_then": True, "operations": 3},
    ),
    (
        MultiTxn(False, [], []),
        "multi",
        "transaction without a change",
        [],
        {"is_then": False, "operations": 0},
    ),
    (
        MultiErrorTxn(True, Code.BAD_VERSION, 1, 3),
        "multi_error",
        "transaction refused at operation 2 of 3: the znode has another version (BAD_VERSION)",
        [],
        {"is_then": True, "operations": 3, "failed": 1, "op": None, "path": None},
    ),
    (
        MultiErrorTxn(True, Code.BAD_VERSION, 1, 3, 7, "/a"),
        "multi_error",
        "transaction refused at operation 2 of 3 (check /a): the znode has another version "
        "(BAD_VERSION)",
        [],
        {"is_then": True, "operations": 3, "failed": 1, "op": "check", "path": "/a"},
    ),
    (
        ReconfigTxn(MEMBERS, SetDataTxn("/a", b"abc", STAT)),
        "reconfig",
        "the voters are 1, 4, the observers 5",
        [SET],
        LIST,
    ),
    (
        ReconfigTxn(MEMBERS),
        "reconfig",
        "said again: the voters are 1, 4, the observers 5",
        *([], LIST),
    ),
    (
        ReconfigTxn(MemberList(Zxid(9), {ServerId(1): FOUNDING_DISK})),
        "reconfig",
        "said again: the voters are 1",
        [],
        {"version": "0:9", "voters": {"1": None}, "observers": []},
    ),
    (
        ReconfigErrorTxn(Code.BAD_VERSION, "it is 7"),
        "reconfig_error",
        "change of the members refused: the znode has another version (BAD_VERSION): it is 7",
        [],
        {"detail": "it is 7"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "line", "changes", "further"), CASES)
def test_a_transaction_is_told(
    body: TxnBody, kind: str, line: str, changes: list[Any], further: dict[str, Any]
) -> None:
    txn = Txn(SESSION, 5, 4, Millis(1_500), body)
    assert describe(ZXID, txn) == line
    document = transaction_document(ZXID, txn)
    code = getattr(body, "code", 0)
    assert document == {
        "zxid": "1:17",
        "time": "1970-01-01T00:00:01.500+00:00",
        "type": kind,
        "session": f"{getattr(body, 'session_id', SESSION):#x}",
        "number": 5,
        "code": code,
        "error": Code(code).name if code else None,
        "changes": changes,
        **further,
    }
    told = json.dumps(document) + line
    assert "secret" not in told and SECRET.partition(":")[2] not in told and "hash" not in told


def test_every_kind_of_transaction_is_told() -> None:
    assert {type(case[0]) for case in CASES} == set(get_args(TxnBody)) == set(transactions._TYPES)


def test_what_the_ensemble_does_by_itself_has_no_session() -> None:
    deletion = Txn(SessionId(0), 0, 0, Millis(0), DeleteTxn("/a"))
    document = transaction_document(ZXID, deletion)
    assert (document["session"], document["number"]) == (None, None)
    expiry = Txn(SessionId(0), 0, 0, Millis(0), CloseSessionTxn(SESSION, []))
    assert describe(ZXID, expiry) == "session ended by the ensemble"
    assert session_of(expiry) == SESSION
    assert transaction_document(ZXID, expiry)["session"] == "0x1f"


def test_parts_of_transactions_are_told() -> None:
    assert acl_documents(None) == OPEN
    assert shown_identities(()) == ""
    assert (error_name(Code.NO_AUTH), error_name(-77)) == ("NO_AUTH", "code -77")
