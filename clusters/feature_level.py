"""The feature level of an ensemble, as an operator sees it: in force, known, and why no higher.

docs/UPGRADING.md says what a level is. The leader raises it (`_raise_level` of
server/leader_request_processor.py); here is only told what it waits for.
"""

from collections.abc import Mapping

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.zab.feature_levels import LEVEL_OF_MEMBERS
from raykeeper.zab.ids import ServerId


class FeatureLevelStatus(Struct, frozen=True):
    """The feature level of an ensemble."""

    in_force: int
    newest: int
    """The newest level that the program of a server knows."""
    waits_for: str
    """What `newest` waits for; "" if it is in force."""


def feature_level_of(
    heard: Mapping[ServerId, ReplicaStatus | str], leader: ServerId | None
) -> FeatureLevelStatus | None:
    """Return the feature level that the answers of all servers tell; None if none tells one.

    A server that is down, starts, or is of a version that does not tell, tells none.
    """
    told = {
        server: answer
        for server, answer in heard.items()
        if isinstance(answer, ReplicaStatus) and answer.level
    }
    if not told:
        return None
    in_force = max(answer.level for answer in told.values())
    newest = max(answer.level_newest for answer in told.values())
    waits_for = ""
    if newest > in_force:
        waits_for = _waits_for(newest, heard, told, told.get(leader) if leader else None)
    return FeatureLevelStatus(in_force, newest, waits_for)


def why_members_stay(level: FeatureLevelStatus | None) -> str:
    """Return why the level in force allows no change of the members; "" if it does."""
    if level is None or level.in_force >= LEVEL_OF_MEMBERS:
        return ""
    waits = f"; level {level.newest} waits for {level.waits_for}" if level.waits_for else ""
    return (
        f"the members can change from feature level {LEVEL_OF_MEMBERS} on, and {level.in_force} is "
        f"in force{waits}"
    )


def _waits_for(
    newest: int,
    heard: Mapping[ServerId, ReplicaStatus | str],
    told: Mapping[ServerId, ReplicaStatus],
    leader: ReplicaStatus | None,
) -> str:
    if old := [server for server, answer in told.items() if answer.level_newest < newest]:
        return f"the new version on {_servers(old)}"
    if silent := [server for server in heard if server not in told]:
        return f"{_servers(silent)}, to follow and tell what its program knows"
    if leader is None:
        return "a leader"
    if leader.level_raise_to < newest:
        return (
            "you: all servers know it, and the setting feature_level_max is "
            f"{leader.level_raise_to}; set that to auto with `raykeeper up FILE --apply` to raise "
            "it, after which no server can go back to the version before"
        )
    return "all servers to follow the leader, which raises it then"


def _servers(servers: list[ServerId]) -> str:
    return f"server {', '.join(map(str, servers))}"
