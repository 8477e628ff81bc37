"""What a bystander of a crowd waits for the servers alone: each has a core, clients cost nothing.

    python bench/bystander.py [--clients N]

Three pure servers in virtual time. A turn of a server's loop takes the processor time that its step
takes here, and a constant for each frame that it reads or writes, as measured in real servers. All
that comes meanwhile waits for the next turn. Links, disks and clients take constant times and have
no queues. So nothing here is contention for processors, which `raykeeper bench crowds` has too.
"""

import argparse
import gc
import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final

from raykeeper.actors.step_effects import sort_effects
from raykeeper.bench.loads.crowd_sessions import BYSTANDER_S, waits_of
from raykeeper.bench.measures import Span, percentile
from raykeeper.bench.results import Row
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import Effect, SendClient
from raykeeper.server.events import (
    ClientFrameArrived,
    EpochsSaved,
    Event,
    LinkUp,
    LogSynced,
    PeerFrame,
)
from raykeeper.server.peer_messages import decode_peer_frame, encode_peer_frame
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.server.server import Server
from raykeeper.zab.effects import Append, BreakLink, SaveEpochs
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, Millis, Now, ServerId, Zxid
from raykeeper.zab.settings import Settings
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    Item,
    ServerFrame,
    WatcherEvent,
    WriteReply,
    decode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    Create,
    CreateMode,
    GetData,
    Request,
    SessionId,
    SetData,
    Write,
    WriteOp,
    encode_client_frame,
    encode_op,
)

READ_S: Final = 7e-6
"""A server's processor time for a frame that comes, beside the step."""
SEND_S: Final = 12e-6
"""... and for a frame that leaves."""
TURN_S: Final = 40e-6
"""... and for a turn of the loop."""
LINK_S: Final = 50e-6
DISK_S: Final = 300e-6
REACTION_S: Final = 300e-6
"""From an event to the read that follows it, in a client."""
CONNECTED_AT_ONCE: Final = 100
PATIENCE_S: Final = 60.0
NEXT_S: Final = 1.0
"""Within this time after a crowd has acted its heartbeats are confirmed."""
WATCHED: Final = "/watched"
QUEUE: Final = "/lock"
BESIDE: Final = "/bystander"
PATHS: Final = (WATCHED, QUEUE, BESIDE)
WRITER: Final = 1
BYSTANDER: Final = 2


