"""The checks find a replica that differs from the truth in any one field."""

from collections.abc import Callable

import pytest

from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.requests import CloseSession, Create, Delete, SessionId, SetData, WriteOp
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CreateSessionTxn, Txn, encode_txn
from raykeeper.znodes.znode import Znode
from tests.simulation.checks import execution, replicas, sessions
from tests.simulation.checks.session_view import Told
from tests.simulation.checks.truth import Truth

ONE = ServerId(1)
OPS: list[WriteOp] = [
    Create("/a", b"0", 0),
    Create("/a/e", b"1", 1),
    Create("/a/s-", b"2", 2),
    SetData("/a", b"3", 0),
    Create("/b", b"", 1),
    Delete("/a/s-0000000001", -1),
    Delete("/none", -1),
]


class Replica:
    """The product's state and the truth after the same transactions."""

    def __init__(self) -> None:
        self.state, self.truth = State(), Truth()
        self.told: dict[SessionId, dict[int, Told]] = {}
        for counter in (1, 2):
            session_id = SessionId(make_zxid(Epoch(1), counter))
            opened = CreateSessionTxn(session_id, bytes([counter]) * 16, Millis(1), ONE, 1)
            self.apply(Txn(SessionId(0), 0, 0, Millis(0), opened))
        self.session_id, self.other = self.truth.sessions
        for number, op in enumerate(OPS, 1):
            self.write(self.session_id, number, op)
        self.write(self.other, 1, Create("/c", b"", 1))
        self.write(self.other, 2, CloseSession())

    def write(self, session_id: SessionId, number: int, op: WriteOp) -> None:
        zxid = Zxid(max(self.truth.zxid, make_zxid(Epoch(1), 0)) + 1)
        change = execution.execute(self.truth, zxid, Millis(zxid & 7), session_id, op)
        txn = Txn(session_id, number, 0, Millis(zxid & 7), change)
        self.apply(txn)
        outcomes = self.told.setdefault(session_id, {})
        outcomes[number] = sessions.outcome(self.truth, zxid, txn)

    def apply(self, txn: Txn) -> None:
        zxid = Zxid(max(self.truth.zxid, make_zxid(Epoch(1), 0)) + 1)
        self.truth.apply(zxid, txn)
        self.state.apply(zxid, encode_txn(txn))

    def check(self) -> None:
        replicas.tree_is_true(ONE, self.state, self.truth)
        replicas.ephemerals_are_true(ONE, self.state, self.truth)
        replicas.sessions_are_true(ONE, self.state, self.truth, self.told)

    @property
    def a(self) -> Znode:
        return self.state.tree.znodes["/a"]


def test_the_product_equals_the_truth() -> None:
    Replica().check()


DIFFERENCES: list[tuple[str, Callable[[Replica], object]]] = [
    ("Replicas", lambda r: r.state.tree.znodes.pop("/b")),
    ("Replicas", lambda r: r.state.tree.znodes.update({"/x": r.a})),
    *(
        ("Replicas", lambda r, n=n, v=v: setattr(r.a, n, v))  # type: ignore[misc]
        for n, v in (
            *(("value", b"9"), ("czxid", 1), ("mzxid", 1), ("ctime", 1), ("mtime", 9)),
            *(
                ("version", 9),
                ("ephemeral_owner", 9),
                ("child_create_count", 9),
                ("pzxid", 1),
                ("children", {}),
            ),
        )
    ),
    ("Replicas", lambda r: setattr(r.a, "children", {"/a/x": None})),
    ("Replicas", lambda r: r.state.tree.ephemerals.pop(r.session_id)),
    ("Replicas", lambda r: r.state.tree.ephemerals.update({r.other: {"/c": None}})),
    ("Replicas", lambda r: r.state.sessions.by_id.pop(r.session_id)),
    (
        "Replicas",
        lambda r: r.state.sessions.by_id.update({r.other: r.state.sessions.by_id[r.session_id]}),
    ),
    *(
        ("Replicas", lambda r, n=n, v=v: setattr(r.state.sessions.by_id[r.session_id], n, v))  # type: ignore[misc]
        for n, v in (("password", b"x"), ("owner_zxid", 1), ("last_number", 3))
    ),
    ("Outcomes", lambda r: r.state.sessions.by_id[r.session_id].reply_cache.pop(3)),
    (
        "Outcomes",
        lambda r: r.state.sessions.by_id[r.session_id].reply_cache.update(
            {3: r.state.sessions.by_id[r.session_id].reply_cache[4]}
        ),
    ),
]


@pytest.mark.parametrize(("name", "change"), DIFFERENCES)
def test_a_difference_is_named(name: str, change: Callable[[Replica], object]) -> None:
    replica = Replica()
    change(replica)
    with pytest.raises(AssertionError, match=f"^{name}: "):
        replica.check()
