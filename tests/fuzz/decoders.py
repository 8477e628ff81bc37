"""Every decoder of bytes from outside: what it decodes to, and the only errors it may raise.

The bytes come from other servers, clients, disks and people. `DECODERS` is the table that the
tests and the coverage-guided fuzzer share; a new decoder belongs into it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from raykeeper.actors.disk.identity import (
    IDENTITY_FILE,
    DiskIdentity,
    format_folder,
    read_identity,
)
from raykeeper.actors.disk.log_format import (
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
)
from raykeeper.actors.disk.snapshot_files import SnapshotChunks, SnapshotWriter, read_summary
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from raykeeper.jute.errors import JuteError
from raykeeper.jute.frames import (
    decode_connect,
    decode_connect_response,
    decode_reply,
    decode_request,
    encode_connect,
    encode_connect_response,
)
from raykeeper.jute.opcodes import OpCode
from raykeeper.links.hello import (
    LINK_VERSION,
    Hello,
    Refusal,
    Welcome,
    decode_answer,
    decode_hello,
    encode_hello,
)
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ZXID_MAX, Zxid
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    ServerFrame,
    decode_server_frame,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    WriteOp,
    decode_client_frame,
    decode_op,
    encode_client_frame,
    encode_op,
)
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import Txn, decode_txn, encode_txn
from tests.contract.faulty_files import FaultyFiles
from tests.fuzz.jute_values import (
    connect_requests,
    connect_responses,
    replies,
    reply_payload,
    request_payload,
    requests,
)
from tests.fuzz.samples import required_of, values_of
from tests.model.histories import histories, written


class Refused(Exception):
    """A decoder said no by its result, as documented, not by an error."""


class Decoder(NamedTuple):
    """`encode` is the inverse of `decode` on the values of `values`."""

    values: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    errors: tuple[type[Exception], ...]


FOLDER: Final = Path("/data")


def on_disk(name: str, data: bytes) -> FaultyFiles:
    """A disk whose folder holds one file."""
    files = FaultyFiles()
    files.make_folder(FOLDER)
    fd = files.create(FOLDER / name)
    files.write(fd, [data], 0)
    files.close(fd)
    return files


def _hello(data: bytes) -> Hello:
    hello = decode_hello(data)
    if hello is None:
        raise Refused
    return hello


def _snapshot_file(snapshot: tuple[Zxid, Zxid, list[bytes]]) -> bytes:
    zxid, consistent_at, chunks = snapshot
    files = FaultyFiles()
    files.make_folder(FOLDER)
    writer = SnapshotWriter(FOLDER / "snapshot", zxid, files)
    for chunk in chunks:
        writer.write(chunk)
    writer.finish(consistent_at)
    return bytes(files.content(FOLDER / "snapshot"))


def _read_snapshot(data: bytes) -> tuple[Zxid, Zxid, list[bytes]]:
    files = on_disk("snapshot", data)
    zxid, consistent_at = read_summary(FOLDER / "snapshot", files)
    chunks = list(SnapshotChunks(FOLDER / "snapshot", files))
    assert files.open_files() == 0, "a file was left open"
    return zxid, consistent_at, chunks


def _identity_file(identity: DiskIdentity) -> bytes:
    files = FaultyFiles()
    format_folder(FOLDER, identity, files)
    return bytes(files.content(FOLDER / IDENTITY_FILE))


def _peek(data: bytes) -> DiskIdentity:
    files = on_disk(IDENTITY_FILE, data)
    identity = read_identity(FOLDER, files)
    assert identity is not None and files.open_files() == 0
    return identity


def snapshot_chunks(state: State) -> list[bytes]:
    """All chunks of a state, small ones."""
    walk = SnapshotWalk(state, chunk_bytes=200)
    return list(iter(walk.next_chunk, None))


CHUNK_END: Final = b"\xc1 end of a chunk \xc1"


def _load_tree(data: bytes) -> bytes:
    """Load a snapshot; the value it stands for is the next snapshot but one.

    A walk writes the sessions in the opposite order, so only every second one is the same.
    """
    state = _loaded(data.split(CHUNK_END))
    return CHUNK_END.join(snapshot_chunks(_loaded(state)))


def _loaded(source: list[bytes] | State) -> State:
    loader = SnapshotLoader()
    for chunk in snapshot_chunks(source) if isinstance(source, State) else source:
        loader.load(chunk)
    state = loader.finish(Zxid(ZXID_MAX), Zxid(ZXID_MAX))
    state.digest()
    return state


zxids = st.integers(0, ZXID_MAX).map(Zxid)
snapshots = st.tuples(zxids, zxids, st.lists(st.binary(min_size=1, max_size=30), max_size=4)).map(
    lambda s: (min(s[:2]), max(s[:2]), s[2])
)
numbers = st.integers(0, (1 << 32) - 1)
headers = st.builds(SegmentHeader, *[numbers for _ in SegmentHeader._fields])
trees = histories.map(lambda history: CHUNK_END.join(snapshot_chunks(written(history).state)))

_current = {"version": st.just(LINK_VERSION)}
_msgpack: Final[dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]]] = {
    "answer to a hello": (Welcome | Refusal, encode_hello, decode_answer),
    "peer frame": (list[PeerMessage], encode_peer_frame, decode_peer_frame),
    "client frame": (Connect | ClientFrame, encode_client_frame, decode_client_frame),
    "operation": (WriteOp, encode_op, decode_op),
    "server frame": (
        ConnectReply | ServerFrame | CloseFrame,
        encode_server_frame,
        decode_server_frame,
    ),
    "transaction": (Txn, encode_txn, decode_txn),
}

DECODERS: Final[dict[str, Decoder]] = {
    "hello": Decoder(values_of(Hello, _current), encode_hello, _hello, (Refused,)),
    **{
        name: Decoder(values_of(kind), encode, decode, DECODE_ERRORS)
        for name, (kind, encode, decode) in _msgpack.items()
    },
    "snapshot": Decoder(trees, bytes, _load_tree, (SnapshotFormatError,)),
    "snapshot file": Decoder(snapshots, _snapshot_file, _read_snapshot, (StorageError,)),
    "segment header": Decoder(
        headers,
        encode_segment_header,
        lambda data: decode_segment_header(data, "log.1"),
        (CorruptRecord,),
    ),
    "jute connect": Decoder(
        connect_requests, lambda value: encode_connect(value)[4:], decode_connect, (JuteError,)
    ),
    "jute connect response": Decoder(
        connect_responses,
        lambda value: encode_connect_response(value)[4:],
        decode_connect_response,
        (JuteError,),
    ),
    "jute request": Decoder(requests, request_payload, decode_request, (JuteError,)),
    **{
        f"jute reply to {opcode.name}": Decoder(
            replies(opcode),
            reply_payload,
            lambda data, opcode=opcode: decode_reply(data, opcode),  # type: ignore[misc]
            (JuteError,),
        )
        for opcode in (OpCode.GET_DATA, OpCode.GET_ACL, OpCode.GET_CHILDREN2, OpCode.MULTI)
    },
    "identity": Decoder(required_of(DiskIdentity), _identity_file, _peek, (StorageError,)),
}