class VirtualServers:
    """Three servers, each with a core of its own, and their clients.

    `processor_s` returns the processor time so far, which steps are measured with.
    """

    def __init__(self, processor_s: Callable[[], float] = time.process_time) -> None:
        self.time = 1.0
        self._processor_s = processor_s
        self.on_items: dict[int, Callable[[Sequence[Item]], None]] = {}
        """What is called with what a client receives."""
        self.turns: list[tuple[ServerId, float, float]] = []
        """Each turn of a server's loop: when it began and how long it took."""
        self._order = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self.ids = [ServerId(i) for i in (1, 2, 3)]
        recovered = RecoveredState(Epoch(0), Epoch(0), ZERO, ZERO, [], [], ZERO, FOUNDING_DISK)
        self._servers = {
            i: Server(Settings(i, tuple(self.ids)), Limits(), ServerOptions(), recovered)
            for i in self.ids
        }
        self._inbox: dict[ServerId, list[Event]] = {i: [] for i in self.ids}
        self._frames: dict[ServerId, int] = dict.fromkeys(self.ids, 0)
        self._free_at = dict.fromkeys(self.ids, 0.0)
        self._turn_at: dict[ServerId, float | None] = dict.fromkeys(self.ids)
        self._at: dict[int, ServerId] = {}
        self._writes: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        for i, server in self._servers.items():
            self._carry_out(i, server.start(self._now()), self.time)
            for peer in self.ids:
                if peer != i:
                    self._deliver(i, LinkUp(peer))
        self.run(2.0)
        (self.leader,) = (i for i, s in self._servers.items() if s.peer.broadcasting)

    def connect(self, connections: Sequence[int], server: ServerId) -> None:
        """Open a session for each of these connections."""
        for start in range(0, len(connections), CONNECTED_AT_ONCE):
            for each in connections[start : start + CONNECTED_AT_ONCE]:
                self._at[each] = server
                hello = Connect(SessionId(0), each.to_bytes(16), Millis(60_000), ZERO)
                self._deliver(server, ClientFrameArrived(each, encode_client_frame(hello)))
            self.run(0.1)

    def read(self, connection: int, request: Request) -> None:
        """Have a client send a read."""
        self._send(connection, request)

    def write(self, connection: int, op: WriteOp) -> None:
        """Have a client send a write."""
        number = self._writes[connection] = self._writes.get(connection, 0) + 1
        self._send(connection, Write(number, number - 1, encode_op(op)))

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """Call `act` at a moment, or now if that has passed."""
        heapq.heappush(self._due, (max(moment, self.time), next(self._order), act))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.time + seconds
        while self._due and self._due[0][0] <= end:
            self.time, _, act = heapq.heappop(self._due)
            act()
        self.time = end

    def _now(self) -> Now:
        ms = int(self.time * 1000)
        return Now(Millis(ms), Millis(1_700_000_000_000 + ms))

    def _send(self, connection: int, request: Request) -> None:
        seq = self._sent[connection] = self._sent.get(connection, 0) + 1
        data = encode_client_frame(ClientFrame(seq, [request]))
        event = ClientFrameArrived(connection, data)
        self.at(self.time + LINK_S, partial(self._deliver, self._at[connection], event))

    def _deliver(self, i: ServerId, event: Event) -> None:
        self._inbox[i].append(event)
        if isinstance(event, ClientFrameArrived | PeerFrame):
            self._frames[i] += 1
        self._schedule(i, self.time)

    def _schedule(self, i: ServerId, moment: float) -> None:
        moment = max(moment, self._free_at[i])
        due = self._turn_at[i]
        if due is None or moment < due:
            self._turn_at[i] = moment
            self.at(moment, partial(self._turn, i, moment))

    def _turn(self, i: ServerId, moment: float) -> None:
        if self._turn_at[i] != moment:
            return
        self._turn_at[i] = None
        events, self._inbox[i] = self._inbox[i], []
        frames, self._frames[i] = self._frames[i], 0
        began = self._processor_s()
        effects = self._servers[i].step(events, self._now())
        took = self._processor_s() - began
        left = self._carry_out(i, effects, self.time + TURN_S + frames * READ_S + took)
        self.turns.append((i, self.time, left - self.time))
        self._free_at[i] = left
        due = self._servers[i].deadline()
        if self._inbox[i]:
            self._schedule(i, left)
        elif due is not None:
            self._schedule(i, max(left, due / 1000))

    def _carry_out(self, i: ServerId, effects: Sequence[Effect], moment: float) -> float:
        """Carry out the effects in the order of the shell; return when all have left."""
        found = sort_effects(effects)
        for peer, messages in found.peers:
            assert not isinstance(messages, BreakLink), messages
            moment += SEND_S
            frame = PeerFrame(i, decode_peer_frame(encode_peer_frame(messages)))
            self.at(moment + LINK_S, partial(self._deliver, peer, frame))
        for effect in found.others:
            if isinstance(effect, SendClient):
                moment += SEND_S
                self.at(moment + LINK_S, partial(self._receive, effect.connection, effect.data))
        for write in found.disk:
            if isinstance(write, Append):
                done: Event = LogSynced(Zxid(write.first + len(write.txns) - 1))
            elif isinstance(write, SaveEpochs):
                done = EpochsSaved(write.accepted, write.current)
            else:
                continue
            self.at(moment + DISK_S, partial(self._deliver, i, done))
        return moment

    def _receive(self, connection: int, data: bytes) -> None:
        act = self.on_items.get(connection)
        if act is not None:
            frame = decode_server_frame(data)
            assert isinstance(frame, ServerFrame), frame
            act(frame.items)


class Bystander:
    """Begins a set every 10 ms, as `stand_by` of the load does."""

    def __init__(self, servers: VirtualServers) -> None:
        self._waits: list[Span] = []
        self._servers = servers
        self._due = servers.time
        servers.on_items[BYSTANDER] = self._on_items
        self._set()

    def waits_ms(self, began: float, ended: float) -> list[float]:
        """Return how long the sets took that were due in a span."""
        return [took / 1000 for due, took in self._waits if began <= due <= ended]

    def _set(self) -> None:
        self._servers.write(BYSTANDER, SetData(BESIDE, bytes(100), -1))

    def _on_items(self, items: Sequence[Item]) -> None:
        if any(isinstance(item, WriteReply) for item in items):
            self._waits += (waits := waits_of(self._due, self._servers.time))
            self._due += BYSTANDER_S * len(waits)
            self._servers.at(self._due, self._set)


