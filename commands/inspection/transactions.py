"""Transactions, and what they are made of, as documents and as text.

Nothing secret is among it: no password of a session, and of an identity only the user's name. A
value stands in a document, but not in a line of text.
"""

from collections.abc import Iterable
from typing import Any

from raykeeper.commands.output import Document, escaped, session_field, time_field, value_fields
from raykeeper.zab.ids import Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import AUTH_SCHEMES, OPEN_ACL, Acls, Identities
from raykeeper.znodes.errors import Code, error_for
from raykeeper.znodes.requests import SessionId
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

_TYPES: dict[type[TxnBody], str] = {
    CreateTxn: "create",
    DeleteTxn: "delete",
    SetDataTxn: "set",
    SetAclTxn: "set_acls",
    CreateSessionTxn: "create_session",
    CreateSessionErrorTxn: "create_session_error",
    CloseSessionTxn: "close_session",
    SetIdentitiesTxn: "add_auth",
    SuspectSessionTxn: "suspect_session",
    ReplaceVoterTxn: "replace_voter",
    RaiseLevelTxn: "raise_level",
    ErrorTxn: "error",
    MultiTxn: "multi",
    MultiErrorTxn: "multi_error",
    ReconfigTxn: "reconfig",
    ReconfigErrorTxn: "reconfig_error",
}


_OPS: dict[int, str] = {
    1: "create",
    2: "delete",
    3: "set",
    4: "close_session",
    5: "set_acls",
    6: "add_auth",
    7: "check",
    8: "get",
    9: "exists",
    10: "get_children",
    11: "multi",
    12: "reconfig",
}
"""By the tags of the requests, as error transactions name what was refused."""
_REASONS: dict[int, tuple[str, str]] = {
    CloseReason.BY_CLIENT: ("client", "closed by its client"),
    CloseReason.EXPIRED: ("expired", "expired"),
    CloseReason.PROCESS_DIED: ("process_died", "ended because its process died"),
}
"""Why a session ended, as a field and as text."""


def transaction_document(zxid: Zxid, txn: Txn) -> dict[str, Any]:
    """Return a transaction: who wrote it, its outcome, and the znodes that it changed."""
    body = txn.body
    code = code_of(body)
    return {
        "zxid": format_zxid(zxid),
        "time": time_field(txn.time_ms),
        "type": _TYPES[type(body)],
        "session": session_field(session_of(txn)),
        "number": txn.number or None,
        "code": code,
        "error": None if code == Code.OK else error_name(code),
        "changes": [_change_document(each) for each in changes_of(body)],
        **_further_fields(zxid, body),
    }


def session_of(txn: Txn) -> int:
    """Return the session that a transaction is of, or that it is about; 0 for none."""
    if isinstance(txn.body, CreateSessionTxn | CloseSessionTxn | SuspectSessionTxn):
        return txn.body.session_id
    return txn.session_id


def changes_of(body: TxnBody) -> list[CreateTxn | DeleteTxn | SetDataTxn | SetAclTxn]:
    """Return the changes of znodes that a transaction makes, in order."""
    match body:
        case MultiTxn():
            return [*body.changes]
        case CloseSessionTxn():
            return [DeleteTxn(path) for path in body.ephemerals]
        case CreateTxn() | DeleteTxn() | SetDataTxn() | SetAclTxn():
            return [body]
        case ReconfigTxn(config=SetDataTxn() as config):
            return [config]
        case _:
            return []


def paths_of(body: TxnBody) -> list[str]:
    """Return the paths that a transaction changes, or whose change it refuses."""
    if isinstance(body, ErrorTxn | MultiErrorTxn):
        return [body.path] if body.path else []
    return [each.path for each in changes_of(body)]


def code_of(body: TxnBody) -> int:
    """Return the code that the client is told; 0 if what it asked for was done."""
    errors = ErrorTxn | MultiErrorTxn | CreateSessionErrorTxn | ReconfigErrorTxn
    return body.code if isinstance(body, errors) else 0


def error_name(code: int) -> str:
    """Return ZooKeeper's name of a code."""
    try:
        return Code(code).name
    except ValueError:
        return f"code {code}"


def acl_documents(acls: Acls | None) -> list[Document]:
    """Return the entries of an ACL, without hashes."""
    return [
        {"permissions": each.permissions, "scheme": each.scheme, "id": _user(each.scheme, each.id)}
        for each in (OPEN_ACL if acls is None else acls)
    ]


def identity_documents(identities: Identities) -> list[Document]:
    """Return identities, without hashes."""
    return [{"scheme": each.scheme, "id": _user(each.scheme, each.id)} for each in identities]


def ttl_fields(ttl_ms: int) -> Document:
    """Return the fields of what `ttl_ms` of a znode says."""
    return {"container": ttl_ms == CONTAINER, "ttl_ms": ttl_ms if ttl_ms > 0 else None}


def shown_identities(identities: Identities) -> str:
    """Return identities as text, such as `digest:alice`, without hashes."""
    return ", ".join(f"{each.scheme}:{_user(each.scheme, each.id)}" for each in identities)


