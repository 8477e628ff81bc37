"""Which server a backup reads, and up to which transaction: from what the servers answer.

A follower that serves clients is in step: its log has no end of an earlier epoch any more that was
not committed, so all that it has up to a transaction which it has applied is committed. The leader
is read only if there is no other server in step. A backup has every write that was acknowledged
before it began: it reaches beyond the newest transaction that any server had applied then.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaDescription, ReplicaStatus
from raykeeper.clusters.actor_calls import call_actors, find_replicas
from raykeeper.clusters.config import DEFAULTS, ConfigError, make_config
from raykeeper.zab.ids import Epoch, ServerId, Zxid, format_zxid

_POLL_S: Final = 0.1
DIGEST_PATIENCE_S: Final = 15.0
"""How long a server may need to know the digest of its tree, after a start."""


class ReadServer(Struct, frozen=True):
    """A server whose files are read."""

    server_id: ServerId
    folder: str
    node_id: str
    ensemble_uuid: str
    mb_per_s: float = DEFAULTS.backup_mb_per_s
    """The setting of the ensemble."""
    first_uuid: str = ""
    """As in a `ReplicaDescription`."""


class Position(Struct, frozen=True):
    """What a server has applied at one moment."""

    zxid: Zxid
    epoch: Epoch
    digest: int | None
    """Of its state; None while it does not know."""


def ask_servers(name: str) -> dict[ServerId, ReplicaStatus | str]:
    """Return the status of every server that runs; a text if it does not answer.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
    """
    handles = find_replicas(name)
    return dict(zip(handles, call_actors(handles.values(), "status"), strict=True))


def choose_server(
    name: str, answers: Mapping[ServerId, ReplicaStatus | str], avoided: Collection[ServerId] = ()
) -> ReadServer | None:
    """Return the best server that is not avoided and describes itself; None if there is none."""
    for server in in_order(answers, avoided):
        handle = find_replicas(name).get(server)
        if handle is None:
            continue
        (answer,) = call_actors([handle], "describe")
        if isinstance(answer, ReplicaDescription):
            return ReadServer(
                server,
                answer.folder,
                answer.node_id,
                answer.ensemble_uuid,
                rate_in(answer.settings),
                answer.first_uuid,
            )
    return None


def checked_rate(mb_per_s: float) -> float:
    """Return a rate of backups in megabytes per second, which is within the bounds of the setting.

    Raises:
        ConfigError: it is not.
    """
    return make_config({"backup_mb_per_s": mb_per_s}).backup_mb_per_s


def in_order(
    answers: Mapping[ServerId, ReplicaStatus | str], avoided: Collection[ServerId] = ()
) -> list[ServerId]:
    """Return the servers that can be read, the best first: observers, followers, the leader."""
    ranks = {"observer": 0, "follower": 1, "leader": 2}
    found = [
        (ranks[answer.role], -answer.last_zxid, server)
        for server, answer in answers.items()
        if isinstance(answer, ReplicaStatus)
        and answer.is_active
        and answer.role in ranks
        and server not in avoided
    ]
    return [server for *_, server in sorted(found)]


def newest_applied(answers: Mapping[ServerId, ReplicaStatus | str]) -> Zxid:
    """Return the newest transaction that a server says it has applied."""
    return max(
        (a.last_zxid for a in answers.values() if isinstance(a, ReplicaStatus)), default=Zxid(0)
    )


def rate_in(settings: Mapping[str, Any]) -> float:
    """Return the rate among the settings that a server describes.

    It is the default if the server is of a version that does not know it, or takes other values.
    """
    try:
        return checked_rate(settings["backup_mb_per_s"])
    except (KeyError, ConfigError):
        return DEFAULTS.backup_mb_per_s


def position_of(answer: ReplicaStatus | str | None) -> Position | None:
    """Return what the server has applied if it is in step; else None."""
    if not isinstance(answer, ReplicaStatus) or not answer.is_active:
        return None
    return Position(answer.last_zxid, answer.epoch, answer.digest or None)


def await_position(
    name: str, server: ServerId, at_least: Zxid, timeout_s: float
) -> tuple[Position | None, str]:
    """Return where a server is that has applied `at_least`; else None and why it is not there.

    Waits a little longer for a position whose digest the server knows.
    """
    began = time.monotonic()
    while True:
        answers = ask_servers(name)
        answer = answers.get(server, "it does not run any more")
        position = position_of(answer)
        waited = time.monotonic() - began
        if position is not None and position.zxid >= at_least:
            if position.digest is not None or waited > DIGEST_PATIENCE_S:
                return position, ""
        elif waited > timeout_s:
            told = answer if isinstance(answer, str) else f"it is {answer.role}"
            if position is not None:
                told = f"it has applied {format_zxid(position.zxid)} only"
            return None, f"server {server} has not applied {format_zxid(at_least)}: {told}"
        time.sleep(_POLL_S)
