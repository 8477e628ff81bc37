"""Transactions: the bytes in the log come back as they were, and are those of every version."""

from typing import get_args

import pytest

from raykeeper.zab.ids import DiskId, Millis, ServerId, Zxid
from raykeeper.znodes.acl import Acl, Identity
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    Aborted,
    AclsSet,
    Change,
    Created,
    DataSet,
    Deleted,
    IdentitiesSet,
    OpDone,
    OpenRefused,
    Refused,
    SessionClosed,
    SessionOpened,
    Several,
    Txn,
    VoterReplaced,
    decode_txn,
    encode_txn,
)

S = SessionId(7)
STAT = Stat(Zxid(1), Zxid(2), Millis(3), Millis(4), 5, 6, 0, 7, 1, 9, Zxid(10))
CHANGES: list[tuple[Change, str]] = [
    (Created("/a", b"v", S, 3), "97 01 a2 2f61 c4 01 76 07 03 c0 00"),
    (Deleted("/a"), "92 02 a2 2f61"),
    (DataSet("/a", b"v", STAT), "94 03 a2 2f61 c4 01 76 9b 01 02 03 04 05 06 00 07 01 09 0a"),
    (SessionOpened(S, b"p", Millis(9), ServerId(1), 2, 3), "98 04 07 c4 01 70 09 01 02 03 a0"),
    (OpenRefused(ServerId(1), 2, Code.AUTH_FAILED), "94 05 01 02 d0 8d"),
    (SessionClosed(S, ["/a"]), "93 06 07 91 a2 2f61"),
    (Refused(Code.NO_NODE), "92 07 d0 9b"),
    (VoterReplaced(ServerId(2), DiskId("d1")), "93 08 02 a2 6431"),
    (
        AclsSet("/a", (Acl(31, "auth", "u"),), STAT),
        "94 09 a2 2f61 91 93 1f a4 61757468 a1 75 9b 01 02 03 04 05 06 00 07 01 09 0a",
    ),
    (IdentitiesSet((Identity("ip", "h"),)), "92 0a 91 92 a2 6970 a1 68"),
    (
        Several(True, [Deleted("/a")], [OpDone("", None)]),
        "94 0b c3 91 92 02 a2 2f61 91 93 01 a0 c0",
    ),
    (Aborted(True, Code.NO_NODE, 1, 3), "95 0c c3 d0 9b 01 03"),
]


def test_every_change_is_here() -> None:
    assert [type(change) for change, _ in CHANGES] == list(get_args(Change))


@pytest.mark.parametrize(("change", "golden"), CHANGES)
def test_the_bytes_of_a_transaction(change: Change, golden: str) -> None:
    txn = Txn(S, 8, 1, Millis(20), change)
    data = encode_txn(txn)
    assert data.hex() == "95" + "07080114" + golden.replace(" ", "")
    assert decode_txn(data) == txn
