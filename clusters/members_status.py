"""Who the members are, where each runs and on which disk it votes, and what change is open."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.actors.sidecars import first_line
from raykeeper.client import Client
from raykeeper.client.ray_lookups import list_nodes
from raykeeper.clusters.actor_calls import find_replicas
from raykeeper.clusters.member_journal import MemberJournal
from raykeeper.clusters.member_steps.vocabulary import Plan
from raykeeper.clusters.members_view import MembersView, look, newest_plan
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import DiskId, ServerId, Zxid

_CONNECT_S = 5.0


class EnsembleHandle(Protocol):
    """What the status needs of an `Ensemble`."""

    name: str

    def connect(self, *, timeout_s: float) -> Client:
        """Open a session."""


class MemberStatus(Struct, frozen=True, kw_only=True):
    """A server that is a member, or that Ray has an actor of."""

    server_id: ServerId
    kind: str
    """voter, observer; or none: it runs and is no member, because it joins, or has left."""
    role: str
    """As in `ServerStatus`; down if it does not answer."""
    node_id: str = ""
    node_name: str = ""
    disk: DiskId | None = None
    """That on which its vote rests; "" is the founding one, None: it has no vote."""
    lag: int | None = None
    """How many transactions of this epoch it has not applied that the leader has; None: unknown."""
    problem: str = ""
    """Why it does not follow."""


class MembersStatus(Struct, frozen=True, kw_only=True):
    """The members of an ensemble at one moment. Returned by `Ensemble.members`."""

    name: str
    version: Zxid
    """Of the member list; 0 while nothing has changed since the founding."""
    servers: list[MemberStatus]
    leader: ServerId | None
    """One that a majority follows; None if none is known."""
    doubt: str = ""
    """Why no leader is known."""
    open_step: str = ""
    """The step of the list that the leader has not ended."""
    plan: Plan | None = None
    """The change that has not ended; None if there is none."""
    at_it: str = ""
    """The process that is at it; empty if nobody is: then it was left, and can be resumed."""
    holder_problem: str = ""
    """Why it is not known who is at it."""

    @property
    def voters(self) -> list[ServerId]:
        """The servers with a vote."""
        return [each.server_id for each in self.servers if each.kind == "voter"]

    @property
    def observers(self) -> list[ServerId]:
        """The members without one."""
        return [each.server_id for each in self.servers if each.kind == "observer"]


def ask_members_status(ensemble: EnsembleHandle) -> MembersStatus:
    """Ask the servers and the tree.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
    """
    seen = look(find_replicas(ensemble.name), lambda _: False)
    names = {node["NodeID"]: str(node["NodeManagerHostname"]) for node in list_nodes()}
    plan = newest_plan(seen.statuses.values())
    # Without a leader nobody is asked, as it could take long.
    at_it, problem = "", seen.view.doubt
    if plan is not None and not problem:
        at_it, problem = read_holder(ensemble)
    return MembersStatus(
        name=ensemble.name,
        version=seen.version,
        servers=member_statuses(seen, names),
        leader=seen.view.leader,
        doubt=seen.view.doubt,
        open_step=seen.view.open_step,
        plan=plan,
        at_it=at_it,
        holder_problem=problem if plan is not None else "",
    )


def read_holder(ensemble: EnsembleHandle) -> tuple[str, str]:
    """Return which process is at a change of the members, "" if none, and why that is not known."""
    try:
        with ensemble.connect(timeout_s=_CONNECT_S) as client:
            return MemberJournal(client).read_holder(), ""
    except RayKeeperError as error:
        return "", first_line(error)


def member_statuses(seen: MembersView, names: Mapping[str, str]) -> list[MemberStatus]:
    """Return the members, and the other servers that run; `names` are those of Ray nodes."""
    members = seen.view.members
    leader = None if seen.view.leader is None else seen.statuses[seen.view.leader]
    found = []
    for server in sorted({*members.servers, *seen.statuses}):
        answer = seen.statuses.get(server, "not started")
        is_voter = server in members.voters
        kind = "voter" if is_voter else "observer" if server in members.observers else "none"
        disks = {} if not isinstance(leader, ReplicaStatus) else leader.voter_disks
        shown = MemberStatus(
            server_id=server,
            kind=kind,
            role="down",
            disk=disks.get(server) if is_voter else None,
            problem=answer if isinstance(answer, str) else seen.view.servers[server].problem,
        )
        if isinstance(answer, ReplicaStatus):
            shown = _answered(shown, answer, leader, names)
        found.append(shown)
    return found


def _answered(
    shown: MemberStatus,
    answer: ReplicaStatus,
    leader: ReplicaStatus | str | None,
    names: Mapping[str, str],
) -> MemberStatus:
    lag = None
    if isinstance(leader, ReplicaStatus) and answer.is_active and answer.epoch == leader.epoch:
        lag = max(0, leader.last_zxid - answer.last_zxid)
    return MemberStatus(
        server_id=shown.server_id,
        kind=shown.kind,
        role=answer.role,
        node_id=answer.node_id,
        node_name=names.get(answer.node_id, answer.node_id[:8]),
        disk=shown.disk,
        lag=lag,
        problem=shown.problem,
    )
