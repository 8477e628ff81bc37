"""`raykeeper chaos --upgrade-from`: servers of an earlier program become those of this one.

Four Ray nodes on this machine: the clients are on the head, each server has a node of its own. A
node's workers import raykeeper through a link, so an installation is a change of that link, and an
upgrade is what docs/UPGRADING.md tells: install, end the process, let Ray start it again. The first
server goes back once, before the feature level is raised; after that the earlier program must be
refused. No client may see an error.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import ray
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

import raykeeper
from raykeeper.actors.disk.identity import read_identity
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.chaos.checks.faults import FaultRecord, RoundFaults
from raykeeper.chaos.checks.goals import Row
from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.client_pool import ChaosError, ClientPool
from raykeeper.chaos.load_client import LoadSettings
from raykeeper.chaos.local_nodes import LocalNodes, local_nodes
from raykeeper.chaos.round import Round
from raykeeper.chaos.run_folder import run_folder
from raykeeper.clusters.actor_calls import find_replicas
from raykeeper.clusters.config import ConfigError
from raykeeper.clusters.ensemble import Ensemble, attach
from raykeeper.clusters.ensemble_status import ServerStatus
from raykeeper.clusters.transfer_outcome import LeadershipTransferError
from raykeeper.zab.feature_levels import LEVEL_MAX, FeatureLevel
from raykeeper.zab.ids import ServerId

SERVERS: Final = (ServerId(1), ServerId(2), ServerId(3))
CLIENTS: Final = 4
SESSION_TIMEOUTS_S: Final = (4.0, 12.0)
SNAPSHOT_EVERY_TXNS: Final = 1_000
CALM_S: Final = 1.5
"""How long the load runs between two steps, beyond the aftermath of a step."""
PATIENCE_S: Final = 60.0
"""How long a server may take to come back, and the leader to raise the level."""
_NAME: Final = "upgrade"
_STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_LAUNCH: Final = """
from raykeeper.clusters import launch
launch(name={name!r}, servers={servers}, data_dir="~/data", placement={{"resource": "server"}},
       snapshot_every_txns={snapshots})
