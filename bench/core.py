"""Three pure servers in one thread over in-memory links: what the core itself costs.

    python bench/core.py [--writes N] [--reads N] [--profile]

Disks are taken as synced at once, links as instant; every frame is encoded and decoded as on a
real link. Writes are 1 KB `set`s of sessions on all three servers, in batches as pipelining
clients send them, and a rate for all three servers together; reads are 1 KB `get`s of one server.
"""

import argparse
import cProfile
import gc
import pstats
import time
from collections.abc import Callable, Sequence

from raykeeper.actors.effects import SendClient, SendPeer
from raykeeper.actors.events import (
    SENT_BYTES,
    ClientFrameArrived,
    ClientSent,
    EpochsSaved,
    Event,
    LinkUp,
    LogSynced,
    PeerFrame,
)
from raykeeper.actors.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.actors.recovered import Recovered
from raykeeper.actors.server import Server
from raykeeper.actors.server_context import ServerOptions
from raykeeper.zab.effects import Append, SaveEpochs
from raykeeper.zab.ids import FOUNDING, ZERO, Epoch, Millis, Now, ServerId
from raykeeper.zab.settings import Settings, Timing
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import Connected, ServerFrame, decode_server_frame
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    Create,
    GetData,
    SessionId,
    SetData,
    Write,
    WriteOp,
    encode_client_frame,
    encode_op,
)

VALUE = bytes(1024)
BATCH = 100
SESSIONS_PER_SERVER = 4
PATHS = [f"/bench-{i:03}" for i in range(100)]


class Ensemble:
    """Three servers; `run` lets them talk until nothing is under way."""

    def __init__(self) -> None:
        self.ids = [ServerId(i) for i in (1, 2, 3)]
        recovered = Recovered(Epoch(0), Epoch(0), ZERO, ZERO, [], [], ZERO, FOUNDING)
        self.servers = {
            i: Server(
                Settings(i, tuple(self.ids), timing=Timing(tick_ms=Millis(3_600_000))),
                Limits(),
                ServerOptions(snapshot_every_txns=10**9, touch_ms=Millis(3_600_000)),
                recovered,
            )
            for i in self.ids
        }
        self.events: dict[ServerId, list[Event]] = {i: [] for i in self.ids}
        self.replies: dict[int, list[bytes]] = {}
        self.sent: dict[int, int] = {}
        self.now = Now(Millis(0), Millis(1_700_000_000_000))
        for i, server in self.servers.items():
            self.carry_out(i, server.start(self.now))
        for i in self.ids:
            self.events[i].extend(LinkUp(peer) for peer in self.ids if peer != i)
        self.run()
        leaders = [i for i, server in self.servers.items() if server.peer.broadcasting]
        assert len(leaders) == 1, leaders
        self.leader = leaders[0]

    def run(self) -> None:
        """Step every server that has events until none has."""
        busy = True
        while busy:
            busy = False
            for i, server in self.servers.items():
                if events := self.events[i]:
                    busy = True
                    self.events[i] = []
                    self.carry_out(i, server.step(events, self.now))

    def carry_out(self, i: ServerId, effects: Sequence[object]) -> None:
        """What the shell does, with a disk that is done at once."""
        frames: dict[ServerId, list[PeerMessage]] = {}
        synced = None
        for effect in effects:
            kind = type(effect)
            if kind is SendPeer:
                frames.setdefault(effect.peer, []).append(effect.message)  # type: ignore[attr-defined]
            elif kind is SendClient:
                number, data = effect.connection, effect.data  # type: ignore[attr-defined]
                self.replies.setdefault(number, []).append(data)
                size = self.sent[number] = self.sent.get(number, 0) + len(data)
                if size >= SENT_BYTES:
                    self.sent[number] = 0
                    self.events[i].append(ClientSent(number, size))
            elif kind is Append:
                synced = effect.first + len(effect.txns) - 1  # type: ignore[attr-defined]
            elif kind is SaveEpochs:
                self.events[i].append(EpochsSaved(effect.accepted, effect.current))  # type: ignore[attr-defined]
        if synced is not None:
            self.events[i].append(LogSynced(synced))
        for peer, messages in frames.items():
            self.events[peer].append(PeerFrame(i, decode_peer_frame(encode_peer_frame(messages))))

    def connect(self, i: ServerId, connection: int) -> None:
        """Open a session on server `i`."""
        password = connection.to_bytes(16, "big")
        connect = Connect(SessionId(0), password, Millis(10_000), ZERO)
        self.send(i, connection, encode_client_frame(connect))
        self.run()
        answer = decode_server_frame(self.replies.pop(connection)[0])
        assert isinstance(answer, Connected) and answer.code == 0, answer

    def send(self, i: ServerId, connection: int, data: bytes) -> None:
        """A client's frame arrives."""
        self.events[i].append(ClientFrameArrived(connection, data))

    def answered(self) -> int:
        """Items the clients received since the last call, checked for errors."""
        count = 0
        for frames in self.replies.values():
            for data in frames:
                frame = decode_server_frame(data)
                assert isinstance(frame, ServerFrame), frame
                count += len(frame.items)
        self.replies = {}
        return count


