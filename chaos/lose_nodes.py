"""`raykeeper chaos --lose-nodes`: nodes are lost for good, one after the other, and come back.

Five Ray nodes on this machine and three servers, with a tree of a given size and a load. The nodes
of two servers are lost, the second when the first server has its vote back on another node. The
keeper of the ensemble moves a server; if `heal_after_s` is 0 there is none, and this run launches
again in its place. Then the nodes come back with their old disks, and nothing may happen.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from raykeeper.chaos.checks.goals import Row
from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.checks.node_losses import NodeLoss, NodeReturns, judge_losses
from raykeeper.chaos.client_pool import ChaosError, ClientPool
from raykeeper.chaos.load_client import LoadSettings
from raykeeper.chaos.local_nodes import LocalNodes, local_nodes
from raykeeper.chaos.round import Round
from raykeeper.chaos.run_folder import run_folder
from raykeeper.client import Client
from raykeeper.clusters.config import ConfigError, make_config
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.ensemble_status import EnsembleStatus
from raykeeper.clusters.launch import launch
from raykeeper.clusters.node_discovery import discover_nodes
from raykeeper.clusters.placement import place
from raykeeper.clusters.stale_folders import STALE_MARK
from raykeeper.zab.ids import ServerId

NODES: Final = 5
SERVERS: Final = 3
LOSSES: Final = 2
CLIENTS: Final = 4
TREE_MB_MAX: Final = 10_000
HEAL_AFTER_S_MAX: Final = 3_600.0
SESSION_TIMEOUTS_S: Final = (10.0,)
VALUE_BYTES: Final = 100_000
"""Of each znode that makes the tree as large as it is asked to be."""
CALM_S: Final = 3.0
"""How long the load runs before the first loss and after each vote that is back."""
WATCH_S: Final = 10.0
"""How long the ensemble is watched after the nodes came back."""
PATIENCE_S: Final = 90.0
"""How long a vote may be away before the run gives up, not counting `heal_after_s`."""
_DATA_DIR = "~/data"
_WINDOW = 16
_POLL_S = 0.05
_ANSWER_S = 1.0


class LossSettings(Struct, frozen=True):
    """The options that a user may choose."""

    tree_mb: int
    """The size of the tree: megabytes of values."""
    heal_after_s: float
    """As the setting of an ensemble."""
    seed: int
    """Decides which nodes are lost, in which order, and the load."""


class LossReport(Struct, frozen=True):
    """The result of a run."""

    rows: list[Row]
    history: HistoryReport
    lines: list[str]
    """What a launch and the keeper say of the folders that are out of date."""
    records: Path | None
    """The folder that keeps records and data; None when every goal was met."""

    @property
    def is_met(self) -> bool:
        """Return whether every goal was met."""
        return all(row.is_met for row in self.rows)


def check_loss_settings(tree_mb: int, heal_after_s: float, seed: int) -> LossSettings:
    """Return the settings if they are valid.

    Raises:
        ConfigError: one of them is not.
    """
    if not 0 <= tree_mb <= TREE_MB_MAX:
        raise ConfigError(f"--tree-mb must be from 0 to {TREE_MB_MAX}, not {tree_mb}")
    if not (math.isfinite(heal_after_s) and 0 <= heal_after_s <= HEAL_AFTER_S_MAX):
        raise ConfigError(
            f"--heal-after-s must be from 0 to {HEAL_AFTER_S_MAX:g}, not {heal_after_s:g}"
        )
    if seed < 0:
        raise ConfigError(f"--seed must not be negative, but it is {seed}")
    return LossSettings(tree_mb, heal_after_s, seed)


def draw_losses(homes: dict[ServerId, int], seed: int) -> list[ServerId]:
    """Return the servers whose nodes are lost, in order; `homes` has the node of each.

    Node 0 is never lost: it is the head of the Ray cluster.
    """
    return Random(seed).sample(sorted(s for s, node in homes.items() if node != 0), LOSSES)


def run_losses(settings: LossSettings, console: Console) -> LossReport:
    """Run, and show the progress on `console`. Records are kept when a goal was missed.

    Raises:
        ChaosError: the load or the cluster failed in a way that no loss explains.
        NoLeaderError: the ensemble does not start.
    """
    console.file = console.file  # pin standard output, which `local_nodes` redirects
    with run_folder("rk-", console) as folder:  # short: it is a part of the names of sockets
        with local_nodes(folder.path, NODES) as nodes:
            run = _LossRun(settings, nodes, folder.path, console)
            try:
                report = run.run()
            finally:
                run.ensemble.shutdown()
        if report.is_met:
            folder.release()
    return replace(report, records=folder.path if folder.is_kept else None)


class _LossRun:
    """Runs the load, the losses and the returns of one ensemble."""

    def __init__(
        self, settings: LossSettings, nodes: LocalNodes, folder: Path, console: Console
    ) -> None:
        self._settings = settings
        self._nodes = nodes
        self._console = console
        self._arguments: dict[str, Any] = {"servers": SERVERS, "data_dir": _DATA_DIR}
        if settings.heal_after_s:
            # The nodes and the moves are as new as the run.
            self._arguments |= {
                "heal_after_s": settings.heal_after_s,
                "heal_pause_s": 0,
                "heal_node_age_s": 0,
            }
        self.ensemble: Ensemble = launch(name="losses", **self._arguments)
        records = folder / "records"
        records.mkdir()
        load = LoadSettings("losses", "/load", str(records), settings.seed, SESSION_TIMEOUTS_S)
        # The clients outlive every loss: a client that dies with its node shows no error.
        self._round = Round(self.ensemble, load, ClientPool(load, [nodes.ray_ids()[0]]))

    def run(self) -> LossReport:
        """Return the figures; the run ends early if a vote does not come back."""
        self._tell(f"filling the tree with {self._settings.tree_mb} MB")
        with self.ensemble.connect() as client:
            fill_tree(client, self._settings.tree_mb)
        self._wait_for_votes(())
        self._round.begin(CLIENTS)
        time.sleep(CALM_S)
        losses: list[NodeLoss] = []
        lost_nodes: dict[ServerId, int] = {}
        returns: NodeReturns | None = None
        lines: list[str] = []
        for server in draw_losses(self._homes(), self._settings.seed):
            lost_nodes[server] = self._homes()[server]
            losses.append(self._lose(server, lost_nodes[server]))
            if losses[-1].voted_ns is None:
                break
            time.sleep(CALM_S)
        else:
            returns, lines = self._bring_back(lost_nodes)
        report = self._round.finish(self._tell)
        after_ms = round(self._settings.heal_after_s * 1000)
        rows = judge_losses(self._round.history(), report, losses, returns, after_ms)
        return LossReport(rows, report, lines, None)

    def _lose(self, server: ServerId, node: int) -> NodeLoss:
        status = self.ensemble.status()
        role = next(each.role for each in status.servers if each.server_id == server)
        gone = self._nodes.ray_ids()[node]
        self._tell(f"killing the node of server {server}, the {role}")
        lost_ns = self._nodes.lose(node)
        noticed_ns = time.monotonic_ns()
        self._tell(f"Ray calls it dead; waiting for the vote of server {server}")
        if not self._settings.heal_after_s:
            launch(name=self.ensemble.name)
        voted_ns = self._wait_for_votes((gone,))
        return NodeLoss(server, role, lost_ns, noticed_ns, voted_ns)

    def _wait_for_votes(self, gone: Sequence[str]) -> int | None:
        """Wait until all servers have a vote and none is on a node that is gone; return when."""
        deadline = time.monotonic() + self._settings.heal_after_s + PATIENCE_S
        while time.monotonic() < deadline:
            if have_votes(self.ensemble.status(timeout_s=_ANSWER_S), gone):
                return time.monotonic_ns()
            time.sleep(_POLL_S)
        return None

    def _bring_back(self, lost: dict[ServerId, int]) -> tuple[NodeReturns, list[str]]:
        """Start the lost nodes again with their disks, and watch what happens."""
        before = self.ensemble.status()
        self._tell("the lost nodes come back with their disks")
        since_ns = time.monotonic_ns()
        for node in lost.values():
            self._nodes.start(node)
        time.sleep(WATCH_S)
        changes = changes_between(before, self.ensemble.status())
        until_ns = time.monotonic_ns()
        stale = [str(self._nodes.home(n) / f"data/losses/{server}") for server, n in lost.items()]
        # The keeper may be setting a folder aside just now: it tells so a moment later.
        deadline = time.monotonic() + WATCH_S
        while True:
            lines = self._lines_of_a_launch() + self._lines_of_the_keeper()
            named = find_named(stale, lines)
            if len(named) == len(stale) or time.monotonic() > deadline:
                return NodeReturns(since_ns, until_ns, changes, stale, named), lines
            time.sleep(_POLL_S)

    def _lines_of_a_launch(self) -> list[str]:
        """Return what a launch says about the folders; all servers run, so it starts nothing.

        Raises:
            ChaosError: it would start a server.
        """
        config = make_config({"name": self.ensemble.name, **self._arguments})
        running = {each.server_id: each.node_id for each in self.ensemble.status().servers}
        plan = place(config, discover_nodes(config.data_dir, config.name), running)
        if plan.placements:
            raise ChaosError(f"all servers run, but a launch would start {plan.placements}")
        return plan.warnings

    def _lines_of_the_keeper(self) -> list[str]:
        keeper = self.ensemble.keeper()
        return [] if keeper is None else keeper.stale_folders

    def _homes(self) -> dict[ServerId, int]:
        numbers = {ray_id: number for number, ray_id in self._nodes.ray_ids().items()}
        servers = self.ensemble.status().servers
        return {each.server_id: numbers[each.node_id] for each in servers}

    def _tell(self, text: str) -> None:
        self._console.print(text)


def fill_tree(client: Client, megabytes: int) -> None:
    """Create znodes with values of so many megabytes below /ballast."""
    client.create("/ballast")
    value = b"b" * VALUE_BYTES
    waiting: list[Any] = []
    for number in range(megabytes * 1_000_000 // VALUE_BYTES):
        if len(waiting) == _WINDOW:
            waiting.pop(0).result()
        waiting.append(client.create_async(f"/ballast/{number}", value))
    for future in waiting:
        future.result()


def have_votes(status: EnsembleStatus, gone: Sequence[str]) -> bool:
    """Return whether all servers have their votes, and none is on a node that is gone."""
    return status.leader is not None and all(
        each.role in ("leader", "follower") and not each.problem and each.node_id not in gone
        for each in status.servers
    )


def find_named(stale: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return the folders that a line names: where they are, or as what they were set aside."""
    names = [word for line in lines for word in line.split()]
    return [
        folder
        for folder in stale
        if any(name == folder or name.startswith(f"{folder}{STALE_MARK}") for name in names)
    ]


def changes_between(before: EnsembleStatus, after: EnsembleStatus) -> list[str]:
    """Return what changed: another leader, a server that moved, restarted, or has a problem."""
    changes = []
    if after.leader != before.leader:
        changes.append(f"server {before.leader} led, now {after.leader or 'none'} does")
    then = {each.server_id: each for each in before.servers}
    for now in after.servers:
        was = then[now.server_id]
        if now.node_id != was.node_id:
            changes.append(f"server {now.server_id} moved")
        elif now.pid != was.pid:
            changes.append(f"server {now.server_id} restarted")
        if now.problem and now.problem != was.problem:
            changes.append(f"server {now.server_id}: {now.problem}")
    return changes