"""


class UpgradeSettings(Struct, frozen=True):
    """The options that a user may choose."""

    earlier: Path
    """The folder that has the package of the earlier program."""
    seed: int
    """Decides the load."""


class UpgradeReport(Struct, frozen=True):
    """The result of a run."""

    rows: list[Row]
    history: HistoryReport
    records: Path | None
    """The folder that keeps records and data; None when every goal was met."""

    @property
    def is_met(self) -> bool:
        """Return whether every goal was met, and no check found anything wrong."""
        return self.history.is_clean and all(row.is_met for row in self.rows)


def check_upgrade_settings(earlier: Path, seed: int) -> UpgradeSettings:
    """Return the settings if they are valid.

    Raises:
        ConfigError: one of them is not.
    """
    if not (earlier / "raykeeper" / "__init__.py").exists():
        raise ConfigError(
            f"--upgrade-from needs a folder with the package of an earlier version, such as "
            f"`pip install --target` makes; {earlier} has no raykeeper/__init__.py"
        )
    if seed < 0:
        raise ConfigError(f"--seed must not be negative, but it is {seed}")
    return UpgradeSettings(earlier.resolve(), seed)


def run_upgrade(settings: UpgradeSettings, console: Console) -> UpgradeReport:
    """Run, and show the progress on `console`. Records are kept when a goal was missed.

    Raises:
        ChaosError: the earlier program starts no ensemble, a server does not come back, or the
            load failed in a way that nothing explains.
    """
    console.file = console.file  # pin standard output, which `local_nodes` redirects
    with run_folder("rk-", console) as folder:  # short: it is a part of the names of sockets
        programs = InstalledPrograms(folder.path, settings.earlier)
        with local_nodes(folder.path, 1 + len(SERVERS), programs.node_arguments()) as nodes:
            run = _UpgradeRun(settings, programs, nodes, folder.path, console)
            try:
                report = run.run()
            finally:
                run.ensemble.shutdown()
        if report.is_met:
            folder.release()
    return replace(report, records=folder.path if folder.is_kept else None)


class InstalledPrograms:
    """What each node has installed: a link to a folder with the package, which workers import."""

    def __init__(self, folder: Path, earlier: Path) -> None:
        """Install the earlier program for each server, by a link in `folder`."""
        self.earlier = earlier
        self.present = Path(raykeeper.__file__).resolve().parents[1]
        self._folder = folder
        for server in SERVERS:
            self.install(server, earlier)

    def link(self, server: ServerId) -> Path:
        """Return the folder from which the workers of a server's node import."""
        return self._folder / f"program-{server}"

    def install(self, server: ServerId, program: Path) -> None:
        """Have processes that start from now on use `program`."""
        new = self._folder / "program"
        new.symlink_to(program)
        new.replace(self.link(server))

    def node_arguments(self) -> Mapping[int, Mapping[str, Any]]:
        """Return what Ray must know of the node of each server: its program, a mark to be found."""
        return {
            server: {
                "env_vars": {"PYTHONPATH": str(self.link(server))},
                "resources": {f"server_{server}": 1.0},
            }
            for server in SERVERS
        }

    def launch(self, address: str) -> None:
        """Have the earlier program launch the ensemble, which this one could not in its place.

        Raises:
            ChaosError: it does not; has its output.
        """
        code = _LAUNCH.format(name=_NAME, servers=len(SERVERS), snapshots=SNAPSHOT_EVERY_TXNS)
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            cwd=self._folder,  # Ray has the workers import from there, too
            env={**os.environ, "PYTHONPATH": str(self.earlier), "RAY_ADDRESS": address},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ChaosError(f"the earlier program launches no ensemble: {done.stderr[-2000:]}")