def write_frames(count: int, first: int, path_of: Callable[[int], WriteOp]) -> list[bytes]:
    """Frames of BATCH writes each, numbered from `first`."""
    frames = []
    for start in range(first, first + count, BATCH):
        writes = [Write(n, start - 1, encode_op(path_of(n))) for n in range(start, start + BATCH)]
        frames.append(encode_client_frame(ClientFrame(start, list(writes))))
    return frames


def measure_writes(ensemble: Ensemble, count: int) -> float:
    """Writes per second; each round every session sends one batch."""
    sessions = [
        (i, int(i) << 32 | k) for i in ensemble.ids for k in range(1, SESSIONS_PER_SERVER + 1)
    ]
    for i, connection in sessions:
        ensemble.connect(i, connection)
    creator = sessions[0]
    frames = write_frames(BATCH, 1, lambda n: Create(PATHS[n - 1], VALUE, 0))
    ensemble.send(*creator, frames[0])
    ensemble.run()
    assert ensemble.answered() == BATCH
    rounds = count // (BATCH * len(sessions))
    per_session = {
        session: write_frames(
            rounds * BATCH,
            1 + (BATCH if session == creator else 0),
            lambda n: SetData(PATHS[n % len(PATHS)], VALUE, -1),
        )
        for session in sessions
    }
    gc.collect()
    gc.freeze()
    started = time.process_time()
    for index in range(rounds):
        for session in sessions:
            ensemble.send(*session, per_session[session][index])
        ensemble.run()
    took = time.process_time() - started
    done = ensemble.answered()
    assert done == rounds * BATCH * len(sessions), done
    return done / took


def measure_reads(ensemble: Ensemble, count: int) -> float:
    """Reads per second of one server, a follower."""
    i = next(i for i in ensemble.ids if i != ensemble.leader)
    connection = 999
    ensemble.connect(i, connection)
    frames = [
        encode_client_frame(
            ClientFrame(start + 1, [GetData(n, PATHS[n % len(PATHS)], False) for n in range(BATCH)])
        )
        for start in range(count // BATCH)
    ]
    started = time.process_time()
    for frame in frames:
        ensemble.send(i, connection, frame)
        ensemble.run()
    took = time.process_time() - started
    done = ensemble.answered()
    assert done == len(frames) * BATCH, done
    return done / took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--writes", type=int, default=60_000)
    parser.add_argument("--reads", type=int, default=300_000)
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    options = parser.parse_args()
    ensemble = Ensemble()
    writes = measure_writes(ensemble, options.writes)
    print(f"writes/s, 1 KB, all three servers in one thread: {writes:>10,.0f}   target 25,000")
    reads = measure_reads(ensemble, options.reads)
    print(f"reads/s, 1 KB, one server:                       {reads:>10,.0f}   target 250,000")
    if options.profile:
        for name, work in (
            ("writes", lambda: measure_writes(Ensemble(), options.writes // 4)),
            ("reads", lambda: measure_reads(Ensemble(), options.reads // 4)),
        ):
            profile = cProfile.Profile()
            profile.runcall(work)
            print(f"\nWhere the time of {name} goes:")
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)


if __name__ == "__main__":
    main()
