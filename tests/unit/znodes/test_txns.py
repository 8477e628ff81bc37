"""Transactions: the bytes in the log come back as they were, and are those of every version."""

from typing import get_args

import pytest

from raykeeper.zab.feature_levels import LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Acl, Identity
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    OpDone,
    OpValue,
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
    UnknownTxnError,
    decode_txn,
    encode_txn,
    level_required_by,
)

S = SessionId(7)
STAT = Stat(Zxid(1), Zxid(2), Millis(3), Millis(4), 5, 6, 0, 7, 1, 9, Zxid(10))
CHANGES: list[tuple[TxnBody, str]] = [
    (CreateTxn("/a", b"v", S, 3), "97 01 a2 2f61 c4 01 76 07 03 c0 00"),
    (DeleteTxn("/a"), "92 02 a2 2f61"),
    (SetDataTxn("/a", b"v", STAT), "94 03 a2 2f61 c4 01 76 9b 01 02 03 04 05 06 00 07 01 09 0a"),
    (CreateSessionTxn(S, b"p", Millis(9), ServerId(1), 2, 3), "98 04 07 c4 01 70 09 01 02 03 a0"),
    (CreateSessionErrorTxn(ServerId(1), 2, Code.CONNECTION_LOSS, 9), "95 05 01 02 fc 09"),
    (CloseSessionTxn(S, ["/a"], 2), "94 06 07 91 a2 2f61 02"),
    (ErrorTxn(Code.NO_NODE, 2, "/a"), "94 07 d0 9b 02 a2 2f61"),
    (ReplaceVoterTxn(ServerId(2), DiskId("d1")), "93 08 02 a2 6431"),
    (
        SetAclTxn("/a", (Acl(31, "auth", "u"),), STAT),
        "94 09 a2 2f61 91 93 1f a4 61757468 a1 75 9b 01 02 03 04 05 06 00 07 01 09 0a",
    ),
    (SetIdentitiesTxn((Identity("ip", "h"),)), "92 0a 91 92 a2 6970 a1 68"),
    (
        MultiTxn(True, [DeleteTxn("/a")], [OpDone("", None)]),
        "94 0b c3 91 92 02 a2 2f61 91 93 01 a0 c0",
    ),
    (MultiErrorTxn(True, Code.NO_NODE, 1, 3, 7, "/a"), "97 0c c3 d0 9b 01 03 07 a2 2f61"),
    (RaiseLevelTxn(FeatureLevel(2)), "92 0d 02"),
    (
        ReconfigTxn(MemberList(Zxid(9), {ServerId(1): DiskId(""), ServerId(4): DiskId("d")}), None),
        "93 0e 93 09 82 01 a0 04 a1 64 90 c0",
    ),
    (ReconfigErrorTxn(Code.BAD_VERSION, "no"), "93 0f d0 99 a2 6e6f"),
    (SuspectSessionTxn(S, True), "93 10 07 c3"),
]
NULLS: list[tuple[TxnBody, str]] = [
    # Nil where else bytes stand: without null data the log is what every version reads.
    (CreateTxn("/a", None, S, 3), "97 01 a2 2f61 c0 07 03 c0 00"),
    (SetDataTxn("/a", None, STAT), "94 03 a2 2f61 c0 9b 01 02 03 04 05 06 00 07 01 09 0a"),
    (
        MultiTxn(True, [CreateTxn("/a", None, S, 3)], [OpDone("/a", None), OpValue(None, STAT)]),
        "94 0b c3 91 97 01 a2 2f61 c0 07 03 c0 00"
        "92 93 01 a2 2f61 c0 93 03 c0 9b 01 02 03 04 05 06 00 07 01 09 0a",
    ),
]


def test_every_transaction_body_has_a_sample() -> None:
    assert [type(change) for change, _ in CHANGES] == list(get_args(TxnBody))


@pytest.mark.parametrize(("change", "golden"), CHANGES + NULLS)
def test_the_bytes_of_a_transaction_are_fixed(change: TxnBody, golden: str) -> None:
    txn = Txn(S, 8, 1, Millis(20), change)
    data = encode_txn(txn)
    assert data.hex() == "95" + "07080114" + golden.replace(" ", "")
    assert decode_txn(data) == txn


def test_the_level_that_transactions_require() -> None:
    def txn(change: TxnBody, session: int = 0) -> bytes:
        return encode_txn(Txn(SessionId(session), 0, 0, Millis(1), change))

    raising = txn(RaiseLevelTxn(FeatureLevel(2)))
    others = [txn(DeleteTxn("/a"), 7), txn(ReplaceVoterTxn(ServerId(1), DiskId("d")))]
    assert level_required_by(Zxid(1), []) == level_required_by(Zxid(1), others) == LEVEL_MIN
    assert level_required_by(Zxid(1), [*others, raising, *others]) == 2
    # One that a newer program made is named before it is logged.
    unknown = txn(CloseSessionTxn(SessionId(0), [])).replace(b"\x06", b"\x63", 1)
    with pytest.raises(UnknownTxnError, match="transaction 0:5 is none that this program knows"):
        level_required_by(Zxid(4), [raising, unknown])
