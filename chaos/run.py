"""`raykeeper chaos`: start a private ensemble and a load, and inject faults for some minutes."""

import math
import shutil
import time
from itertools import count
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from raykeeper.chaos.checks.faults import FaultRecord, RoundFaults
from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.fault_injector import FaultInjector
from raykeeper.chaos.fault_plan import (
    ALL_KINDS,
    Fault,
    FaultAction,
    Kind,
    OrderlyKind,
    Target,
    are_orderly,
    choose_kinds,
    draw_faults,
)
from raykeeper.chaos.load_client import LoadSettings
from raykeeper.chaos.operator_process import SNAPSHOTS
from raykeeper.chaos.orderly_faults import OrderlyFaults
from raykeeper.chaos.round import Round
from raykeeper.chaos.run_folder import run_folder
from raykeeper.clusters.config import ConfigError
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.launch import launch
from raykeeper.clusters.local_ray import private_ray
from raykeeper.zab.feature_levels import LEVEL_MIN

SERVERS: Final = 3
CLIENTS: Final = 5
SESSION_TIMEOUTS_S: Final = (4.0, 4.0, 12.0)
ROUND_S: Final = 120.0
MINUTES_MAX: Final = 10_000.0
_POLL_S = 0.1


class ChaosReport(Struct, frozen=True):
    """The result of a run."""

    history: HistoryReport
    records: Path | None
    """The folder that keeps records and data; None when nothing is wrong."""


class ChaosSettings(Struct, frozen=True):
    """The options that a user may choose."""

    minutes: float
    """How long faults are injected, besides the time for start, judgement and end."""
    seed: int
    kinds: tuple[Kind, ...] = ALL_KINDS


def check_settings(minutes: float, seed: int, faults: str = "all") -> ChaosSettings:
    """Return the settings if they are valid; `faults` names kinds of faults and groups of them.

    Raises:
        ConfigError: one of them is not.
    """
    if not (math.isfinite(minutes) and 0 < minutes <= MINUTES_MAX):
        raise ConfigError(f"--minutes must be above 0 and at most {MINUTES_MAX:g}, not {minutes:g}")
    if seed < 0:
        raise ConfigError(f"--seed must not be negative, but it is {seed}")
    return ChaosSettings(minutes, seed, choose_kinds(faults))


def run_chaos(settings: ChaosSettings, console: Console) -> ChaosReport:
    """Run, and show the progress on `console`. Records are kept when something is wrong.

    Raises:
        ChaosError: the load or the ensemble failed in a way that no fault explains.
        NoLeaderError: the ensemble does not start.
    """
    console.file = console.file  # pin standard output, which `private_ray` redirects
    with run_folder("raykeeper-chaos-", console) as folder:
        run = _ChaosRun(settings, folder.path, console)
        with private_ray():
            ensemble = launch(
                name="chaos",
                servers=SERVERS,
                data_dir=str(folder.path / "data"),
                snapshot_every_txns=SNAPSHOTS[0],
                feature_level_max=LEVEL_MIN if OrderlyKind.UPGRADE in settings.kinds else "auto",
            )
            try:
                run.run(ensemble)
            finally:
                ensemble.shutdown()
        if run.total.is_clean:
            folder.release()
    return ChaosReport(run.total, folder.path if folder.is_kept else None)


class _ChaosRun:
    """Runs rounds until the time is over or something is wrong."""

    def __init__(self, settings: ChaosSettings, folder: Path, console: Console) -> None:
        self.total = HistoryReport()
        self._settings = settings
        self._folder = folder
        self._plan = draw_faults(settings.seed, settings.kinds)
        self._fault_count = 0
        self._seconds = settings.minutes * 60
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=self._seconds)
        self._done_s = self._round_s = 0.0

    def run(self, ensemble: Ensemble) -> None:
        with self._progress:
            for number in count(1):
                left_s = self._seconds - self._done_s
                # A short remainder does not get a round of its own.
                round_s = left_s if left_s < 1.5 * ROUND_S else ROUND_S
                self._run_round(ensemble, number, round_s)
                if not self.total.is_clean or self._done_s >= self._seconds:
                    return

    def _run_round(self, ensemble: Ensemble, number: int, round_s: float) -> None:
        records = self._folder / f"round-{number}"
        records.mkdir()
        self._round_s = round_s
        load = LoadSettings(
            ensemble.name,
            f"/round-{number}",
            str(records),
            self._settings.seed * 1_000 + number,
            SESSION_TIMEOUTS_S,
        )
        this = _RoundOfFaults(Round(ensemble, load), ensemble)
        this.round.begin(CLIENTS)
        end = time.monotonic() + round_s
        try:
            while time.monotonic() < end:
                self._inject_when_due(next(self._plan), this, end)
        finally:
            this.injector.thaw_all()
        self._done_s += round_s
        while under_way := this.orderly.under_way():
            self._show_progress(this, f"waiting for {', '.join(under_way)}")
            time.sleep(_POLL_S)
        this.records += this.orderly.finish(SERVERS)
        faults = RoundFaults(are_orderly(self._settings.kinds), tuple(this.records))
        report = this.round.finish(lambda text: self._show_progress(this, text), faults)
        self.total.include(report)
        if report.is_clean:
            shutil.rmtree(records)

    def _inject_when_due(self, fault: Fault, this: "_RoundOfFaults", end: float) -> None:
        """Wait for the time of the fault, and inject it unless that time is after `end`."""
        due = time.monotonic() + fault.pause_ms / 1000
        while (moment := time.monotonic()) < min(due, end):
            self._show(this, end - moment)
            time.sleep(min(_POLL_S, due - moment))
        if moment < end and this.inject(fault):
            self._fault_count += 1

    def _show(self, this: "_RoundOfFaults", left_s: float) -> None:
        self._progress.update(self._task, completed=self._done_s + self._round_s - left_s)
        self._show_progress(this, "")

    def _show_progress(self, this: "_RoundOfFaults", doing: str) -> None:
        answers = self.total.operations + this.round.clients.answer_count()
        text = f"{answers} operations, {self._fault_count} faults"
        self._progress.update(self._task, description=f"{text}; {doing}" if doing else text)


class _RoundOfFaults:
    """A round, and those who inject its faults."""

    def __init__(self, this: Round, ensemble: Ensemble) -> None:
        self.round = this
        self.orderly = OrderlyFaults(ensemble)
        self.injector = FaultInjector(ensemble, this.clients, self.orderly.operator_pids)
        self.records: list[FaultRecord] = []

    def inject(self, fault: Fault) -> bool:
        """Inject a fault, or begin it; return False if it has no target at the moment."""
        if isinstance(fault.kind, OrderlyKind):
            return self.orderly.begin(fault)
        began = time.monotonic_ns()
        if not (processes := self.injector.inject(fault)):
            return False
        if fault.kind.action is FaultAction.FREEZE:
            self.injector.thaw_after(processes, fault.freeze_ms / 1000)
        elif fault.kind.target is Target.CLIENT:
            self.round.clients.replace(processes[0].pid)
        ended = time.monotonic_ns() + fault.freeze_ms * 1_000_000
        self.records.append(FaultRecord(str(fault.kind), began, ended))
        return True
