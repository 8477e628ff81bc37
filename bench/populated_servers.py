"""The cost of requests to a pure server with very many znodes, watches or sessions.

The population is on an ensemble of one server. A round makes some requests of each kind and
returns the microseconds of processor time of one; afterwards the population is as large as before.
The requests are spread over the whole population, so little of a large one is in the caches.
"""

import gc
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Final

import psutil

from raykeeper.bench.pure_ensemble import PureEnsemble
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import (
    AddWatch,
    ClientFrame,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetData,
    RemoveWatches,
    Request,
    SessionId,
    SetData,
    WatchKind,
    WatchMode,
    Write,
    WriteOp,
    encode_client_frame,
    encode_op,
)
from raykeeper.znodes.txns import CreateTxn

BATCH: Final = 100
WATCHERS: Final = 10
_VALUE: Final = bytes(100)
_PARENT: Final = "/crowd"
_STRIDE: Final = 7_919  # prime: successive requests go to distant members
_CLIENT: Final = 1
_FIRST: Final = 2  # the first connection of the population

Costs = dict[str, float]
"""Microseconds by request."""
Frames = Sequence[tuple[int, bytes]]
"""Frames, each with the connection it comes from."""


class PopulatedServer:
    """The base of all populations: a server, one client, requests spread over the members."""

    def __init__(self, count: int, requests: int) -> None:
        """A round makes `requests` of each kind, but at most `count`."""
        self.count = count
        self.requests = min(count, requests)
        self.ensemble = PureEnsemble(1)
        self._writes: dict[int, int] = {}  # number of the last one, by connection
        self._place = 0
        self.connect([_CLIENT])

    def places(self) -> list[int]:
        """Return the numbers of some members, other ones each time."""
        first = self._place
        self._place = first + self.requests
        return [place * _STRIDE % self.count for place in range(first, first + self.requests)]

    def connect(self, connections: Sequence[int]) -> float:
        """Open sessions; return the microseconds of one."""
        started = time.process_time()
        for start in range(0, len(connections), BATCH):
            self.ensemble.connect(self.ensemble.leader, connections[start : start + BATCH])
        return (time.process_time() - started) / len(connections) * 1e6

    def reads(self, requests: Sequence[Request], connection: int = _CLIENT) -> float:
        """Return the microseconds of one of these reads; a client sends BATCH of them together."""
        frames = [
            (connection, encode_client_frame(ClientFrame(1, list(requests[start : start + BATCH]))))
            for start in range(0, len(requests), BATCH)
        ]
        return self.timed(frames, len(requests), 1)

    def writes(self, ops: Sequence[WriteOp], connection: int = _CLIENT) -> float:
        """Return the microseconds of one of these writes; a client sends BATCH of them together."""
        frames = [
            (connection, self.write_frame(connection, ops[start : start + BATCH]))
            for start in range(0, len(ops), BATCH)
        ]
        return self.timed(frames, len(ops), 1)

    def write_frame(self, connection: int, ops: Sequence[WriteOp]) -> bytes:
        """Return a frame with the next writes of a connection."""
        acked = self._writes.get(connection, 0)
        self._writes[connection] = acked + len(ops)
        writes = [Write(acked + n, acked, encode_op(op)) for n, op in enumerate(ops, 1)]
        return encode_client_frame(ClientFrame(1, list(writes)))

    def timed(self, frames: Frames, count: int, at_once: int, *, ticks: bool = False) -> float:
        """Return the microseconds of one of `count` requests, if `at_once` frames arrive together.

        With `ticks`, time advances after each arrival until the active sessions are reported.
        """
        ensemble, leader = self.ensemble, self.ensemble.leader
        started = time.process_time()
        for start in range(0, len(frames), at_once):
            for connection, data in frames[start : start + at_once]:
                ensemble.send(leader, connection, data)
            ensemble.run()
            if ticks:
                ensemble.tick()
        took = time.process_time() - started
        ensemble.answered()
        return took / count * 1e6

    def create_parent(self) -> None:
        """Put the znodes into the tree as transactions would, but without a log."""
        tree = self.ensemble.servers[self.ensemble.leader].state.tree
        happened, tree.changes = tree.changes, None
        tree.create(Zxid(1), Millis(0), CreateTxn(_PARENT, b"", SessionId(0), 1))
        for place in range(self.count):
            value = bytes(len(_VALUE))  # an object of its own, as in a decoded transaction
            tree.create(
                Zxid(1), Millis(0), CreateTxn(path_of(place), value, SessionId(0), place + 1)
            )
        tree.changes = happened


