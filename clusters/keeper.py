"""The keeper: an actor that moves servers whose nodes are lost to other nodes.

There is one per ensemble. Ray may run two of them for a while, when the node of one only seems to
be dead; so the keeper stands for election in the ensemble, and acts while it leads. It decides
nothing itself: it looks, asks `Healing`, and does what that says, in order.

Invariant: before each effect on Ray it checks by its own clock that nobody else can lead. A keeper
that stands still just then acts too late; what it does can be done twice (moves.py).
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import ray
import ray.exceptions
from msgspec.structs import replace

from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.ray_actors import start_actor
from raykeeper.actors.sidecars import first_line
from raykeeper.client import Client
from raykeeper.client import connect as connect_client
from raykeeper.client.errors import LostError, WaitTimeoutError
from raykeeper.client.recipes.election import Leadership
from raykeeper.clusters import moves
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.healing.healing import Healing
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Effect,
    HealSettings,
    Move,
    Note,
    SaveSeats,
    Seat,
    SetAside,
    Undo,
)
from raykeeper.clusters.healing.wording import describe
from raykeeper.clusters.keeper_journal import (
    ELECTION,
    Journal,
    create_paths,
    forget_dead_drains,
    read_drains,
    read_entries,
    read_seats,
)
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.links.ray_names import keeper_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis, ServerId

LOOK_S: Final = 2.0
BUSY_LOOK_S: Final = 0.5
"""The pause between looks while a server is lost or moves."""
RETRY_S: Final = 2.0
SESSION_TIMEOUT_S: Final = 10.0
STALE_LINES_KEPT: Final = 20
_CONNECT_S: Final = 30.0
_ELECTION_POLL_S: Final = 1.0
_CALLS: Final = 4

_log = logging.getLogger("raykeeper.keeper")


class Keeper:
    """The actor. Its thread does everything; its methods only tell."""

    def __init__(self, config: EnsembleConfig, nodes: Mapping[ServerId, str]) -> None:
        """Begin to watch over the ensemble; `nodes` are those on which its servers were started.

        What a keeper has written into the tree counts more than `nodes`.
        """
        share_fate_with_raylet()
        self._config = config
        self._seats = {server: Seat(node, node[:8]) for server, node in nodes.items()}
        self._status = KeeperStatus(leads=False, problem="it is starting")
        self._thread = threading.Thread(target=self._run, name="raykeeper-keeper", daemon=True)
        self._thread.start()

    def status(self) -> KeeperStatus:
        """Return what the keeper knows and does."""
        return self._status

    def pid(self) -> int:
        """Return the process that the actor runs in."""
        return os.getpid()

    def _tell(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)

    def _run(self) -> None:
        while True:
            try:
                timeout_s = min(SESSION_TIMEOUT_S, self._config.session_timeout_max_s)
                with connect_client(self._config.name, timeout_s, _CONNECT_S) as client:
                    self._tell(leads=False, problem="")
                    self._stand(client)
            except (RayKeeperError, ray.exceptions.RayError) as error:
                problem = first_line(error)
                _log.warning("keeper of %r: %s", self._config.name, problem)
                self._tell(leads=False, problem=problem)
            time.sleep(RETRY_S)

    def _stand(self, client: Client) -> None:
        """Stand for election until the session ends, and lead when elected."""
        create_paths(client)
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
                    self._tell(leads=False, problem=first_line(error))

    def _lead(self, client: Client, leadership: "Leadership[Any]") -> None:
        """Look and act until the leadership is lost."""
        seats = {**self._seats, **read_seats(client)}
        healing = Healing(heal_settings(self._config), read_entries(client), seats, _now())
        hands = _Hands(self._config, Journal(client, leadership), leadership, healing)
        while True:
            leadership.lost.check()
            try:
                sight = moves.look(self._config, read_drains(client))
            except ray.exceptions.RayError as error:  # what is unknown is no reason to resign
                self._tell(leads=True, problem=f"Ray does not answer: {first_line(error)}")
                time.sleep(BUSY_LOOK_S)
                continue
            hands.perform(healing.look(sight.view, _now()), sight.node_names)
            forget_dead_drains(client, sight.view.nodes)
            self._tell(
                leads=True,
                problem=healing.waiting,
                entries=healing.entries,
                stale_folders=hands.stale_folders,
            )
            time.sleep(BUSY_LOOK_S if healing.has_work else LOOK_S)


class _Hands:
    """Does the effects of one leadership, and returns the answers."""

    def __init__(
        self,
        config: EnsembleConfig,
        journal: Journal,
        leadership: "Leadership[Any]",
        healing: Healing,
    ) -> None:
        self._config = config
        self._journal = journal
        self._leadership = leadership
        self._healing = healing
        self.stale_folders: list[str] = []

    def perform(self, effects: list[Effect], names: dict[str, str]) -> None:
        """Do the effects, in order, and those that follow from their answers.

        Raises:
            LostError: another keeper may lead.
            KeeperError: it is unknown whether the last decision stands in the tree.
        """
        healing = self._healing
        for effect in effects:
            match effect:
                case SaveSeats():
                    self._journal.save_seats(effect.seats)
                case AskNodes():
                    # The write proves that this keeper leads and has a majority.
                    time_ms = self._journal.save_seats(healing.seats)
                    found = moves.survey(self._config, time_ms, names)
                    self.perform(healing.surveyed(found, _now()), names)
                case Note():
                    entry = self._journal.note(effect.decision)
                    _log.warning("ensemble %r: %s", self._config.name, describe(entry))
                    healing.noted(entry, _now())
                case Move() | Undo():
                    self._leadership.lost.check()
                    self.perform(healing.acted(self._act(effect)), names)
                case SetAside():
                    self._leadership.lost.check()
                    self._set_aside(effect, names)

    def _act(self, effect: Move | Undo) -> str:
        act = moves.move if isinstance(effect, Move) else moves.undo
        try:
            act(self._config, effect.decision)
        except (RayKeeperError, ray.exceptions.RayError) as error:
            return first_line(error)
        return ""

    def _set_aside(self, effect: SetAside, names: dict[str, str]) -> None:
        try:
            found = moves.set_folders_aside(self._config, names, effect.older_than_s)
        except (RayKeeperError, ray.exceptions.RayError) as error:
            found = [f"folders out of date were not looked for: {first_line(error)}"]
        for line in found:
            _log.warning("ensemble %r: %s", self._config.name, line)
        self.stale_folders = (self.stale_folders + found)[-STALE_LINES_KEPT:]


def heal_settings(config: EnsembleConfig) -> HealSettings:
    """Return the limits that the settings of an ensemble say."""
    return HealSettings(
        voters=config.voter_ids,
        heal_after_ms=_millis(config.heal_after_s),
        pause_ms=_millis(config.heal_pause_s),
        moves_per_hour=config.heal_moves_per_hour,
        node_age_ms=_millis(config.heal_node_age_s),
        vote_wait_ms=_millis(config.heal_vote_wait_s),
        stale_after_s=config.stale_folder_days * 86_400,
    )


def start_keeper(config: EnsembleConfig, nodes: Mapping[ServerId, str]) -> Any:
    """Return the keeper of an ensemble, started if there is none; `nodes` are those of servers."""
    name = keeper_name(config.name)
    return start_actor(Keeper, name, None, config, nodes, max_concurrency=_CALLS)


def _millis(seconds: float) -> Millis:
    return Millis(round(seconds * 1000))


def _now() -> Millis:
    return Millis(time.monotonic_ns() // 1_000_000)
