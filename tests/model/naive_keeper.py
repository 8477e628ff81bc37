"""ZooKeeper's meaning written down the naive way: one dict, one operation at a time.

Nothing here is shared with the code under test but the requests and the replies.
"""

from dataclasses import dataclass, field
from typing import Any

from raykeeper.znodes.requests import CloseSession, Create, Delete, SetData, WriteOp

OK, BAD_ARGUMENTS, NO_NODE, BAD_VERSION = 0, -8, -101, -103
NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, NOT_EMPTY, SESSION_EXPIRED = -108, -110, -111, -112
FIXED = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


@dataclass
class Node:
    value: bytes | None
    czxid: int
    ctime: int
    owner: int
    mzxid: int = 0
    mtime: int = 0
    pzxid: int = 0
    version: int = 0
    created_children: int = 0
    deleted_children: int = 0


@dataclass
class Result:
    code: int
    path: str = ""
    stat: tuple[int, ...] | None = None


@dataclass
class NaiveSession:
    timeout_ms: int
    owner: int
    outcomes: dict[int, tuple[int, Result]] = field(default_factory=dict)
    last: int = 0
    acked: int = 0


class NaiveKeeper:
    """Executes operations at once; `zxid` and `now` are told with each."""

    def __init__(self) -> None:
        self.nodes = {path: Node(b"", 0, 0, 0) for path in FIXED}
        self.sessions: dict[int, NaiveSession] = {}
        self.voters: dict[int, str] = {}

    def open(self, zxid: int, session_id: int, timeout_ms: int) -> None:
        session = self.sessions.setdefault(session_id, NaiveSession(timeout_ms, zxid))
        session.timeout_ms, session.owner = timeout_ms, zxid

    def close(self, zxid: int, session_id: int) -> list[str]:
        mine = sorted(path for path, node in self.nodes.items() if node.owner == session_id)
        for path in mine:
            self._remove(zxid, path)
        del self.sessions[session_id]
        return mine

    def write(
        self, zxid: int, now: int, session_id: int, number: int, acked: int, op: WriteOp
    ) -> Result:
        session = self.sessions.get(session_id)
        if session is None:
            return Result(SESSION_EXPIRED)
        match op:
            case Create():
                result = self._create(zxid, now, session_id, op)
            case Delete():
                result = self._delete(zxid, op)
            case SetData():
                result = self._set(zxid, now, op)
            case CloseSession():
                self.close(zxid, session_id)
                return Result(OK)
        session.last = number
        session.acked = max(session.acked, acked)
        session.outcomes[number] = (zxid, result)
        for old in [n for n in session.outcomes if n <= session.acked]:
            del session.outcomes[old]
        return result

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(p for p in self.nodes if p.startswith(prefix) and "/" not in p[len(prefix) :] and p != "/")  # fmt: skip  # noqa: E501

    def stat(self, path: str) -> tuple[int, ...]:
        node = self.nodes[path]
        count = len(self.children(path))
        cversion = node.created_children + node.deleted_children
        if path in FIXED:
            cversion = 2 * node.created_children - count  # the fixed children were never created
        return (
            node.czxid, node.mzxid, node.ctime, node.mtime, node.version, cversion, 0, node.owner,
            len(node.value or b""), count, node.pzxid,
        )  # fmt: skip

    def _create(self, zxid: int, now: int, session_id: int, op: Create) -> Result:
        parent_path, _, name = op.path.rpartition("/")
        parent = self.nodes.get(parent_path or "/")
        if parent is None:
            return Result(NO_NODE)
        if op.flags & 2:
            name += str(parent.created_children).zfill(10)
        if name in ("", ".", ".."):
            return Result(BAD_ARGUMENTS)
        path = f"{parent_path}/{name}"
        if path in self.nodes:
            return Result(NODE_EXISTS)
        if parent.owner:
            return Result(NO_CHILDREN_FOR_EPHEMERALS)
        owner = session_id if op.flags & 1 else 0
        self.nodes[path] = Node(op.value, zxid, now, owner, mzxid=zxid, mtime=now, pzxid=zxid)
        parent.created_children += 1
        parent.pzxid = zxid
        return Result(OK, path, self.stat(path))

    def _delete(self, zxid: int, op: Delete) -> Result:
        if op.path in FIXED:
            return Result(BAD_ARGUMENTS)
        node = self.nodes.get(op.path)
        if node is None:
            return Result(NO_NODE)
        if op.version not in (-1, node.version):
            return Result(BAD_VERSION)
        if self.children(op.path):
            return Result(NOT_EMPTY)
        self._remove(zxid, op.path)
        return Result(OK)

    def _remove(self, zxid: int, path: str) -> None:
        del self.nodes[path]
        parent = self.nodes[path.rpartition("/")[0] or "/"]
        parent.deleted_children += 1
        parent.pzxid = zxid

    def _set(self, zxid: int, now: int, op: SetData) -> Result:
        node = self.nodes.get(op.path)
        if node is None:
            return Result(NO_NODE)
        if op.version not in (-1, node.version):
            return Result(BAD_VERSION)
        node.value, node.mzxid, node.mtime = op.value, zxid, now
        node.version += 1
        return Result(OK, "", self.stat(op.path))


def image(keeper: NaiveKeeper) -> dict[str, Any]:
    """Everything it holds, for a comparison."""
    return {
        "znodes": {
            path: (node.value, keeper.stat(path), keeper.children(path))
            for path, node in keeper.nodes.items()
        },
        "sessions": {
            session_id: (
                session.timeout_ms,
                session.owner,
                session.last,
                session.acked,
                {
                    number: (zxid, result.code, result.path, result.stat)
                    for number, (zxid, result) in session.outcomes.items()
                },
            )
            for session_id, session in keeper.sessions.items()
        },
        "voters": keeper.voters,
    }
