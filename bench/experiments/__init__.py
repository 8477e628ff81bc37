"""The experiments, in the order of the paper, then those beyond it."""

from raykeeper.bench.experiments.barriers import TABLE3
from raykeeper.bench.experiments.broadcast import FIGURE7
from raykeeper.bench.experiments.bytes_per_write import BYTES
from raykeeper.bench.experiments.contract import AnyExperiment
from raykeeper.bench.experiments.creations import TABLE2, ZNODES
from raykeeper.bench.experiments.crowds import CROWDS
from raykeeper.bench.experiments.failures import FAILOVER, FIGURE8
from raykeeper.bench.experiments.growth import GROWTH
from raykeeper.bench.experiments.hostile import HOSTILE
from raykeeper.bench.experiments.idle_sessions import IDLE
from raykeeper.bench.experiments.latency import LATENCY
from raykeeper.bench.experiments.million import MILLION
from raykeeper.bench.experiments.returns import RETURNS
from raykeeper.bench.experiments.throughput import FIGURE5, FIGURE6

EXPERIMENTS: tuple[AnyExperiment, ...] = (
    *(FIGURE5, FIGURE6, FIGURE7, FIGURE8),
    *(
        TABLE2,
        TABLE3,
        ZNODES,
        LATENCY,
        BYTES,
        MILLION,
        FAILOVER,
        GROWTH,
        RETURNS,
        CROWDS,
        IDLE,
        HOSTILE,
    ),
)

__all__ = ["EXPERIMENTS"]