class _UpgradeRun:
    """Runs the load and the steps of the upgrade of one ensemble."""

    def __init__(
        self,
        settings: UpgradeSettings,
        programs: InstalledPrograms,
        nodes: LocalNodes,
        folder: Path,
        console: Console,
    ) -> None:
        self._programs = programs
        self._nodes = nodes
        self._console = console
        self._tell("the earlier program launches an ensemble")
        programs.launch(nodes.address)
        self.ensemble: Ensemble = attach(_NAME)
        records = folder / "records"
        records.mkdir()
        load = LoadSettings(_NAME, "/load", str(records), settings.seed, SESSION_TIMEOUTS_S)
        # The clients are those of this program: its workers are on the head alone.
        self._round = Round(self.ensemble, load, ClientPool(load, [nodes.ray_ids()[0]]))
        self._steps: list[FaultRecord] = []

    def run(self) -> UpgradeReport:
        self._round.begin(CLIENTS)
        before = max(self._level(server) for server in SERVERS)
        leader = self.ensemble.wait_for_leader()
        *followers, last = sorted(SERVERS, key=lambda server: (server == leader, server))
        first = followers[0]
        earlier, present = self._programs.earlier, self._programs.present
        self._replace(first, present, "upgrade follower")
        self._replace(first, earlier, "downgrade follower")
        for server in (*followers, last):
            role = self._status(server).role
            self._replace(server, present, f"upgrade {role}")
        rows = [Row("earlier program", str(earlier)), self._await_level(before)]
        if before < LEVEL_MAX:
            rows.append(self._refuse(first))
        self._let_the_load_run()
        faults = RoundFaults(is_orderly=True, records=tuple(self._steps))
        return UpgradeReport(rows, self._round.finish(self._tell, faults), None)

    def _replace(self, server: ServerId, program: Path, kind: str) -> None:
        """Install a program for a server and restart it; a leader hands over first if it can."""
        self._let_the_load_run()
        status = self._status(server)
        self._tell(f"{kind}: server {server}")
        began = time.monotonic_ns()
        if status.role == "leader":
            with suppress(LeadershipTransferError):  # an earlier program may know no transfer
                self.ensemble.transfer_leadership()
        self._restart(server, program)
        self._await_in_step(server, status.pid)
        ended = time.monotonic_ns()
        self._steps.append(FaultRecord(kind, began, ended))

    def _restart(self, server: ServerId, program: Path) -> None:
        """End a server as an orderly end does, with another program in place for its next start."""
        self._programs.install(server, program)
        handle = find_replicas(_NAME)[server]
        ray.wait([handle.stop.remote()], timeout=_STOP_TIMEOUT_S)
        ray.kill(handle, no_restart=False)

    def _await_in_step(self, server: ServerId, old_pid: int) -> None:
        """Wait until a server is back as a new process, from where it must import, and in step.

        Raises:
            ChaosError: it is not within `PATIENCE_S`, or imports from elsewhere.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            report = self.ensemble.status()
            status = next(each for each in report.servers if each.server_id == server)
            is_new = status.pid not in (0, old_pid) and not status.problem
            if is_new and report.leader is not None and status.role in ("leader", "follower"):
                break
            if time.monotonic() > deadline:
                raise ChaosError(f"server {server} is not back: {status.role} {status.problem}")
            time.sleep(_POLL_S)
        asked = find_replicas(_NAME)[server].__ray_call__.remote(
            lambda _: __import__("raykeeper").__file__
        )
        origin = Path(ray.get(asked, timeout=PATIENCE_S))
        if not origin.is_relative_to(self._programs.link(server)):
            raise ChaosError(f"server {server} imports {origin}, and not what its node has")

    def _await_level(self, before: FeatureLevel) -> Row:
        """Wait until all servers require the level of this program, if it is a newer one."""
        name, goal = "feature level", f"{LEVEL_MAX} after the last upgrade"
        deadline = time.monotonic() + PATIENCE_S
        while any(self._level(server) < LEVEL_MAX for server in SERVERS):
            if time.monotonic() > deadline:
                return Row(name, f"{before} after {PATIENCE_S:g} s", goal, is_met=False)
            time.sleep(_POLL_S)
        if before == LEVEL_MAX:
            return Row(name, f"{before} in both programs")
        return Row(name, f"{before} before, {LEVEL_MAX} after", goal)

    def _refuse(self, server: ServerId) -> Row:
        """Have the earlier program start on a folder that requires the level; bring it back."""
        self._let_the_load_run()
        self._tell(f"refused downgrade: server {server}")
        began, pid = time.monotonic_ns(), self._status(server).pid
        self._restart(server, self._programs.earlier)
        deadline = time.monotonic() + PATIENCE_S
        while (status := self._status(server)).pid in (0, pid) or not status.problem:
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        is_refused = status.role == "down" and "version" in status.problem
        self._steps.append(FaultRecord("refused downgrade", began, time.monotonic_ns()))
        self._replace(server, self._programs.present, "upgrade after refusal")
        told = status.problem.replace(f"{self._nodes.home(server)}/", "")
        return Row("earlier program after that", told or status.role, "refused", is_refused)

    def _level(self, server: ServerId) -> FeatureLevel:
        """Return the feature level that a server's folder requires."""
        folder = self._nodes.home(server) / "data" / _NAME / str(server)
        try:
            identity = read_identity(folder)
        except StorageError as error:
            raise ChaosError(f"the identity of server {server} cannot be read: {error}") from error
        assert identity is not None, folder
        return identity.level

    def _status(self, server: ServerId) -> ServerStatus:
        return next(s for s in self.ensemble.status().servers if s.server_id == server)

    def _let_the_load_run(self) -> None:
        time.sleep(CALM_S)

    def _tell(self, text: str) -> None:
        self._console.print(text)
