"""The keeper: an actor that moves servers whose nodes are lost to other nodes.

There is one per ensemble. Ray may run two of them for a while, when the node of one only seems to
be dead; so the keeper stands for election in the ensemble, and acts while it leads. It decides
nothing itself: it does the steps of `KeeperLoop`, in order.

Invariant: before each effect on Ray it checks by its own clock that nobody else can lead. A keeper
that stands still just then acts too late; clusters/healing/move_steps.py says why that does no
harm.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import ray
import ray.exceptions
from msgspec.structs import replace

from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.process_priority import raise_priority
from raykeeper.actors.ray_actors import start_actor
from raykeeper.actors.sidecars import first_line
from raykeeper.client import Client
from raykeeper.client import connect as connect_client
from raykeeper.client.errors import LostError, RayUnavailableError, WaitTimeoutError
from raykeeper.client.ray_lookups import ask_ray
from raykeeper.client.recipes.election import Leadership
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.healing.keeper_loop import BUSY_PAUSE_MS, KeeperLoop
from raykeeper.clusters.healing.move_steps import MoveError
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Entry,
    ForgetDrains,
    HealSettings,
    KeeperStep,
    Log,
    Observe,
    Pause,
    ReadClock,
    SaveLocations,
    ServerLocation,
    Survey,
    View,
    WriteDecision,
)
from raykeeper.clusters.keeper_journal import ELECTION, Journal
from raykeeper.clusters.keeper_metrics import KeeperMetrics
from raykeeper.clusters.keeper_status import KeeperStatus, describe
from raykeeper.clusters.member_journal import MemberJournal
from raykeeper.clusters.step_executor import StepExecutor
from raykeeper.links.ray_names import keeper_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis, ServerId

RETRY_S: Final = 2.0
SESSION_TIMEOUT_S: Final = 10.0
_CONNECT_S: Final = 30.0
_ELECTION_POLL_S: Final = 1.0
_CALLS: Final = 4

_log = logging.getLogger("raykeeper.keeper")


class Keeper:
    """The actor. Its thread does everything; its methods only read what it knows."""

    def __init__(self, config: EnsembleConfig, nodes: Mapping[ServerId, str]) -> None:
        """Begin to watch over the ensemble; `nodes` are those on which its servers were started.

        What a keeper has written into the tree counts more than `nodes`.
        """
        share_fate_with_raylet()
        raise_priority(config.niceness)
        self._config = config
        self._locations = {server: ServerLocation(node, node[:8]) for server, node in nodes.items()}
        self._status = KeeperStatus(leads=False, problem="it is starting")
        self._metrics = KeeperMetrics()
        if config.metrics:
            self._metrics.tell_ray(config.name, self.status)
        self._thread = threading.Thread(target=self._run, name="raykeeper-keeper", daemon=True)
        self._thread.start()

    def status(self) -> KeeperStatus:
        """Return what the keeper knows and does."""
        return self._status

    def pid(self) -> int:
        """Return the process that the actor runs in."""
        return os.getpid()

    def _set_status(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)

    def _run(self) -> None:
        while True:
            try:
                timeout_s = min(SESSION_TIMEOUT_S, self._config.session_timeout_max_s)
                with connect_client(self._config.name, timeout_s, _CONNECT_S) as client:
                    self._set_status(leads=False, problem="")
                    self._stand_for_election(client)
            except (RayKeeperError, ray.exceptions.RayError) as error:
                problem = first_line(error)
                _log.warning("keeper of %r: %s", self._config.name, problem)
                self._set_status(leads=False, problem=problem)
            time.sleep(RETRY_S)

    def _stand_for_election(self, client: Client) -> None:
        """Stand for election until the session ends, and lead when elected."""
        Journal(client).create_paths()
        identifier = f"{ray.get_runtime_context().get_node_id()} {os.getpid()}".encode()
        with client.leader_latch(ELECTION, identifier) as latch:
            while True:
                try:
                    leadership = latch.wait(_ELECTION_POLL_S)
                except WaitTimeoutError:
                    continue
                try:
                    self._lead(client, leadership)
                except LostError as error:
                    self._set_status(leads=False, problem=first_line(error))

    def _lead(self, client: Client, leadership: "Leadership[Any]") -> None:
        """Do the steps until the leadership is lost."""
        self._metrics.elected()
        leader = _Leader(
            *(self._config, client, leadership, self._locations, self._set_status, self._metrics)
        )
        steps, answer = leader.loop.steps(), None
        step = next(steps)
        while True:
            try:
                answer = leader.do(step)
            except MoveError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)


class _Leader:
    """Does the steps of one leadership."""

    def __init__(
        self,
        config: EnsembleConfig,
        client: Client,
        leadership: "Leadership[Any]",
        locations: Mapping[ServerId, ServerLocation],
        set_status: Callable[..., None],
        metrics: KeeperMetrics,
    ) -> None:
        """Go on from what stands in the tree; `locations` count where that says nothing."""
        self._config = config
        self._journal = Journal(client)
        self._members = MemberJournal(client)
        self._leadership = leadership
        self._executor = StepExecutor(config, leadership)
        self._set_status = set_status
        self._metrics = metrics
        self.loop = KeeperLoop(
            heal_settings(config),
            self._journal.read_entries(),
            {**locations, **self._journal.read_locations()},
            _now(),
        )

    def do(self, step: KeeperStep) -> Any:
        """Do a step; return its answer.

        Raises:
            LostError: another keeper may lead.
            KeeperError: it is unknown whether a decision stands in the tree.
            MoveError: an act is not possible.
        """
        match step:
            case Observe():
                return self._observe()
            case ReadClock():
                return _now()
            case Pause():
                time.sleep(step.ms / 1000)
            case SaveLocations():
                return self._journal.save_locations(self._leadership, step.locations)
            case AskNodes():
                return self._survey()
            case WriteDecision():
                return self._write_decision(step)
            case Log():
                _log.warning("ensemble %r: %s", self._config.name, step.line)
            case ForgetDrains():
                self._journal.forget_dead_drains(step.nodes)
                self._report(self.loop.healing.waiting)
            case _:
                return self._executor.act(step)
        return None

    def _observe(self) -> View:
        while True:
            self._leadership.lost.check()
            try:
                view = self._executor.observe(self._journal.read_drains())
                return replace(view, turn=self._members.read_holder())
            # What is unknown is no reason to resign.
            except (RayUnavailableError, ray.exceptions.RayError) as error:
                self._report(f"Ray does not answer: {first_line(error)}")
                time.sleep(BUSY_PAUSE_MS / 1000)

    def _survey(self) -> Survey:
        # The write proves that this keeper leads and has a majority.
        time_ms = self._journal.save_locations(self._leadership, self.loop.healing.locations)
        return self._executor.survey(time_ms)

    def _write_decision(self, step: WriteDecision) -> Entry:
        entry = self._journal.write_decision(self._leadership, step.decision)
        self._metrics.decided(entry.decision)
        _log.warning("ensemble %r: %s", self._config.name, describe(entry))
        return entry

    def _report(self, problem: str) -> None:
        loop = self.loop
        self._set_status(
            leads=True,
            problem=problem,
            entries=loop.healing.entries,
            stale_folders=loop.stale_folders,
        )


def heal_settings(config: EnsembleConfig) -> HealSettings:
    """Return the limits that the settings of an ensemble say."""
    return HealSettings(
        heal_after_ms=_millis(config.heal_after_s),
        pause_ms=_millis(config.heal_pause_s),
        moves_per_hour=config.heal_moves_per_hour,
        node_age_ms=_millis(config.heal_node_age_s),
        vote_wait_ms=_millis(config.heal_vote_wait_s),
        stale_after_s=config.stale_folder_days * 86_400,
    )


def start_keeper(config: EnsembleConfig, nodes: Mapping[ServerId, str]) -> Any:
    """Return the keeper of an ensemble, started if there is none; `nodes` are those of servers.

    Raises:
        RayUnavailableError: Ray does not answer in time.
    """
    name = keeper_name(config.name)
    start = partial(start_actor, Keeper, name, None, config, nodes, max_concurrency=_CALLS)
    return ask_ray("the start of the keeper", start)


def _millis(seconds: float) -> Millis:
    return Millis(round(seconds * 1000))


def _now() -> Millis:
    return Millis(time.monotonic_ns() // 1_000_000)