class Crowd:
    """Clients of all three servers that act together."""

    def __init__(self, servers: VirtualServers, clients: Sequence[int]) -> None:
        self._servers = servers
        self._clients = clients
        self._answered: dict[int, float] = {}

    def watch(self) -> float:
        """Have all read the znode with a watch at the same moment, now and after each event."""
        for each in self._clients:
            self._servers.on_items[each] = partial(self._on_items, each)
            self._read(each)
        return self._until_answered()

    def change(self) -> float:
        """Change what all watch; return the moment at which all have read it again."""
        self._servers.write(WRITER, SetData(WATCHED, bytes(100), -1))
        return self._until_answered()

    def enqueue(self) -> float:
        """Have all create a sequential ephemeral at the same moment."""
        for each in self._clients:
            place = Create(f"{QUEUE}/lock-", b"", CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL)
            self._servers.on_items[each] = partial(self._on_items, each)
            self._servers.write(each, place)
        return self._until_answered()

    def _until_answered(self) -> float:
        """Run until all were answered, and their heartbeats confirmed; return the first moment."""
        self._answered.clear()
        began = self._servers.time
        while len(self._answered) < len(self._clients):
            self._servers.run(NEXT_S)
            assert self._servers.time < began + PATIENCE_S, len(self._answered)
        self._servers.run(NEXT_S)
        return max(self._answered.values())

    def _read(self, connection: int) -> None:
        self._servers.read(connection, GetData(1, WATCHED, True))

    def _on_items(self, connection: int, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, WatcherEvent):
                self._servers.at(self._servers.time + REACTION_S, partial(self._read, connection))
            else:
                assert not isinstance(item, WriteReply) or item.code == 0, item
                self._answered[connection] = self._servers.time


def measure(
    clients: int,
    changes: int,
    alone_s: float,
    processor_s: Callable[[], float] = time.process_time,
) -> Iterator[Row]:
    """Yield a row for each phase; `clients` of the crowd are connected to each server."""
    servers = VirtualServers(processor_s)
    follower = next(i for i in servers.ids if i != servers.leader)
    servers.connect([WRITER, BYSTANDER], follower)
    crowd = range(BYSTANDER + 1, BYSTANDER + 1 + clients * len(servers.ids))
    for place, server in enumerate(servers.ids):
        servers.connect(crowd[place * clients : (place + 1) * clients], server)
    for path in PATHS:
        servers.write(WRITER, Create(path, b"", 0))
    servers.run(NEXT_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 1_000_000)  # as a server
    bystander, many = Bystander(servers), Crowd(servers, crowd)
    began = servers.time
    servers.run(alone_s)
    alone_until = servers.time
    servers.run(NEXT_S)
    yield _row("alone", servers, bystander, began, alone_until)
    acts = [("all read at once", many.watch)]
    acts += [("a change", many.change)] * changes
    acts += [("all queue up at once", many.enqueue)]
    for name, act in acts:
        began = servers.time
        yield _row(name, servers, bystander, began, act())


def _row(
    phase: str, servers: VirtualServers, bystander: Bystander, began: float, ended: float
) -> Row:
    """Return what a bystander waited from `began` to `ended`, and in the second after that."""
    # A crowd may be done before a set is due.
    during = bystander.waits_ms(began, max(ended, began + 2 * BYSTANDER_S))
    turns = [took for _, moment, took in servers.turns if moment >= began]
    return {
        "phase": phase,
        "seconds": ended - began,
        "set_p50_ms": percentile(during, 50),
        "set_p99_ms": percentile(during, 99),
        "next_p99_ms": percentile(bystander.waits_ms(ended, ended + NEXT_S), 99),
        "longest_turn_ms": max(turns) * 1000,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--clients", type=int, default=3_333, help="of each server")
    parser.add_argument("--changes", type=int, default=3, help="that all clients watch")
    given = parser.parse_args()
    for row in measure(given.clients, given.changes, alone_s=10.0):
        (_, phase), *numbers = row.items()
        print(f"{phase:<20}", ", ".join(f"{name} {value:7.2f}" for name, value in numbers))


if __name__ == "__main__":
    main()
