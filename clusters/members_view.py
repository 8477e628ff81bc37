"""What is seen of an ensemble whose members change: the list, the leader, and each server.

Only a leader with a majority behind it is believed, as for the disks with votes (voting_disks.py):
its list is the newest one, and only it knows whether a step is open.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from raykeeper.actors.replica_status import (
    FAILED,
    REMOVED,
    STARTING,
    ReplicaDescription,
    ReplicaStatus,
)
from raykeeper.clusters.actor_calls import call_actors
from raykeeper.clusters.member_steps.vocabulary import (
    Members,
    Plan,
    ServerView,
    View,
    decode_plan,
)
from raykeeper.clusters.membership import newest_description
from raykeeper.clusters.voting_disks import find_leader
from raykeeper.zab.ids import ZERO, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

Answers = Mapping[ServerId, ReplicaStatus | str]


class MembersView(Struct, frozen=True):
    """A look at an ensemble: what its planner sees, and what the acts need besides."""

    view: View
    version: Zxid
    """Of the member list that the leader knows; 0 is that of the founding."""
    listed: MemberList | None
    """That list with the disks of the voters; None at version 0."""
    handles: Mapping[ServerId, Any]
    """The actors that were asked."""
    statuses: Answers


def look(handles: Mapping[ServerId, Any], is_lost: Callable[[ServerId], bool]) -> MembersView:
    """Ask the actors of an ensemble.

    Args:
        handles: Of all servers that Ray knows.
        is_lost: Whether nothing is left of a server that does not answer and has no vote.
    """
    both = call_actors([*handles.values(), *handles.values()], "status", "describe")
    statuses = dict(zip(handles, both, strict=False))
    return see(handles, statuses, newest_description(both[len(handles) :]), is_lost)


def see(
    handles: Mapping[ServerId, Any],
    statuses: Answers,
    described: ReplicaDescription | None,
    is_lost: Callable[[ServerId], bool],
) -> MembersView:
    """Return what the answers show; see `look`. `described` knows the founders."""
    if described is None:
        nobody = View(members=Members(()), doubt="no server answers")
        return MembersView(nobody, ZERO, None, handles, statuses)
    leader = find_leader(described.voters, statuses)
    listed = None if leader.status is None else leader.status.members
    if listed is None:
        members = Members(described.voters, described.observers)
    else:
        members = Members(tuple(sorted(listed.voters)), tuple(sorted(listed.observers)))
    view = View(
        members=members,
        leader=None if leader.status is None else leader.status.server_id,
        doubt=leader.doubt,
        open_step="" if leader.status is None else leader.status.change,
        servers={
            server: _see_server(server, answer, members, is_lost)
            for server, answer in sorted(statuses.items())
        },
    )
    version = ZERO if listed is None else listed.version
    return MembersView(view, version, listed, handles, statuses)


def _see_server(
    server: ServerId,
    answer: ReplicaStatus | str,
    members: Members,
    is_lost: Callable[[ServerId], bool],
) -> ServerView:
    if isinstance(answer, str):
        is_gone = server not in members.voters and is_lost(server)
        return ServerView(problem=f"does not answer: {answer}", is_lost=is_gone)
    return ServerView(problem=problem_of(answer))


def newest_plan(answers: Iterable[object]) -> Plan | None:
    """Return the change of the members that has not ended, as far as the newest tree tells."""
    statuses = [each for each in answers if isinstance(each, ReplicaStatus)]
    newest = max(statuses, key=lambda each: each.last_zxid, default=None)
    return None if newest is None else decode_plan(newest.member_plan)


def problem_of(answer: ReplicaStatus) -> str:
    """Return why a server does not follow, or does not log; empty if it leads, or does both."""
    why = f": {answer.failure}" if answer.failure else ""
    if answer.role == STARTING:
        return f"is reading its disk, or waiting for it{why}"
    if answer.role == FAILED:
        return f"cannot start{why}"
    if answer.role == REMOVED:
        return f"has ended{why}"
    if not answer.is_active:
        return f"follows no leader yet ({answer.role})"
    return "" if answer.has_disk_space else "has a full disk: it logs nothing until there is space"