class ManyZnodes(PopulatedServer):
    """Znodes of 100 B under one parent."""

    def fill(self) -> None:
        """Create them."""
        self.create_parent()

    def round(self) -> Costs:
        """Read and change some, create and delete others."""
        paths = [path_of(place) for place in self.places()]
        fresh = [f"{_PARENT}/new-{place}" for place in range(self.requests)]
        return {
            "get": self.reads([GetData(1, path, False) for path in paths]),
            "exists": self.reads([Exists(1, path, False) for path in paths]),
            "set": self.writes([SetData(path, _VALUE, -1) for path in paths]),
            "create": self.writes([Create(path, _VALUE, 0) for path in fresh]),
            "delete": self.writes([Delete(path, -1) for path in fresh]),
        }


class ManyWatches(PopulatedServer):
    """A watch on the value of each znode; a few connections share them."""

    def __init__(self, count: int, requests: int) -> None:
        super().__init__(count, requests)
        self.create_parent()
        self.connect([_FIRST + i for i in range(WATCHERS)])

    def fill(self) -> None:
        """Set them."""
        self._watch(range(self.count))

    def round(self) -> Costs:
        """Fire some and set them again; add and remove persistent ones."""
        places = self.places()
        paths = [path_of(place) for place in places]
        lasting = [AddWatch(1, path, WatchMode.PERSISTENT) for path in paths]
        dropped = [RemoveWatches(1, path, [WatchKind.PERSISTENT]) for path in paths]
        return {
            "set, a watch fires": self.writes([SetData(path, _VALUE, -1) for path in paths]),
            "get, a watch is set": self._watch(places),
            "set beside watches": self.writes([SetData(_PARENT, _VALUE, -1)] * len(paths)),
            "add_watch": self.reads(lasting),
            "remove_watches": self.reads(dropped),
        }

    def _watch(self, places: Sequence[int]) -> float:
        took = 0.0
        for watcher in range(WATCHERS):
            mine = [path_of(place) for place in places if place % WATCHERS == watcher]
            if mine:
                requests = [GetData(1, path, True) for path in mine]
                took += self.reads(requests, _FIRST + watcher) * len(mine)
        return took / len(places)


class ManySessions(PopulatedServer):
    """Sessions, each with its connection."""

    def __init__(self, count: int, requests: int) -> None:
        super().__init__(count, requests)
        self._beat = 1
        self.writes([Create(_PARENT, _VALUE, 0)])

    def fill(self) -> None:
        """Open them."""
        self.connect(range(_FIRST, _FIRST + self.count))

    def round(self) -> Costs:
        """Send heartbeats and writes of some; open and close others."""
        mine = [_FIRST + place for place in self.places()]
        fresh = [_FIRST + self.count + place for place in range(self.requests)]
        self._beat += 1
        empty = encode_client_frame(ClientFrame(self._beat, []))
        heartbeats = [(each, empty) for each in mine]
        sets = [(each, self.write_frame(each, [SetData(_PARENT, _VALUE, -1)])) for each in mine]
        opened = self.connect(fresh)
        closings = []
        for each in fresh:
            self._writes.pop(each, None)
            closings.append((each, self.write_frame(each, [CloseSession()])))
        return {
            "heartbeat": self.timed(heartbeats, len(mine), BATCH, ticks=True),
            "set of one session each": self.timed(sets, len(sets), BATCH),
            "session opened": opened,
            "session closed": self.timed(closings, len(fresh), BATCH),
        }


POPULATIONS: Final[dict[str, type[ManyZnodes] | type[ManyWatches] | type[ManySessions]]] = {
    "znodes": ManyZnodes,
    "watches": ManyWatches,
    "sessions": ManySessions,
}


def path_of(place: int) -> str:
    """Return the path of a znode of the population."""
    return f"{_PARENT}/{place:010}"


def serve(pipe: Connection, what: str, count: int, requests: int) -> None:
    """Run in a separate process: populate a server, send its bytes, and do a round per request."""
    process = psutil.Process()
    crowd = POPULATIONS[what](count, requests)
    gc.collect()
    before = process.memory_info().rss
    crowd.fill()
    gc.collect()
    pipe.send(process.memory_info().rss - before)
    gc.freeze()  # as in a replica, after recovery and whenever it is idle
    gc.set_threshold(20_000, 10, 1_000_000)
    while pipe.recv():
        pipe.send(crowd.round())