def describe(zxid: Zxid, txn: Txn) -> str:
    """Return in a line what a transaction did."""
    body = txn.body
    match body:
        case ErrorTxn():
            return f"{_refused_text(body)}refused: {_meaning(body.code)}"
        case MultiErrorTxn():
            which = f"operation {body.failed + 1} of {body.count}"
            what = _refused_text(body).removesuffix(" ")
            which += f" ({what})" if what else ""
            return f"transaction refused at {which}: {_meaning(body.code)}"
        case CreateSessionErrorTxn():
            return f"session refused to a client of server {body.server_id}: {_meaning(body.code)}"
        case CreateSessionTxn():
            what = "opened" if body.session_id == SessionId(zxid) else "taken to another connection"
            return f"session {what}, timeout {body.timeout_ms} ms"
        case CloseSessionTxn():
            of_old = "closed by its client" if txn.session_id else "ended by the ensemble"
            what = _REASONS.get(body.reason, ("", of_old))[1]
            gone = [_change_text(each) for each in changes_of(body)]
            return "; ".join([f"session {what}", *gone])
        case SetIdentitiesTxn():
            return f"proved {shown_identities(body.identities)}"
        case ReconfigErrorTxn():
            return f"change of the members refused: {_meaning(body.code)}: {body.detail}"
        case ReconfigTxn():
            again = "" if body.config else "said again: "
            voters, observers = body.members.voters, body.members.observers
            beside = f", the observers {_numbers(observers)}" if observers else ""
            return f"{again}the voters are {_numbers(voters)}{beside}"
        case ReplaceVoterTxn():
            disk = f"disk {body.disk}" if body.disk else "its founding disk"
            return f"the vote of server {body.server_id} moved to {disk}"
        case SuspectSessionTxn():
            half = "half of its timeout has passed in silence"
            return f"session suspected: {half}" if body.is_suspected else "session heard again"
        case RaiseLevelTxn():
            return f"feature level {body.level} is in force"
        case _:
            changes = "; ".join(_change_text(each) for each in changes_of(body))
            return changes or "transaction without a change"


def _refused_text(body: ErrorTxn | MultiErrorTxn) -> str:
    """Return what was refused with a space behind it, "" if the log does not tell."""
    op = _OPS.get(body.op, f"request {body.op}") if body.op else ""
    return "".join(f"{each} " for each in (op, escaped(body.path)) if each)


def _change_text(change: CreateTxn | DeleteTxn | SetDataTxn | SetAclTxn) -> str:
    match change:
        case CreateTxn():
            kind = "ephemeral " if change.ephemeral_owner else ""
            return f"create {kind}{change.path} ({_size(change.value)})"
        case DeleteTxn():
            return f"delete {change.path}"
        case SetDataTxn():
            return f"set {change.path} ({_size(change.value)}, version {change.stat.version})"
        case SetAclTxn():
            return f"set_acls {change.path} (version {change.stat.aversion})"


def _change_document(change: CreateTxn | DeleteTxn | SetDataTxn | SetAclTxn) -> Document:
    fields: dict[str, Any] = {"op": _TYPES[type(change)], "path": change.path}
    match change:
        case CreateTxn():
            fields |= value_fields(change.value or b"")
            fields |= {"ephemeral_owner": session_field(change.ephemeral_owner)}
            fields |= ttl_fields(change.ttl_ms)
            fields |= {"acls": acl_documents(change.acls)}
        case SetDataTxn():
            fields |= {**value_fields(change.value or b""), "version": change.stat.version}
        case SetAclTxn():
            fields |= {"acls": acl_documents(change.acls), "aversion": change.stat.aversion}
        case DeleteTxn():
            pass
    return fields


def _further_fields(zxid: Zxid, body: TxnBody) -> Document:
    """Return the fields that only some types have."""
    match body:
        case CreateSessionTxn():
            return {
                "is_new": body.session_id == SessionId(zxid),
                "timeout_ms": body.timeout_ms,
                "host": body.host or None,
                "server_id": body.server_id,
            }
        case CreateSessionErrorTxn():
            return {"server_id": body.server_id}
        case SetIdentitiesTxn():
            return {"identities": identity_documents(body.identities)}
        case ReconfigErrorTxn():
            return {"detail": body.detail}
        case ReconfigTxn():
            return members_fields(body.members)
        case ReplaceVoterTxn():
            return {"server_id": body.server_id, "disk": body.disk or None}
        case RaiseLevelTxn():
            return {"level": body.level}
        case SuspectSessionTxn():
            return {"is_suspected": body.is_suspected}
        case MultiTxn():
            return {"is_then": body.is_then, "operations": len(body.results)}
        case CloseSessionTxn():
            return {"reason": _REASONS.get(body.reason, (None,))[0]}
        case ErrorTxn():
            return _refused_fields(body)
        case MultiErrorTxn():
            place = {"is_then": body.is_then, "operations": body.count, "failed": body.failed}
            return {**place, **_refused_fields(body)}
        case _:
            return {}


def _refused_fields(body: ErrorTxn | MultiErrorTxn) -> Document:
    return {"op": _OPS.get(body.op), "path": body.path or None}


def members_fields(members: MemberList) -> Document:
    """Return the fields of a member list."""
    return {
        "version": format_zxid(members.version),
        "voters": {str(server): disk or None for server, disk in members.voters.items()},
        "observers": list(members.observers),
    }


def _numbers(servers: Iterable[int]) -> str:
    return ", ".join(map(str, servers))


def _meaning(code: int) -> str:
    return f"{error_for(code).meaning} ({error_name(code)})"


def _size(value: bytes | None) -> str:
    return f"{len(value or b'')} bytes"


def _user(scheme: str, text: str) -> str:
    """Return the id without its hash, and without what would disturb a terminal."""
    name = text.partition(":")[0] if scheme in AUTH_SCHEMES else text
    return name if name.isprintable() else repr(name)[1:-1]
