"""Values that a receiver in a young ensemble has heard of, or just not: near misses.

A field drawn from all integers is refused at the first check. These pass it, and meet the second.
"""

from typing import Final

from hypothesis import strategies as st

from raykeeper.zab.ids import (
    EPOCH_MAX,
    FOUNDING_DISK,
    SERVER_ID_MAX,
    ZXID_MAX,
    DiskId,
    Epoch,
    ServerId,
    Zxid,
    make_zxid,
)
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.wire_types import ROUND_MAX
from raykeeper.znodes.requests import WriteOp, encode_op
from raykeeper.znodes.txns import ErrorTxn, Txn, encode_txn
from tests.fuzz.mutations import hostile_bytes
from tests.fuzz.samples import Strategies, texts, values_of

PASSWORD: Final = b"a hostile client"
PATHS: Final = ["/", "/a", "/b", "/a/b", "/e", "/missing", "/zookeeper", "/zookeeper/quota", ""]
NOTHING: Final = encode_txn(Txn(0, 0, 0, 0, ErrorTxn(0)))  # type: ignore[arg-type]
"""A transaction that may stand anywhere: who leads and makes up others is beyond help."""

_POSITIONS: Final = [(1, 0), (1, 1), (1, 4), (1, 5), (1, 6), (1, 7), (2, 0), (2, 1), (2, 2), (3, 1)]
zxids: Final = st.sampled_from(
    [make_zxid(Epoch(epoch), counter) for epoch, counter in _POSITIONS]
    + [Zxid(0), Zxid(ZXID_MAX), make_zxid(Epoch(EPOCH_MAX), 0)]
)
epochs: Final = st.integers(0, 4) | st.sampled_from([EPOCH_MAX - 1, EPOCH_MAX])
rounds: Final = st.integers(0, 4) | st.sampled_from([ROUND_MAX - 1, ROUND_MAX])
servers: Final = st.integers(0, 4) | st.just(SERVER_ID_MAX)
paths: Final = st.sampled_from(PATHS) | texts
ops: Final = values_of(WriteOp, {"path": paths, "flags": st.integers(-1, 4)}).map(encode_op)

disks: Final = st.sampled_from([FOUNDING_DISK] * 3 + [DiskId("other"), DiskId("x" * 64)])
member_lists: Final = st.builds(
    MemberList,
    zxids,
    st.dictionaries(servers.map(ServerId), disks, min_size=1, max_size=4),
    st.lists(servers.map(ServerId), max_size=2).map(tuple),
)

_odd = st.sampled_from([-(1 << 63), -1, 0, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
_small = st.integers(-1, 6) | _odd

FROM_CLIENTS: Final[Strategies] = {
    "op": ops | hostile_bytes(ops),
    "path": paths,
    "data": st.lists(paths, max_size=3),
    "exist": st.lists(paths, max_size=3),
    "child": st.lists(paths, max_size=3),
    "number": st.sampled_from([1, 1, 2, 3]) | _small,
    "acked": st.sampled_from([0, 1, 2]) | _odd,
    "zxid": zxids | _odd,
    "last_zxid": zxids | _odd,
    "timeout_ms": _small,
    "password": st.just(PASSWORD) | st.binary(max_size=20),
    "session_id": zxids | _odd,
}
FROM_PEERS: Final[Strategies] = {
    **FROM_CLIENTS,
    **dict.fromkeys(["zxid", "last_zxid", "upto", "first", "last", "commit"], zxids),
    "consistent_at": zxids,
    "owner_zxid": zxids | _odd,
    "ReadIndexReply.zxid": zxids | _odd,
    **dict.fromkeys(["epoch", "accepted_epoch", "current_epoch"], epochs),
    "round": rounds,
    "leader": servers,
    "follow_attempt": _small,
    "token": _small,
    "connection": _small,
    "disk": disks,
    "members": st.none() | member_lists,
    "txns": st.lists(st.just(NOTHING), max_size=4),
}
