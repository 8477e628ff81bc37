"""Throughput of the atomic broadcast alone (Figure 7).

The leader generates its transactions itself, so there are no clients, requests and replies. All
else is as usual: links, logs forced to disk, acknowledgements of a quorum, and every transaction is
applied. Only Raykeeper has an entry point for this; ZooKeeper has none.

Paper: section 5.1, Figure 7.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

import ray
from msgspec import Meta, Struct

from raykeeper.actors.ray_actors import find_replica
from raykeeper.bench.errors import BenchError
from raykeeper.bench.experiment_run import ExperimentRun, contenders, cpu_s, server_pids
from raykeeper.bench.experiments.contract import Count, Ensembles, Experiment, Seconds, ValueBytes
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import Row
from raykeeper.bench.systems.raykeeper import NAME, RaykeeperServers
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import SetDataTxn, Txn, encode_txn

PATH = "/broadcast"
_TOP_UP_S = 0.0005
_PATIENCE_S = 60.0


class BroadcastSizes(Struct, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (1, 3, 5, 7)
    outstanding: Annotated[Count, Meta(description="transactions under way")] = 2_000
    seconds: Annotated[Seconds, Meta(description="each ensemble is measured, in one piece")] = 10.0
    rounds: Annotated[Count, Meta(description="pieces; the plot shows least and most")] = 3
    value_bytes: ValueBytes = 1024


async def propose(replica: Any, txn: bytes, outstanding: int, seconds: float) -> tuple[int, float]:
    """Keep transactions outstanding, on the leader's event loop; return how many were committed.

    `replica` is the leading actor. No client may write meanwhile. Also returns the seconds.
    """
    runner = replica._runner
    peer = runner.server.peer
    history = peer.history
    first, began = history.delivered, time.monotonic()
    while (now := time.monotonic()) < began + seconds and peer.broadcasting:
        room = outstanding - (history.logged - history.delivered)
        if room > 0:
            peer.propose([txn] * room, Millis(int(now * 1000)))
            runner._schedule()
        await asyncio.sleep(_TOP_UP_S)
    return history.delivered - first, time.monotonic() - began


def begin(replica: Any, txn: bytes, outstanding: int, seconds: float) -> None:
    """Start `propose` in the leader's process, where Ray calls this function on its own thread."""
    work = propose(replica, txn, outstanding, seconds)
    replica.broadcast = asyncio.run_coroutine_threadsafe(work, replica._loop)


def outcome(replica: Any) -> tuple[int, float] | None:
    """Return transactions and seconds, in the leader's process; None while it still proposes."""
    work: Future[tuple[int, float]] = replica.broadcast
    return work.result() if work.done() else None


def made_up_txn(value_bytes: int, zxid: Zxid) -> bytes:
    """Return the bytes of a transaction of no session that replaces the value of `PATH`."""
    wall = Millis(time.time_ns() // 1_000_000)
    stat = Stat(zxid, zxid, wall, wall, 1, 0, 0, 0, value_bytes, 0, zxid)
    return encode_txn(Txn(SessionId(0), 0, 0, wall, SetDataTxn(PATH, bytes(value_bytes), stat)))


def run_broadcast(run: ExperimentRun, sizes: BroadcastSizes) -> Iterator[Row]:
    """Measure transactions per second."""
    run.leave_out_others("it cannot broadcast without clients")
    run.expect(len(sizes.servers) * sizes.rounds)
    for system, servers in run.ensembles(sizes.servers):
        assert isinstance(servers, RaykeeperServers)
        (contender,) = contenders(system, servers)
        with servers.ensemble.connect() as client:
            client.create(PATH, b"")
            created = client.get(PATH)[1].czxid
        txn = made_up_txn(sizes.value_bytes, created)
        pids = server_pids(servers)
        for index in range(sizes.rounds):
            run.step(f"{servers.shape.servers} servers, {index + 1} of {sizes.rounds}")
            before = cpu_s(pids)
            committed, seconds = broadcast(
                servers.leader(), txn, sizes.outstanding, sizes.seconds / sizes.rounds
            )
            yield run.done(
                {
                    **contender.columns,
                    "round": index + 1,
                    "txns_per_s": committed / seconds,
                    "server_cores": (cpu_s(pids) - before) / seconds,
                }
            )


def broadcast(leader: int, txn: bytes, outstanding: int, seconds: float) -> tuple[int, float]:
    """Let the leader broadcast; return the committed transactions and the seconds.

    Raises:
        BenchError: the leader does not finish.
    """
    replica = find_replica(NAME, ServerId(leader))
    ray.get(replica.__ray_call__.remote(begin, txn, outstanding, seconds))
    deadline = time.monotonic() + seconds + _PATIENCE_S
    while time.monotonic() < deadline:
        found: tuple[int, float] | None = ray.get(replica.__ray_call__.remote(outcome))
        if found is not None:
            return found
        time.sleep(min(1.0, seconds / 5))
    raise BenchError(f"the leader does not end its broadcast of {seconds:g} s")


def _plot(path: Path, rows: Sequence[Row]) -> None:
    every = curves(rows, "servers", "txns_per_s", ("system",))
    lines = {}
    for label, points in every.items():
        for name, choose in (("most", max), ("mean", _mean), ("least", min)):
            lines[f"{label}, {name}"] = [
                (x, choose([y for each, y in points if each == x])) for x in sorted(dict(points))
            ]
    plot_curves(path, "Atomic broadcast alone", lines, ("servers", "transactions/s"))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


FIGURE7 = Experiment(
    name="figure7",
    title="Throughput of the atomic broadcast alone (Figure 7)",
    sizes=BroadcastSizes,
    quick=BroadcastSizes(servers=(3,), outstanding=100, seconds=0.6, rounds=2),
    run=run_broadcast,
    plot=_plot,
    by=("servers", "round"),
    values=("txns_per_s",),
)
