"""Codecs: whatever can be said arrives as it was said; paths against the rules one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.znodes.paths import join, parent_of, path_fault
from raykeeper.znodes.replies import (
    EmptyReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    ServerFrame,
    WatcherEvent,
    WriteReply,
    decode_server_frame,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Connect,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    SetWatches,
    Sync,
    decode_client_frame,
    decode_op,
    encode_client_frame,
    encode_op,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    RaiseLevelTxn,
    ReplaceVoterTxn,
    SetDataTxn,
    SuspectSessionTxn,
    Txn,
    decode_txn,
    encode_txn,
)

ints = st.integers(-(1 << 63), (1 << 63) - 1)
text, data = st.text(max_size=20), st.binary(max_size=20)
values = st.none() | data
stats = st.builds(Stat, *[ints] * 11)
optional_stats = st.none() | stats
ids = st.integers(1, 254).map(ServerId)
zxids = ints.map(Zxid)

changes = st.one_of(
    st.builds(CreateTxn, text, values, ints, ints),
    st.builds(DeleteTxn, text),
    st.builds(SetDataTxn, text, values, stats),
    st.builds(CreateSessionTxn, ints, data, ints, ids, ints),
    st.builds(CreateSessionErrorTxn, ids, ints, ints),
    st.builds(CloseSessionTxn, ints, st.lists(text, max_size=4)),
    st.builds(ErrorTxn, ints),
    st.builds(ReplaceVoterTxn, ids, text),
    st.builds(RaiseLevelTxn, ints),
    st.builds(SuspectSessionTxn, ints, st.booleans()),
)
ops = st.one_of(
    st.builds(Create, text, values, ints),
    st.builds(Delete, text, ints),
    st.builds(SetData, text, values, ints),
    st.builds(CloseSession),
)
reads = st.one_of(
    st.builds(GetData, ints, text, st.booleans()),
    st.builds(Exists, ints, text, st.booleans()),
    st.builds(GetChildren, ints, text, st.booleans()),
    st.builds(Sync, ints, text),
    st.builds(SetWatches, ints, zxids, *[st.lists(text, max_size=3)] * 3),
)
items = st.one_of(
    st.builds(WriteReply, ints, zxids, ints, text, optional_stats),
    st.builds(GetDataReply, ints, zxids, values, stats),
    st.builds(ExistsReply, ints, zxids, optional_stats),
    st.builds(GetChildrenReply, ints, zxids, st.lists(text, max_size=3), stats),
    st.builds(EmptyReply, ints, zxids),
    st.builds(ErrorReply, ints, zxids, ints),
    st.builds(WatcherEvent, st.sampled_from(EventType), text, zxids),
)


@given(st.builds(Txn, ints, ints, ints, ints, changes))
def test_transactions_survive_encoding(txn: Txn) -> None:
    assert decode_txn(encode_txn(txn)) == txn


@given(ops)
def test_operations_survive_encoding(op: Create | Delete | SetData | CloseSession) -> None:
    assert decode_op(encode_op(op)) == op


@given(st.builds(Connect, ints, data, ints, zxids) | st.builds(ClientFrame, ints, st.lists(reads)))
def test_client_frames_survive_encoding(frame: Connect | ClientFrame) -> None:
    assert decode_client_frame(encode_client_frame(frame)) == frame


@given(st.builds(ServerFrame, ints, zxids, st.lists(items, max_size=5)))
def test_server_frames_survive_encoding(frame: ServerFrame) -> None:
    assert decode_server_frame(encode_server_frame(frame)) == frame


def is_path(path: str) -> bool:
    """The rules of ZooKeeper one by one, over UTF-16 units as there."""
    raw = path.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[i : i + 2]) for i in range(0, len(raw), 2)]
    if any(
        u <= 0x1F or 0x7F <= u <= 0x9F or 0xD800 <= u <= 0xF8FF or 0xFFF0 <= u <= 0xFFFF
        for u in units
    ):
        return False
    if path == "/":
        return True
    head, *names = path.split("/")
    return head == "" and names != [] and all(name not in ("", ".", "..") for name in names)


awkward = st.text(st.sampled_from("/./ab\0\x1f\x7f\x9f\xa0\ud7ff\ud800\uf8ff\uf900\uffef\ufff0\U0001f600"), max_size=8)  # fmt: skip  # noqa: E501


@settings(max_examples=1_000)
@given(awkward | st.text(st.sampled_from("/.a"), max_size=8).map("/".__add__) | text)
def test_paths_are_accepted_by_each_rule(path: str) -> None:
    assert (path_fault(path) is None) == is_path(path)
    assert (path_fault(path, sequential=True) is None) == is_path(path + "0000000000")
    if is_path(path) and path != "/":
        assert join(parent_of(path), path.rpartition("/")[2]) == path
