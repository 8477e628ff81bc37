"""The gap in a client's writes when the leader's process is killed, over Ray calls.

    python bench/failover.py [--kills 10]

A client that is connected anywhere sets one znode again and again while the leader's process gets
SIGKILL; the gap is the longest time between two answers. Needs no running Ray: it starts one of
its own and stops it.
"""

import argparse
import itertools
import os
import signal
import statistics
import tempfile
import time

import ray

from raykeeper.clusters import Ensemble, launch


def leader_pid(ensemble: Ensemble) -> int:
    """The process of the present leader."""
    ensemble.wait_for_leader(timeout_s=20)
    pid = next(s.pid for s in ensemble.status().servers if s.role == "leader")
    assert pid is not None
    return pid


def gap_ms(ensemble: Ensemble) -> float:
    """Kill the leader under a client; the longest pause of its writes."""
    with ensemble.connect() as client:
        if client.exists("/gap") is None:
            client.create("/gap", b"0")
        before = client.get("/gap")[1].version
        answered, writes = [time.perf_counter()], 0
        os.kill(leader_pid(ensemble), signal.SIGKILL)
        until = time.perf_counter() + 5
        while time.perf_counter() < until:
            client.set("/gap", b"1")
            writes += 1
            answered.append(time.perf_counter())
        assert client.get("/gap")[1].version == before + writes, "a write was lost or done twice"
    return max(b - a for a, b in itertools.pairwise(answered)) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
        try:
            ensemble = launch(name="bench", servers=3, data_dir=folder)
            gaps = [gap_ms(ensemble) for _ in range(options.kills)]
            print(f"gaps in ms, sorted: {', '.join(f'{gap:.0f}' for gap in sorted(gaps))}")
            print(f"median {statistics.median(gaps):.0f} ms over {len(gaps)} kills of the leader")
            ensemble.shutdown()
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
