"""The cost of the server core: three pure servers in one thread over in-memory links.

    python bench/core.py [--writes N] [--reads N] [--rounds N] [--profile]

Writes are 1 KB `set`s of sessions on all three servers, in batches as pipelining clients send
them; their rate is that of all three servers together. Reads are 1 KB `get`s of one server. Times
are processor times, rates the medians of several rounds.
"""

import argparse
import cProfile
import gc
import pstats
import statistics
import time
from collections.abc import Callable

from raykeeper.bench.pure_ensemble import PureEnsemble
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.replies import GetDataReply, WriteReply
from raykeeper.znodes.requests import (
    ClientFrame,
    Create,
    GetData,
    SetData,
    Write,
    WriteOp,
    encode_client_frame,
    encode_op,
)

SERVERS = 3
VALUE = bytes(1024)
BATCH = 100
SESSIONS_PER_SERVER = 4
READER = 999
PATHS = [f"/bench-{i:03}" for i in range(BATCH)]
WRITES_TARGET, READS_TARGET = 45_000, 450_000


class CoreLoad:
    """Clients of one ensemble, and the number of each client's next write."""

    def __init__(self) -> None:
        self.ensemble = ensemble = PureEnsemble(SERVERS)
        self.sessions = [
            (i, int(i) << 32 | k) for i in ensemble.ids for k in range(1, SESSIONS_PER_SERVER + 1)
        ]
        self._next = dict.fromkeys(self.sessions, 1)
        for i, connection in self.sessions:
            ensemble.connect(i, [connection])
        self._reads_from = next(i for i in ensemble.ids if i != ensemble.leader)
        ensemble.connect(self._reads_from, [READER])
        (frame,) = self._write_frames(self.sessions[0], 1, lambda n: Create(PATHS[n], VALUE, 0))
        ensemble.send(*self.sessions[0], frame)
        ensemble.run()
        assert len(ensemble.answered()) == BATCH
        gc.collect()
        gc.freeze()

    def writes(self, count: int) -> float:
        """Return writes per second; every session sends one batch at a time."""
        ensemble, sessions = self.ensemble, self.sessions
        batches = max(1, count // (BATCH * len(sessions)))
        frames = [
            self._write_frames(session, batches, lambda n: SetData(PATHS[n], VALUE, -1))
            for session in sessions
        ]
        started = time.process_time()
        for batch in zip(*frames, strict=True):
            for session, frame in zip(sessions, batch, strict=True):
                ensemble.send(*session, frame)
            ensemble.run()
        took = time.process_time() - started
        items = ensemble.answered()
        assert len(items) == batches * BATCH * len(sessions), len(items)
        assert all(isinstance(item, WriteReply) for item in items)
        return len(items) / took

    def reads(self, count: int) -> float:
        """Return reads per second of one follower."""
        ensemble = self.ensemble
        requests = [GetData(n + 1, path, False) for n, path in enumerate(PATHS)]
        frame = encode_client_frame(ClientFrame(1, list(requests)))
        batches = max(1, count // BATCH)
        started = time.process_time()
        for _ in range(batches):
            ensemble.send(self._reads_from, READER, frame)
            ensemble.run()
        took = time.process_time() - started
        items = ensemble.answered()
        assert len(items) == batches * BATCH, len(items)
        assert all(isinstance(item, GetDataReply) for item in items)
        return len(items) / took

    def _write_frames(
        self, session: tuple[ServerId, int], batches: int, op_of: Callable[[int], WriteOp]
    ) -> list[bytes]:
        """Return frames of BATCH writes each; `op_of` gets the index in the batch."""
        frames = []
        for _ in range(batches):
            first = self._next[session]
            self._next[session] = first + BATCH
            writes = [Write(first + n, first - 1, encode_op(op_of(n))) for n in range(BATCH)]
            frames.append(encode_client_frame(ClientFrame(first, list(writes))))
        return frames


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--writes", type=int, default=24_000, help="in a round")
    parser.add_argument("--reads", type=int, default=100_000, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    options = parser.parse_args()
    load = CoreLoad()
    load.writes(options.writes // 4)
    load.reads(options.reads // 4)
    rounds = range(options.rounds)
    # Writes and reads take turns, so both meet the same fast and slow moments of the machine.
    both = [(load.writes(options.writes), load.reads(options.reads)) for _ in rounds]
    writes, reads = (statistics.median(rates) for rates in zip(*both, strict=True))
    print(f"writes/s, 1 KB, {SERVERS} servers in one thread: {writes:>9,.0f}", end="   ")
    print(f"target {WRITES_TARGET:,}")
    print(f"reads/s, 1 KB, one server:             {reads:>9,.0f}   target {READS_TARGET:,}")
    if options.profile:
        for name, work, count in (
            ("writes", load.writes, options.writes),
            ("reads", load.reads, options.reads),
        ):
            profile = cProfile.Profile()
            profile.runcall(work, count)
            print(f"\nWhere the time of {name} goes:")
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)


if __name__ == "__main__":
    main()
