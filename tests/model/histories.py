"""Random histories: commands of a few clients on a few paths, so that they meet often."""

import operator
from typing import Any

import msgspec
from hypothesis import strategies as st

from raykeeper.zab.ids import ZERO, DiskId, Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.requests import (
    CloseSession,
    Connect,
    Create,
    Delete,
    SessionId,
    SetData,
    Write,
    WriteOp,
    encode_op,
)
from raykeeper.znodes.state import State, outcome_of
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    Txn,
    WriteOutcome,
    decode_txn,
)
from raykeeper.znodes.znode import stat_of
from tests.model.naive_keeper import NaiveKeeper, Result

CLIENTS = 3
PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1"]

values = st.sampled_from([None, b"", b"v", b"other"])
versions = st.sampled_from([-1, -1, 0, 1, 2])
ops: st.SearchStrategy[WriteOp] = st.one_of(
    st.builds(Create, st.sampled_from(PATHS), values, st.sampled_from([0, 0, 0, 1, 2, 3])),
    st.builds(Create, st.sampled_from(PATHS), values, st.sampled_from([0, 0, 0, 1])),
    st.builds(Delete, st.sampled_from(PATHS), versions),
    st.builds(Delete, st.sampled_from(PATHS), st.just(-1)),
    st.builds(SetData, st.sampled_from(PATHS), values, versions),
)
clients = st.integers(0, CLIENTS - 1)
commands = st.one_of(
    *[st.tuples(st.just("write"), clients, ops)] * 8,
    st.tuples(st.just("write"), clients, st.just(CloseSession())),
    st.tuples(st.just("connect"), clients, st.integers(2_000, 4_000)),
    st.tuples(st.just("connect"), clients, st.integers(2_000, 4_000)),
    st.tuples(st.just("expire"), clients, st.none()),
    st.tuples(st.just("replace"), clients, st.sampled_from(["d1", "d2"])),
)
Command = tuple[str, int, Any]

START: list[Command] = [
    *(("connect", client, 3_000) for client in range(CLIENTS)),
    ("write", 0, Create("/a", b"", 0)),
    ("write", 1, Create("/b", b"", 0)),
]
"""Histories mostly begin so, or most of their writes would be refused."""

histories = st.builds(
    operator.add, st.sampled_from([START, START, START, []]), st.lists(commands, max_size=40)
)


