"""What a crowd costs one server: many watchers of one znode, a queue, a group that watches itself.

    python bench/crowd.py [--clients N]

It measures one pure server whose disk and links are instant. The longest step is how long it
answers nobody else. Times are processor times.
"""

import argparse
import gc
import time
from collections.abc import Sequence

from raykeeper.bench.pure_ensemble import PureEnsemble
from raykeeper.znodes.requests import (
    AddWatch,
    ClientFrame,
    Create,
    CreateMode,
    Delete,
    GetChildren,
    GetData,
    Request,
    SetData,
    WatchMode,
    Write,
    WriteOp,
    encode_client_frame,
    encode_op,
)

WRITER = 1
CONNECTED_AT_ONCE = 100
READERS = 50
"""Clients of the crowd that make the costly reads."""
EPHEMERAL_SEQUENTIAL = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL


class CrowdedServer:
    """An ensemble of one server with a writer and `count` clients, each with a session."""

    def __init__(self, count: int) -> None:
        self.clients = range(WRITER + 1, WRITER + 1 + count)
        self._ensemble = PureEnsemble(1)
        self._writes: dict[int, int] = {}
        self._ensemble.connect(self._ensemble.leader, [WRITER])
        for start in range(0, count, CONNECTED_AT_ONCE):
            few = self.clients[start : start + CONNECTED_AT_ONCE]
            self._ensemble.connect(self._ensemble.leader, few)
        gc.collect()
        gc.freeze()

    def read(self, connection: int, *requests: Request) -> None:
        """Queue a frame of reads."""
        self._send(connection, list(requests))

    def write(self, connection: int, op: WriteOp) -> None:
        """Queue a frame with a write."""
        number = self._writes[connection] = self._writes.get(connection, 0) + 1
        self._send(connection, [Write(number, number - 1, encode_op(op))])

    def _send(self, connection: int, requests: list[Request]) -> None:
        data = encode_client_frame(ClientFrame(1, requests))
        self._ensemble.send(self._ensemble.leader, connection, data)

    def run(self) -> tuple[float, float]:
        """Run until all is answered; return the seconds of all steps, and of the longest."""
        ensemble, steps = self._ensemble, []
        ensemble.replies.clear()
        while True:
            before = len(ensemble.replies)
            started = time.process_time()
            ensemble.step()
            steps.append(time.process_time() - started)
            if len(ensemble.replies) == before and not any(ensemble.events.values()):
                return sum(steps), max(steps)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--clients", type=int, default=3_333, help="of the server")
    count = parser.parse_args().clients
    for title, measure in (("watchers", _watchers), ("queue", _queue), ("group", _group)):
        for what, number, (total, longest) in measure(count):
            each = f"{total / number * 1e6:8.1f} µs each"
            print(f"{title:>8}, {what:<36} {each}, longest step {longest * 1e3:6.1f} ms")


Timed = list[tuple[str, int, tuple[float, float]]]
"""What was measured, how many there were, and the times of `run`."""


def _watchers(count: int) -> Timed:
    server = CrowdedServer(count)
    server.write(WRITER, Create("/watched", bytes(100), 0))
    server.run()
    found: Timed = []
    for what in ("get with a watch", "get again with a watch"):
        for each in server.clients:
            server.read(each, GetData(1, "/watched", True))
        found.append((what, count, server.run()))
        server.write(WRITER, SetData("/watched", bytes(100), -1))
        found.append(("a set tells all", count, server.run()))
    return found[:3]


def _queue(count: int) -> Timed:
    server = CrowdedServer(count)
    server.write(WRITER, Create("/lock", b"", 0))
    server.run()
    for each in server.clients:
        server.write(each, Create("/lock/lock-", b"worker", EPHEMERAL_SEQUENTIAL))
    found: Timed = [("a place in the queue", count, server.run())]
    for each in server.clients[:READERS]:
        server.read(each, GetChildren(1, "/lock", False))
    found.append(("a list of the queue", READERS, server.run()))
    return found


def _group(count: int) -> Timed:
    server = CrowdedServer(count)
    server.write(WRITER, Create("/group", b"", 0))
    paths = [f"/group/member-{each}" for each in server.clients]
    for each, path in zip(server.clients, paths, strict=True):
        server.write(each, Create(path, b"10.0.0.7:4000", CreateMode.EPHEMERAL))
    server.run()
    for each in server.clients:
        server.read(each, AddWatch(1, "/group", WatchMode.RECURSIVE, True))
    found: Timed = [("a watch with values", count, server.run())]
    reads: Sequence[Request] = [GetData(n, path, False) for n, path in enumerate(paths, 1)]
    few = server.clients[:READERS]
    for each in few:
        server.read(each, *reads)
    found.append(("a read of one member by one member", len(few) * count, server.run()))
    for what, op in (("join", Create("/group/new", b"10.0.0.7:4000", 1)), ("leave", _LEAVE)):
        server.write(WRITER, op)
        found.append((f"a {what} tells all", count, server.run()))
    return found


_LEAVE = Delete("/group/new", -1)


if __name__ == "__main__":
    main()
