"""Have the keeper move the voting servers away from a Ray node, and wait until it has done so.

`server_draining.py` is something else: it moves the clients away from a server, which stays.
"""

import time
from collections.abc import Callable

from raykeeper.actors.replica_status import REMOVED
from raykeeper.client import Client
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.keeper_journal import Journal
from raykeeper.clusters.node_discovery import find_live_node
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

_POLL_S = 0.5


class DrainError(RayKeeperError):
    """Raised when a node cannot be drained, or was not drained in time. The text tells why."""


def drain_node(
    ensemble: Ensemble, node: str, timeout_s: float, tell: Callable[[str], object]
) -> list[ServerId]:
    """Have all voting servers moved away from a node; the node gets no other server meanwhile.

    Args:
        ensemble: The ensemble, which has a keeper.
        node: The beginning of the Ray id of a live node.
        timeout_s: How long to wait. The keeper goes on afterwards.
        tell: Called with each reason for which the keeper waits.

    Returns:
        The servers that have left the node.

    Raises:
        DrainError: there is no such node or no keeper; or a voting server is still there.
        KeeperError: the ensemble does not answer.
    """
    if ensemble.keeper() is None:
        raise DrainError(
            f"ensemble {ensemble.name!r} has no keeper, which moves servers: launch it with the "
            f"setting heal_after_s"
        )
    node = find_node(node)
    before = _voters_on(ensemble, node)
    with ensemble.connect() as client:
        Journal(client).drain(node)
        deadline = time.monotonic() + timeout_s
        _wait(ensemble, client, node, before, deadline, tell)
    return before


def end_drain(ensemble: Ensemble, node: str) -> bool:
    """Let servers stay on a node, and move to it; return whether it was drained.

    Raises:
        DrainError: there is no such node.
        KeeperError: the ensemble does not answer.
    """
    node = find_node(node)
    with ensemble.connect() as client:
        return Journal(client).end_drain(node)


def find_node(beginning: str) -> str:
    """Return the id of the only live node whose id begins so.

    Raises:
        DrainError: there is none, or there are several.
    """
    node, problem = find_live_node(beginning)
    if problem:
        raise DrainError(problem)
    return node


def _wait(
    ensemble: Ensemble,
    client: Client,
    node: str,
    leaving: list[ServerId],
    deadline: float,
    tell: Callable[[str], object],
) -> None:
    problem = ""
    while left := [*_voters_on(ensemble, node), *_without_vote(ensemble, leaving)]:
        keeper = ensemble.keeper()
        told = "there is no keeper any more" if keeper is None else keeper.problem
        if told and told != problem:
            problem = told
            tell(told)
        if node not in Journal(client).read_drains():
            raise DrainError(f"the drain of {node[:8]} was ended by another command")
        if time.monotonic() > deadline:
            servers = ", ".join(str(server) for server in sorted(set(left)))
            raise DrainError(
                f"server {servers} has not left {node[:8]}: {problem or 'it is moving'}; "
                f"the keeper goes on, unless you say `raykeeper drain {node[:8]} --cancel`"
            )
        time.sleep(_POLL_S)


def _voters_on(ensemble: Ensemble, node: str) -> list[ServerId]:
    """Return the servers on a node that are, or may be, voters; one that was removed is none."""
    return [
        each.server_id
        for each in ensemble.status().servers
        if each.node_id == node and each.role not in ("observer", REMOVED)
    ]


def _without_vote(ensemble: Ensemble, leaving: list[ServerId]) -> list[ServerId]:
    servers = ensemble.status().servers
    return [each.server_id for each in servers if each.server_id in leaving and each.problem]