class Run:
    """Prepares commands, and executes the same ones at once on the naive keeper.

    Every transaction is compared with the naive result as it is prepared; `apply` may lag behind.
    """

    def __init__(self) -> None:
        self.state = State()
        self.naive = NaiveKeeper()
        self.log: list[tuple[Zxid, bytes]] = []
        self._preparation = PrepRequestProcessor(self.state, Limits())
        self._ids = [SessionId(0)] * CLIENTS
        self._lives = [0] * CLIENTS
        self._now = Millis(1_000)
        self._applied = 0

    def do(self, command: Command) -> None:
        kind, client, detail = command
        self._now = Millis(self._now + client)  # sometimes the same millisecond
        if kind == "connect":
            self._connect(client, detail)
        elif kind == "write":
            self._write(client, detail)
        elif kind == "replace":
            self._replace_voter(client, detail)
        else:
            self._expire(client)

    def apply(self, count: int) -> None:
        """Apply up to `count` outstanding transactions."""
        end = min(self._applied + count, len(self.log))
        for zxid, data in self.log[self._applied : end]:
            self.state.apply(zxid, data)
        self._applied = end
        if end:
            self._preparation.applied(self.log[end - 1][0])
        assert self._preparation.outstanding == len(self.log) - end

    def apply_all(self) -> None:
        self.apply(len(self.log))

    def _connect(self, client: int, timeout_ms: int) -> None:
        """Open, take up by id, or repeat the opening, as the client's state asks for."""
        session_id = self._ids[client]
        lives = self._preparation.owner_zxid_of(session_id) is not None
        if session_id and not lives:
            self._lives[client] += 1
        password = bytes([client, self._lives[client] % 2]) * 8
        asked = session_id if lives and timeout_ms % 2 else SessionId(0)
        zxid = self._next()
        request = Connect(asked, password, Millis(timeout_ms), ZERO, attempt=len(self.log))
        data = self._preparation.prepare_create_session(zxid, self._now, ServerId(1), 5, request)
        change = self._add(zxid, data).body
        assert isinstance(change, CreateSessionTxn), change
        assert change.session_id == (session_id if lives else zxid)
        self._ids[client] = change.session_id
        self.naive.open(zxid, change.session_id, timeout_ms)

    def _write(self, client: int, op: WriteOp) -> None:
        session_id = self._ids[client]
        last = self._preparation.last_number(session_id)
        number = 1 if last is None else last + 1
        acked = max(0, number - 1 - client)
        zxid = self._next()
        owned = self._ephemerals(session_id)
        write = Write(number, acked, encode_op(op))
        data = self._preparation.prepare_write(zxid, self._now, session_id, write)
        txn = self._add(zxid, data)
        result = self.naive.write(zxid, self._now, session_id, number, acked, op)
        assert outcome_of(zxid, txn) == told(zxid, result), (op, result)
        if isinstance(txn.body, CloseSessionTxn):
            assert txn.body.ephemerals == owned

    def _expire(self, client: int) -> None:
        session_id = self._ids[client]
        zxid = self._next()
        data = self._preparation.prepare_close_session(
            zxid, self._now, session_id, CloseReason.EXPIRED
        )
        assert (data is not None) == (session_id in self.naive.sessions)
        if data is not None:
            change = self._add(zxid, data).body
            ephemerals = self.naive.close(zxid, session_id)
            assert change == CloseSessionTxn(session_id, ephemerals, CloseReason.EXPIRED)

    def _replace_voter(self, client: int, disk: str) -> None:
        """The vote of the server of this number rests on another disk."""
        zxid, server = self._next(), ServerId(client + 1)
        self._add(
            zxid, self._preparation.prepare_replace_voter(zxid, self._now, server, DiskId(disk))
        )
        self.naive.voters[server] = disk

    def _ephemerals(self, session_id: SessionId) -> list[str]:
        if not session_id:
            return []
        return sorted(p for p, node in self.naive.nodes.items() if node.owner == session_id)

    def _next(self) -> Zxid:
        return make_zxid(Epoch(1), len(self.log) + 1)

    def _add(self, zxid: Zxid, data: bytes) -> Txn:
        self.log.append((zxid, data))
        txn = decode_txn(data)
        assert not isinstance(txn.body, CreateSessionErrorTxn)
        assert txn.time_ms == self._now
        return txn


def told(zxid: Zxid, result: Result) -> WriteOutcome:
    """The naive result as a client would hear it."""
    stat = None if result.stat is None else msgspec.convert(result.stat, type=_STAT)
    return WriteOutcome(zxid, result.code, result.path, stat)


_STAT = WriteOutcome.__annotations__["stat"].__args__[0]


def written(prefix: list[Command], apply_every: int = 1) -> Run:
    """The run of these commands, all applied."""
    run = Run()
    for number, command in enumerate(prefix, 1):
        run.do(command)
        if number % apply_every == 0:
            run.apply_all()
    run.apply_all()
    return run


def image(state: State) -> dict[str, Any]:
    """Everything a state holds, in the form of `naive_keeper.image`, after a check of its sums."""
    tree = state.tree
    owned = {
        owner: sorted(p for p, znode in tree.znodes.items() if znode.ephemeral_owner == owner)
        for owner in {
            znode.ephemeral_owner for znode in tree.znodes.values() if znode.ephemeral_owner
        }
    }
    assert {owner: sorted(paths) for owner, paths in tree.ephemerals.items()} == owned
    linked = [child for znode in tree.znodes.values() for child in znode.children or ()]
    assert sorted([*linked, "/"]) == sorted(tree.znodes)
    sessions = state.sessions.by_id
    for session_id, session in sessions.items():
        assert state.sessions.with_password(session.password) == session_id
        assert list(session.reply_cache) == sorted(session.reply_cache)
    assert len(state.sessions._by_password) == len(sessions)
    return {
        "znodes": {
            path: (
                znode.value,
                msgspec.to_builtins(stat_of(znode), builtin_types=()),
                sorted(znode.children or ()),
            )
            for path, znode in tree.znodes.items()
        },
        "sessions": {
            session_id: (
                session.timeout_ms,
                session.owner_zxid,
                session.last_number,
                session.acked,
                {
                    number: (o.zxid, o.code, o.path, o.stat and msgspec.to_builtins(o.stat))
                    for number, o in session.reply_cache.items()
                },
            )
            for session_id, session in sessions.items()
        },
        "voters": dict(state.voters),
    }
