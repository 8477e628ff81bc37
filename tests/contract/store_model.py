"""The naive model of a store: the content of its disk after whole effects."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import (
    Append,
    DiskEffect,
    InstallSnapshot,
    LogRun,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.ids import ZERO, Epoch, Zxid, epoch_of, make_zxid, next_zxid
from tests.harness.log_entries import Entry, entries_of


class WriteSnapshot(NamedTuple):
    """The Snapshotter's part, and the server's PublishSnapshot after it."""

    zxid: Zxid
    consistent_at: Zxid
    chunks: list[bytes]


Step = DiskEffect | WriteSnapshot
EPOCH_1 = SaveEpochs(Epoch(1), Epoch(1))


class View(NamedTuple):
    """The state that a server would start from, in a form that compares."""

    accepted: int
    current: int
    snapshot_zxid: int
    consistent_at: int
    chunks: tuple[bytes, ...]
    log: tuple[Entry, ...]


def view_of(recovered: RecoveredState) -> View:
    """Return the view of a recovered state; check what every store promises about it."""
    log = entries_of(*recovered.runs)
    last = log[-1][0] if log else recovered.snapshot_zxid
    assert recovered.current <= recovered.accepted
    assert epoch_of(Zxid(last)) <= recovered.accepted
    assert recovered.consistent_at <= last
    assert recovered.consistent_at <= recovered.committed <= last
    return View(
        recovered.accepted,
        recovered.current,
        recovered.snapshot_zxid,
        recovered.consistent_at,
        tuple(recovered.chunks),
        tuple(log),
    )


class StoreModel:
    """A store in plain lists."""

    def __init__(self) -> None:
        self.accepted = self.current = 0
        self.log: list[Entry] = []
        self.snapshot = WriteSnapshot(ZERO, ZERO, [])
        self.received: list[bytes] = []

    @property
    def last(self) -> Zxid:
        """The end of the log."""
        return Zxid(self.log[-1][0]) if self.log else self.snapshot.zxid

    def view(self) -> View:
        """Return the state that a server would start from now."""
        zxid, consistent_at, chunks = self.snapshot
        log = tuple(each for each in self.log if each[0] > zxid)
        return View(self.accepted, self.current, zxid, consistent_at, tuple(chunks), log)

    def do(self, step: Step) -> list[View]:
        """Carry out a step; returns the views a crash inside of it may leave besides before and
        after."""
        between = []
        match step:
            case Append():
                for each in entries_of(step):
                    self.log.append(each)
                    between.append(self.view())
            case Truncate():
                kept = [each for each in self.log if each[0] <= step.upto]
                for end in range(len(self.log) - 1, len(kept), -1):
                    del self.log[end:]
                    between.append(self.view())
                self.log = kept
            case SaveEpochs():
                self.accepted, self.current = step.accepted, step.current
            case ReceiveSnapshot():
                self.received = []
            case ReceiveChunk():
                self.received.append(step.data)
            case InstallSnapshot():
                self.snapshot = WriteSnapshot(step.zxid, step.consistent_at, self.received)
                self.log = entries_of(*step.tail)
            case WriteSnapshot():
                self.snapshot = step
        return between


def random_steps(rng: random.Random, count: int) -> Iterator[list[Step]]:
    """`count` groups of steps that a server may ask of its store, after `EPOCH_1`."""
    model = StoreModel()
    model.do(EPOCH_1)
    for _ in range(count):
        group = _random_group(model, rng)
        for step in group:
            model.do(step)
        yield group


def _random_group(model: StoreModel, rng: random.Random) -> list[Step]:
    if rng.random() < 0.1:
        accepted = Epoch(model.accepted + 1)
        saved: list[Step] = [SaveEpochs(accepted, Epoch(model.current))]
        return [*saved, SaveEpochs(accepted, accepted)]
    choice = rng.random()
    if choice < 0.6 or not model.log:
        runs = _random_runs(model.last, Epoch(model.current), rng, rng.randint(1, 4))
        return [Append(run.first, run.txns, model.snapshot.consistent_at) for run in runs]
    positions = [z for z, _ in model.log if z >= model.snapshot.consistent_at]
    if choice < 0.75 and positions:
        return [Truncate(Zxid(rng.choice(positions)))]
    zxid, consistent_at = sorted(rng.choices([z for z, _ in model.log], k=2))
    chunks = [rng.randbytes(rng.randint(1, 700)) for _ in range(rng.randint(0, 3))]
    if choice < 0.9 and zxid >= model.snapshot.zxid:
        return [WriteSnapshot(Zxid(zxid), Zxid(consistent_at), chunks)]
    zxid = make_zxid(Epoch(model.current), rng.randint(1000, 2000))
    zxid = max(zxid, next_zxid(model.last))
    tail = _random_runs(zxid, Epoch(model.current), rng, rng.randint(0, 2))
    ends = [zxid, *(run.first + len(run.txns) - 1 for run in tail)]
    received = [ReceiveSnapshot(zxid), *map(ReceiveChunk, chunks)]
    return [*received, InstallSnapshot(zxid, Zxid(rng.choice(ends)), tail)]


def _random_runs(last: Zxid, epoch: Epoch, rng: random.Random, count: int) -> list[LogRun]:
    runs = []
    for _ in range(count):
        first = next_zxid(last) if epoch_of(last) == epoch else make_zxid(epoch, 1)
        txns = [rng.randbytes(rng.randint(0, 200)) for _ in range(rng.randint(1, 5))]
        runs.append(LogRun(first, txns))
        last = Zxid(first + len(txns) - 1)
    return runs
