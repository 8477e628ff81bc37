"""How long one frame of a client of ZooKeeper's protocol keeps one server from all others.

    python bench/jute_frames.py [--bytes N]

Each frame is as large as `zookeeper_request_bytes` allows, and made to cost as much as possible. It
measures one pure server whose disk and links are instant. Times are processor times.
"""

import argparse
import gc
import time
from collections.abc import Iterator

from raykeeper.bench.pure_ensemble import PureEnsemble
from raykeeper.jute.fields import Record
from raykeeper.jute.frames import JUTE_MAXBUFFER, encode_connect, encode_request
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    CheckVersionRequest,
    ConnectRequest,
    CreateRequest,
    PathWatchRequest,
    SetACLRequest,
    SetWatches2,
)
from raykeeper.server.events import JuteBytesArrived, JuteClientConnected
from raykeeper.znodes.acl import OPEN_ACL, Acl
from raykeeper.znodes.children import SHARDED_FROM
from raykeeper.znodes.limits import WATCHES_MAX, Limits

CLIENT = 1
_NO_PASSWORD = bytes(16)
_OPEN = list(OPEN_ACL)
_LIMITS = Limits()
_HEADER_BYTES = 9
"""Before each operation of a multi."""


class OneServer:
    """A server with the session of one client, and znodes for its requests."""

    def __init__(self) -> None:
        self._ensemble = PureEnsemble(1)
        events = self._ensemble.events[self._ensemble.leader]
        events.append(JuteClientConnected(CLIENT, "10.0.0.1", CLIENT.to_bytes(16), 4000))
        self.ask(encode_connect(ConnectRequest(0, 0, 60_000, 0, _NO_PASSWORD, False)))
        self._create("/list")
        self._create("/value", bytes(1000))
        for number in range(SHARDED_FROM):
            self._create(f"/list/{chr(0x100 + number)}")
        gc.collect()
        gc.freeze()

    def _create(self, path: str, value: bytes = b"") -> None:
        self.ask(encode_request(1, OpCode.CREATE, CreateRequest(path, value, _OPEN, 0)))

    def ask(self, frame: bytes) -> tuple[float, float, int]:
        """Return the seconds of the longest step and of all, and the bytes of the answer."""
        ensemble, steps = self._ensemble, []
        ensemble.replies.clear()
        ensemble.events[ensemble.leader].append(JuteBytesArrived(CLIENT, frame))
        (server,) = ensemble.servers.values()
        while ensemble.events[ensemble.leader] or server.deadline() == ensemble.now.mono:
            began = time.process_time()
            ensemble.step()
            steps.append(time.process_time() - began)
        return max(steps), sum(steps), sum(map(len, ensemble.replies))


def costly_requests(size: int) -> Iterator[tuple[str, int, Record]]:
    """Yield requests whose frames have about `size` bytes: what they are, opcode and record."""

    def operations(opcode: int, body: Record, body_bytes: int) -> MultiRequest:
        count = min((size - 30) // (_HEADER_BYTES + body_bytes), _LIMITS.request_ops_max)
        return MultiRequest([Operation(opcode, body)] * count)

    def addresses(count: int) -> list[Acl]:
        return [Acl(1, "ip", f"fd00::{i >> 12:x}:{i & 4095:x}") for i in range(count)]

    reads = operations(OpCode.GET_DATA, PathWatchRequest("/value", False), 11)
    reads = MultiRequest(reads.ops[: _LIMITS.transaction_ops_max])
    yield "reads", OpCode.MULTI_READ, reads
    lists = operations(OpCode.GET_CHILDREN, PathWatchRequest("/list", False), 10)
    yield "lists of 4096 names", OpCode.MULTI_READ, lists
    yield "1000 of these lists", OpCode.MULTI_READ, MultiRequest(lists.ops[:1000])
    checks = operations(OpCode.CHECK, CheckVersionRequest("/value", 0), 14)
    yield "checks", OpCode.MULTI, checks
    yield "1000 checks", OpCode.MULTI, MultiRequest(checks.ops[:1000])
    entries = addresses((size - 40) // 27)
    yield "ACL entries", OpCode.CREATE, CreateRequest("/acl", b"", entries, 0)
    yield "ACL entries", OpCode.SET_ACL, SetACLRequest("/value", entries, -1)
    of_nobody = [Acl(1, "auth", "")] * ((size - 40) // 16)
    yield "entries of auth", OpCode.CREATE, CreateRequest("/acl", b"", of_nobody, 0)
    creates = [
        Operation(OpCode.CREATE, CreateRequest(f"/c{i:04}", b"", addresses(30), 0))
        for i in range(_LIMITS.request_entries_max // 30)
    ]
    yield "creates of 30 entries", OpCode.MULTI, MultiRequest(creates)
    for what, entries in (("8000 creates", _OPEN), ("8000 creates of 2 entries", addresses(2))):
        creates = [
            Operation(OpCode.CREATE, CreateRequest(f"/c{i:04}", bytes(20), entries, 0))
            for i in range(8000)
        ]
        yield what, OpCode.MULTI, MultiRequest(creates)
    third = min((size - 40) // 10, WATCHES_MAX) // 3
    data, exist, lasting = ([f"/{kind}{i:04x}" for i in range(third)] for kind in "dep")
    yield (
        "as many watches as allowed",
        OpCode.SET_WATCHES2,
        (SetWatches2(0, data, exist, [], lasting, [])),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=JUTE_MAXBUFFER)
    size = parser.parse_args().bytes
    for what, opcode, body in costly_requests(size):
        frame = encode_request(2, opcode, body)
        longest, whole, answered = (
            min(each) for each in zip(*(OneServer().ask(frame) for _ in range(3)), strict=True)
        )
        print(
            f"{OpCode(opcode).name.lower():<13} {what:<27} {len(frame):>9,} bytes"
            f"  longest step {longest * 1000:6.1f} ms, all {whole * 1000:6.1f} ms,"
            f" answer {answered:>9,} bytes"
        )


if __name__ == "__main__":
    main()
