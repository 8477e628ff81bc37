"""A real ensemble of three replicas on local Ray: throughput and latency of its clients.

    python bench/ensemble.py [--clients 2] [--outstanding 1000] [--seconds 5]

Each client is a Ray task in a process of its own that keeps `outstanding` requests of 1 KB under
way; every log is forced to disk. Then one client alone, one request at a time. Needs no running
Ray: it starts one of its own and stops it.
"""

import argparse
import statistics
import tempfile
import time
from collections import deque

import ray

from raykeeper.clusters import Ensemble, launch

VALUE = bytes(1024)


@ray.remote(num_cpus=0)
def load(ensemble: Ensemble, number: int, kind: str, outstanding: int, seconds: float) -> float:
    """Requests per second that one client gets through."""
    with ensemble.connect() as client:
        path = f"/bench-{number}"
        if client.exists(path) is None:
            client.create(path, VALUE)
        if kind == "write":
            ask = lambda: client.set_async(path, VALUE)  # noqa: E731
        else:
            ask = lambda: client.get_async(path)  # noqa: E731
        under_way = deque(ask() for _ in range(outstanding))
        done = 0
        started = time.perf_counter()
        until = started + seconds
        while time.perf_counter() < until:
            # The oldest first, then all that are done with it: replies come in order, in batches.
            under_way.popleft().result()
            count = 1
            while under_way and under_way[0].done():
                under_way.popleft().result()
                count += 1
            done += count
            under_way.extend(ask() for _ in range(count))
        took = time.perf_counter() - started
        for future in under_way:
            future.result()
    return done / took


def throughput(ensemble: Ensemble, kind: str, options: argparse.Namespace) -> float:
    """Of all clients together."""
    loads = [
        load.remote(ensemble, i, kind, options.outstanding, options.seconds)
        for i in range(options.clients)
    ]
    return float(sum(ray.get(loads)))


def latencies(ensemble: Ensemble, count: int = 300) -> dict[str, list[float]]:
    """Milliseconds of one request at a time."""
    taken: dict[str, list[float]] = {"create": [], "set": [], "get": []}
    with ensemble.connect() as client:
        for i in range(count):
            for name, call in (
                ("create", lambda: client.create(f"/one-{i}", VALUE)),  # noqa: B023
                ("set", lambda: client.set(f"/one-{i}", VALUE)),  # noqa: B023
                ("get", lambda: client.get(f"/one-{i}")),  # noqa: B023
            ):
                started = time.perf_counter()
                call()
                taken[name].append((time.perf_counter() - started) * 1000)
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--outstanding", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
        try:
            ensemble = launch(name="bench", servers=3, data_dir=folder)
            # Once unmeasured: workers start, code is imported.
            throughput(ensemble, "write", argparse.Namespace(**{**vars(options), "seconds": 1}))
            for kind in ("write", "read"):
                rate = throughput(ensemble, kind, options)
                print(
                    f"{kind}s/s, 1 KB, {options.clients} clients x {options.outstanding}: "
                    f"{rate:>10,.0f}"
                )
            for name, taken in latencies(ensemble).items():
                cuts = statistics.quantiles(taken, n=100)
                print(f"{name}, one at a time: p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms")
            ensemble.shutdown()
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
