"""`raykeeper chaos`: start a private ensemble and a load, and inject faults for some minutes."""

import math
import shutil
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.fault_injector import FaultInjector
from raykeeper.chaos.fault_plan import Fault, FaultAction, Target, draw_faults
from raykeeper.chaos.load_client import LoadSettings
from raykeeper.chaos.round import Round
from raykeeper.chaos.run_folder import run_folder
from raykeeper.clusters.config import ConfigError
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.launch import launch
from raykeeper.clusters.local_ray import private_ray

CLIENTS: Final = 5
SESSION_TIMEOUTS_S: Final = (4.0, 4.0, 12.0)
ROUND_S: Final = 120.0
MINUTES_MAX: Final = 10_000.0
SNAPSHOT_EVERY_TXNS: Final = 1_000
_POLL_S = 0.1


class ChaosReport(Struct, frozen=True):
    """The result of a run."""

    history: HistoryReport
    faults: dict[str, int]
    """How often each kind of fault was injected."""
    records: Path | None
    """The folder that keeps records and data; None when nothing is wrong."""


class ChaosSettings(Struct, frozen=True):
    """The options that a user may choose."""

    minutes: float
    """How long faults are injected, besides the time for start, judgement and end."""
    seed: int


def check_settings(minutes: float, seed: int) -> ChaosSettings:
    """Return the settings if they are valid.

    Raises:
        ConfigError: one of them is not.
    """
    if not (math.isfinite(minutes) and 0 < minutes <= MINUTES_MAX):
        raise ConfigError(f"--minutes must be above 0 and at most {MINUTES_MAX:g}, not {minutes:g}")
    if seed < 0:
        raise ConfigError(f"--seed must not be negative, but it is {seed}")
    return ChaosSettings(minutes, seed)


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
                servers=3,
                data_dir=str(folder.path / "data"),
                snapshot_every_txns=SNAPSHOT_EVERY_TXNS,
            )
            try:
                run.run(ensemble)
            finally:
                ensemble.shutdown()
        if run.total.is_clean:
            folder.release()
    return ChaosReport(run.total, dict(run.faults), folder.path if folder.is_kept else None)


class _ChaosRun:
    """Runs rounds until the time is over or something is wrong."""

    def __init__(self, settings: ChaosSettings, folder: Path, console: Console) -> None:
        self.total = HistoryReport()
        self.faults: Counter[str] = Counter()
        self._settings = settings
        self._folder = folder
        self._plan = draw_faults(settings.seed)
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
        this = Round(ensemble, load)
        this.begin(CLIENTS)
        injector = FaultInjector(ensemble, this.clients)
        end = time.monotonic() + round_s
        try:
            while time.monotonic() < end:
                self._inject_when_due(next(self._plan), this, injector, end)
        finally:
            injector.thaw_all()
        self._done_s += round_s
        report = this.finish(lambda text: self._show_progress(this, text))
        self.total.include(report)
        if report.is_clean:
            shutil.rmtree(records)

    def _inject_when_due(
        self, fault: Fault, this: Round, injector: FaultInjector, end: float
    ) -> None:
        """Wait for the time of the fault, and inject it unless that time is after `end`."""
        due = time.monotonic() + fault.pause_ms / 1000
        while (moment := time.monotonic()) < min(due, end):
            self._show(this, end - moment)
            time.sleep(min(_POLL_S, due - moment))
        if moment >= end or not (processes := injector.inject(fault)):
            return
        self.faults[str(fault.kind)] += 1
        if fault.kind.action is FaultAction.FREEZE:
            injector.thaw_after(processes, fault.freeze_ms / 1000)
        elif fault.kind.target is Target.CLIENT:
            this.clients.replace(processes[0].pid)

    def _show(self, this: Round, left_s: float) -> None:
        self._progress.update(self._task, completed=self._done_s + self._round_s - left_s)
        self._show_progress(this, "")

    def _show_progress(self, this: Round, doing: str) -> None:
        answers = self.total.operations + this.clients.answer_count()
        text = f"{answers} operations, {self.faults.total()} faults"
        self._progress.update(self._task, description=f"{text}; {doing}" if doing else text)
