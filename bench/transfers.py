"""How long writes wait for a transfer of the lead, between idle servers and under load.

    python bench/transfers.py [--transfers 20] [--servers 3] [--clients 6] [--outstanding 50]

One client writes, one write at a time, while the lead goes from server to server; a gap is the
longest time between two of its acknowledgements around a transfer. Under load other clients keep
many writes outstanding. Every write must be acknowledged; none may fail.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections import deque
from itertools import pairwise
from typing import Any

import ray

from raykeeper.clusters import Ensemble, LeadershipTransferError, launch

_AROUND_S = 0.5
"""Written before and after each transfer."""


class _Writer(threading.Thread):
    """Writes one value after the other, and notes when each is acknowledged."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self._client = ensemble.connect()
        self._client.create("/gap", b"")
        self._ends = threading.Event()
        self.done_at: list[float] = [time.monotonic()]

    def run(self) -> None:
        while not self._ends.is_set():
            self._client.set("/gap", b"x" * 100)
            self.done_at.append(time.monotonic())
        self._client.close()

    def end(self) -> None:
        self._ends.set()
        self.join()

    def longest_gap_s(self, since: float) -> float:
        times = [at for at in self.done_at if at >= since]
        return max(b - a for a, b in pairwise(times))


@ray.remote(num_cpus=0)
class _Load:
    """Keeps writes outstanding until it is told to end; returns how many were acknowledged."""

    def __init__(self, name: str, number: int, outstanding: int) -> None:
        from raykeeper.client import connect

        self._client, self._path, self._outstanding = connect(name), f"/load{number}", outstanding
        self._client.create(self._path, b"")
        self._ends = threading.Event()
        self._count = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        waiting: deque[Any] = deque()
        while not self._ends.is_set():
            while len(waiting) < self._outstanding:
                waiting.append(self._client.set_async(self._path, b"x" * 1_000))
            waiting.popleft().result()
            self._count += 1
        while waiting:
            waiting.popleft().result()
            self._count += 1

    def end(self) -> int:
        self._ends.set()
        self._thread.join()
        self._client.close()
        return self._count


def measure(ensemble: Ensemble, transfers: int, servers: int) -> list[float]:
    """Transfer the lead in turn, and return the gap of each transfer, in seconds."""
    writer = _Writer(ensemble)
    writer.start()
    gaps = []
    for _ in range(transfers):
        to = ensemble.wait_for_leader() % servers + 1
        since = time.monotonic()
        time.sleep(_AROUND_S)
        try:
            ensemble.transfer_leadership(to)
        except LeadershipTransferError as error:
            print(f"not transferred: {error}")
            continue
        time.sleep(_AROUND_S)
        gaps.append(writer.longest_gap_s(since))
    writer.end()
    return gaps


def main() -> None:
    """Measure both, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--transfers", type=int, default=20)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--outstanding", type=int, default=50)
    given = parser.parse_args()
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        ensemble = launch(name="transfers", servers=given.servers, data_dir=folder)
        try:
            _show("idle", measure(ensemble, given.transfers, given.servers))
            numbers = range(given.clients)
            load = [_Load.remote("transfers", n, given.outstanding) for n in numbers]  # type: ignore[attr-defined]
            began = time.monotonic()
            with ensemble.connect() as client:
                client.delete("/gap")
            gaps = measure(ensemble, given.transfers, given.servers)
            done = sum(ray.get([each.end.remote() for each in load]))
            _show(f"{done / (time.monotonic() - began):.0f} writes/s", gaps)
        finally:
            ensemble.shutdown()
    ray.shutdown()


def _show(load: str, gaps: list[float]) -> None:
    if not gaps:
        print(f"{load}: no transfer")
        return
    ordered = [1_000 * gap for gap in sorted(gaps)]
    median = statistics.median(ordered)
    print(
        f"{load}: {len(gaps)} transfers, gap in writes median {median:.0f} ms, "
        f"min {ordered[0]:.0f}, max {ordered[-1]:.0f}"
    )


if __name__ == "__main__":
    main()
