"""Bring changed settings about in a running ensemble: one server after the other is replaced.

Ray starts the process of an actor again with the settings that the actor was made with. So a server
is stopped, its actor ends for good, and another one is made where its disk is, as by a launch. A
server is left as long as it describes other settings; so after a crash of the caller, at any point,
the same call goes on, and starts the server that is missing. A mixed ensemble works meanwhile
(mixed_settings.py).

The keeper is stopped before the first server, because it would start a missing one with the old
settings. It is started again in the end, with the new ones, or after an error with those of most
servers.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import ray
import ray.exceptions
from msgspec.structs import replace

from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.client.ray_lookups import find_actor
from raykeeper.clusters.config import EnsembleConfig, make_config, resolve_requested
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.launch import complete, start_missing_keeper, start_stopped
from raykeeper.clusters.local_ray import join_or_start_ray
from raykeeper.clusters.rolling_restart import RollingRestart, RollingRestartError, View
from raykeeper.clusters.rolling_turn import rolling_turn
from raykeeper.clusters.running_servers import described_by, find_running
from raykeeper.clusters.running_settings import (
    adopt_settings,
    check_rolling,
    differences_of,
    servers_that_differ,
)
from raykeeper.clusters.server_draining import (
    CLIENTS_PER_S,
    PATIENCE_S,
    DrainPace,
    drain_before_stop,
)
from raykeeper.links.ray_names import keeper_name, replica_name, snapshotter_name, tracker_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

_GO_ON: Final = "go on with the same call"
_NUMBERS: Final = ("servers", "observers")
_STOP_S: Final = 10.0
_POLL_S: Final = 0.05
_log = logging.getLogger("raykeeper.clusters")


def apply_settings(
    config: str | Path | EnsembleConfig | None = None,
    *,
    timeout_s: float = 60.0,
    wait_s: float = 120.0,
    clients_per_s: int = CLIENTS_PER_S,
    patience_s: float = PATIENCE_S,
    tell: Callable[[str], object] = lambda _: None,
    **settings: Any,
) -> Ensemble:
    """Launch an ensemble, or change the settings of one that runs while it works.

    Servers with other settings are replaced one after the other, followers first, the leader last
    and after a transfer. The clients of each are moved before; none sees an error. Another number
    of servers or observers is brought about before, by `change_members`; if that is interrupted,
    `resume_change` goes on. Later, some servers have the old settings; the same call goes on.

    Args:
        config: As for `launch`; settings that the caller does not state stay as they are.
        timeout_s: How long starting what is missing may take, before anything is changed.
        wait_s: How long to wait for one server, or for a majority.
        clients_per_s: How many clients are moved in a second, at most.
        patience_s: How long to wait for a client of ZooKeeper that always waits for something.
        tell: Called with each step, as a line.
        settings: As for `launch`.

    Raises:
        ConfigError: a setting is wrong, or servers with the old and the new one do not work
            together. Nothing was changed.
        SettingsDifferError: a ConfigError: settings that cannot be changed so; tells how they can.
        RollingRestartError: a server does not come back, a majority would be in danger, there are
            too few voters, another process restarts servers, or a change of the members has not
            ended. Those that it does not name run with the settings that they had.
        LeadershipTransferError: the leader cannot hand over.
        ServerDrainError: `clients_per_s` or `patience_s` is out of range. Nothing was changed.
        MemberChangeError: another number of servers cannot be brought about; tells how to go on.
        PlacementError: the nodes do not suffice.
        StorageError: a folder cannot be used; the server of it is down.
        NoLeaderError: no leader within `timeout_s`.
    """
    pace = DrainPace(clients_per_s, patience_s)
    given = {key: value for key, value in settings.items() if value is not None}
    resolved, stated = resolve_requested(config, given)
    join_or_start_ray()
    deadline = time.monotonic() + timeout_s
    described = _described(resolved.name)
    differences = differences_of(resolved, stated, described)
    for difference in differences:
        tell(str(difference))
    numbers = {each.setting: each.asked_for for each in differences if each.setting in _NUMBERS}
    ensemble, running = complete(resolved, stated - numbers.keys(), check_rolling, deadline)
    if numbers:
        voters, observers = map(numbers.get, _NUMBERS)
        ensemble.change_members(voters, observers, tell=tell)
    running = replace(running, **numbers)
    roll_settings(ensemble, running, wait_s, pace, tell)
    start_missing_keeper(running)
    return ensemble


def roll_settings(
    ensemble: Ensemble,
    config: EnsembleConfig,
    wait_s: float,
    pace: DrainPace,
    tell: Callable[[str], object],
) -> list[ServerId]:
    """Replace each server that runs with other settings; return them in order.

    Args:
        ensemble: The ensemble, of which all servers were started.
        config: The settings for all servers.
        wait_s: How long to wait for one server, or for a majority.
        pace: How fast the clients of a server are moved before it stops.
        tell: Called with each step, as a line.

    Raises:
        RollingRestartError: a server does not come back, a majority would be in danger, there are
            too few voters, another process is at it, or a change of the members has not ended.
            The servers that it does not name as restarted run with the settings that they had.
        LeadershipTransferError: the leader cannot hand over.
    """
    if not servers_that_differ(config, _described(config.name)):
        return []
    warn_once = cache(_log.warning)  # each server is placed by itself, beside the same others
    with rolling_turn(ensemble, wait_s) as check_turn, _without_keeper(config.name):

        def look() -> View:
            check_turn()
            voters, answers = ensemble.ask_all()
            running = find_running(config.name)
            silent = [server for server in answers if running.get(server) is None]
            differing = servers_that_differ(config, filter(None, running.values()))
            return View(voters, answers, sorted({*silent, *differing}))

        def replace_server(server: ServerId) -> None:
            drain_before_stop(ensemble, server, pace, wait_s, tell)
            check_turn()
            stop_for_good(config.name, server)
            start_stopped(config, warn_once)

        rolling = RollingRestart(look, replace_server, ensemble.transfer_leadership, tell)
        try:
            replaced = rolling.run(wait_s, _GO_ON)
        except KeyboardInterrupt:
            tell(f"interrupted; {_GO_ON}")
            raise
        # Counterexample for no look: a launch of another process, which states no settings, finds
        # no actor of a server that was just stopped, and starts it with those of the others.
        if other := servers_that_differ(config, _described(config.name)):
            raise RollingRestartError(
                f"another launch has started server {', '.join(map(str, other))} meanwhile, with "
                f"other settings; {_GO_ON}"
            )
        return replaced


@contextmanager
def _without_keeper(name: str) -> Iterator[None]:
    """Have no keeper meanwhile; after an error one with the settings of most servers goes on."""
    end_actors([keeper_name(name)])
    try:
        yield
    except BaseException:
        with suppress(RayKeeperError, ray.exceptions.RayError):
            described = _described(name)
            start_missing_keeper(adopt_settings(make_config({"name": name}), (), described)[0])
        raise
    end_actors([keeper_name(name)])  # another launch may have started one with the old settings


def stop_for_good(name: str, server: ServerId) -> None:
    """End the actors of a server, which keeps its disk; return when their names are free.

    Raises:
        RollingRestartError: an actor does not end.
    """
    replica = replica_name(name, server)
    if (handle := find_actor(replica)) is not None:
        ray.wait([handle.stop.remote()], timeout=_STOP_S)
    end_actors([replica, tracker_name(name, server), snapshotter_name(name, server)])


def end_actors(names: list[str]) -> None:
    """End the actors of these names, as far as there are any, and wait until they are gone.

    Raises:
        RollingRestartError: an actor does not end.
    """
    for name in names:
        if (handle := find_actor(name)) is not None:
            ray.kill(handle, no_restart=True)
    deadline = time.monotonic() + _STOP_S
    while left := [name for name in names if find_actor(name) is not None]:
        if time.monotonic() > deadline:
            raise RollingRestartError(f"the actor {', '.join(left)} does not end")
        time.sleep(_POLL_S)


def _described(name: str) -> list[ReplicaDescription]:
    return described_by(find_running(name))
