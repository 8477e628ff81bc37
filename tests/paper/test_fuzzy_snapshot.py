"""The example of section 4.3: a snapshot that was never a state, and replay that makes it one.

Paper: Hunt, Konar, Junqueira, Reed, "ZooKeeper: Wait-free coordination for Internet-scale
systems" (USENIX ATC 2010), section 4.3.
"""

import msgspec

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk, ZnodeRecord
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import SetDataTxn, decode_txn
from tests.unit.znodes.one_leader import OneLeader


def shown(state: State) -> dict[str, tuple[bytes, int]]:
    """Value and version of the two znodes."""
    znodes = ((path, state.tree.get(path)) for path in ("/foo", "/goo"))
    return {path: (znode.value, znode.version) for path, znode in znodes if znode is not None}


def records(chunk: bytes) -> list[tuple[str, bytes, int]]:
    """Path, value and version of the znodes in a chunk."""
    rows = msgspec.msgpack.decode(chunk)
    tag = ZnodeRecord.__struct_config__.tag
    return [(row[1], row[2], row[7]) for row in rows if row[0] == tag]


def test_foo_and_goo() -> None:
    # /foo and /goo have values f1 and g1, both at version 1. The walk will come to /goo first.
    leader = OneLeader()
    session = leader.open()
    for path, first in [("/goo", b"g1"), ("/foo", b"f1")]:
        leader.create(session, path, b"")
        leader.set(session, path, first)
    state = leader.state
    z0 = state.zxid
    assert shown(state) == {"/foo": (b"f1", 1), "/goo": (b"g1", 1)}

    # The snapshot begins, and takes up /goo before anything changes.
    walk = SnapshotWalk(state, chunk_bytes=1)
    chunks: list[bytes] = []
    while ("/goo", b"g1", 1) not in (records(chunks[-1]) if chunks else []):
        chunk = walk.next_chunk()
        assert chunk is not None
        chunks.append(chunk)

    # Three state changes arrive: <SetDataTXN, /foo, f2, 2>, <.., /goo, g2, 2>, <.., /foo, f3, 3>.
    for path, value in [("/foo", b"f2"), ("/goo", b"g2"), ("/foo", b"f3")]:
        leader.set(session, path, value)
    replayed: list[tuple[Zxid, bytes]] = leader.log[-3:]
    changes = [decode_txn(data).body for _, data in replayed]
    assert [(c.path, c.value, c.stat.version) for c in changes if isinstance(c, SetDataTxn)] == [
        ("/foo", b"f2", 2),
        ("/goo", b"g2", 2),
        ("/foo", b"f3", 3),
    ]
    assert shown(state) == {"/foo": (b"f3", 3), "/goo": (b"g2", 2)}

    # The rest of the snapshot has /foo as it is now.
    while (chunk := walk.next_chunk()) is not None:
        chunks.append(chunk)
    z1 = state.zxid

    # It holds f3 at version 3 and g1 at version 1: no state the server ever was in.
    loader = SnapshotLoader()
    for chunk in chunks:
        loader.load(chunk)
    recovered = loader.finish(z0, z1)
    assert shown(recovered) == {"/foo": (b"f3", 3), "/goo": (b"g1", 1)}
    assert recovered.digest() != state.digest()

    # Replaying the changes in order gives the state before the crash.
    for zxid, data in replayed:
        recovered.apply(zxid, data)
    assert shown(recovered) == {"/foo": (b"f3", 3), "/goo": (b"g2", 2)}
    assert recovered.digest() == state.digest()
