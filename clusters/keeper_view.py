"""The view of a keeper, made of Ray's nodes and actors and of the servers' answers.

Without Ray, so that the simulator makes the same of the answers of simulated servers.
"""

from collections.abc import Mapping, Sequence

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.healing.vocabulary import Cause, NodeSurvey, ServerLocation, Survey, View
from raykeeper.clusters.member_steps.vocabulary import decode_plan
from raykeeper.clusters.membership import newest_list
from raykeeper.clusters.node_report import NodeReport, unread
from raykeeper.clusters.placement import allows
from raykeeper.clusters.voting_disks import LeaderWithQuorum, find_leader, find_voting_disks
from raykeeper.zab.ids import DiskId, Millis, ServerId


def make_view(
    voters: Sequence[ServerId],
    alive: Mapping[str, bool],
    leaving: Mapping[str, Cause],
    names: Mapping[str, str],
    actors: Mapping[ServerId, str],
    answers: Mapping[ServerId, ReplicaStatus | str],
) -> View:
    """Return one look.

    Args:
        voters: The voting servers, if no answer knows a newer list than that of the founding.
        alive: For each node that Ray knows, whether it is alive.
        leaving: The nodes that will go, perhaps some that are dead.
        names: Of nodes, for messages.
        actors: For each server of which Ray has an actor the id of that actor.
        answers: What these actors answered to `status`; a text if they did not.
    """
    newest = newest_list(answers.values())
    voters = voters if newest is None else sorted(newest.voters)
    leader = find_leader(voters, answers)
    plan = None if leader.status is None else decode_plan(leader.status.member_plan)
    return View(
        voters=tuple(voters),
        changing=() if plan is None else plan.changing,
        nodes=dict(alive),
        leaving={node: cause for node, cause in leaving.items() if alive.get(node, False)},
        running={
            server: ServerLocation(answer.node_id, names.get(answer.node_id, answer.node_id[:8]))
            for server, answer in answers.items()
            if isinstance(answer, ReplicaStatus)
        },
        actors=dict(actors),
        doubt=leader.doubt,
        linked=_linked(leader),
        voting=leader.following,
        open_change=_open_change(voters, leader),
    )


def make_survey(
    config: EnsembleConfig,
    voters: Sequence[ServerId],
    reports: Sequence[NodeReport],
    names: Mapping[str, str],
    answers: Mapping[ServerId, ReplicaStatus | str],
    time_ms: Millis,
) -> Survey:
    """Return what the live nodes have; `answers` of the servers are newer than the `reports`.

    `voters` are those of the last look.
    """
    found = [
        NodeSurvey(
            node_id=report.node_id,
            name=names.get(report.node_id, report.name),
            disks=_disks(report),
            incarnations={
                folder.server_id: folder.identity.incarnation
                for folder in report.folders
                if folder.identity is not None
            },
            fits=tuple(voter for voter in voters if allows(config, report, voter)),
            free_bytes=report.free_bytes,
            data_bytes=max((folder.data_bytes for folder in report.folders), default=0),
            wall_s=report.wall_s,
        )
        for report in reports
        if report.problem is None
    ]
    voting = find_voting_disks(voters, answers)
    return Survey(
        time_ms=time_ms,
        nodes=tuple(found),
        unread={
            report.node_id: "; ".join(told) for report in reports if (told := unread([report]))
        },
        voting_disks=voting.disks,
        doubt=voting.doubt,
    )


def _linked(leader: LeaderWithQuorum) -> tuple[ServerId, ...]:
    if leader.status is None:
        return ()
    linked = [peer for peer, state in leader.status.links.items() if state == "linked"]
    return tuple(sorted([leader.status.server_id, *linked]))


def _open_change(voters: Sequence[ServerId], leader: LeaderWithQuorum) -> str:
    """Return which vote is moving, or which server waits for its vote."""
    if leader.status is None:
        return ""
    if leader.status.change:
        return f"the members change: {leader.status.change}"
    moving = [voter for voter in voters if voter not in leader.status.voter_disks]
    if moving:
        return f"the vote of server {moving[0]} is moving to another disk"
    if leader.status.voters_lost:
        return f"server {leader.status.voters_lost[0]} waits for its vote"
    return ""


def _disks(report: NodeReport) -> dict[ServerId, DiskId]:
    return {
        folder.server_id: folder.identity.disk()
        for folder in report.folders
        if folder.identity is not None
    }
