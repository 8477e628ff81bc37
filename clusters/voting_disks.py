"""Learn from the running servers on which disk the vote of each voter rests (rule D3).

A server that was moved leaves its old disk behind, and a launch that finds both must not start the
one without the vote in the place of the other. The member list knows, and only a leader with a
quorum behind it is believed:

    a follower may not have delivered the newest change yet, and a server without a leader may have
    missed any number, however new its last zxid is: a commit is known to the leader first;
    a leader that was deposed may not know it: so a quorum of voters, the leader included, must say
    that they follow it in its epoch. Such a leader has delivered every change that an earlier
    epoch committed before it was activated, and each of its own when it was committed;
    a change that the leader has logged and not delivered may or may not be committed: until then
    it names no disk for that voter.

The answers are of different moments. That does no harm: the list changes only for a voter that is
linked to the leader, and the launch asks about voters that do not run.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.membership import newest_list
from raykeeper.zab.ids import DiskId, ServerId
from raykeeper.zab.quorum import Quorum


class VotingDisks(Struct, frozen=True):
    """The disks that count, as far as they are known."""

    disks: dict[ServerId, DiskId] = {}
    """For each voter the disk with its vote; without those whose disk is changing."""
    doubt: str = "no server runs"
    """Why `disks` is empty."""

    def doubt_about(self, server: ServerId) -> str:
        """Return why it is not known on which disk a server's vote rests; empty if it is."""
        return "" if server in self.disks else self.doubt or "its vote is moving to another disk"


class LeaderWithQuorum(Struct, frozen=True):
    """The leader that is believed, by its own answer."""

    status: ReplicaStatus | None
    following: tuple[ServerId, ...] = ()
    """The voters with a vote that say they follow it in its epoch, itself included."""
    doubt: str = ""
    """Why `status` is None."""


def newest_incarnation(server: ServerId, answers: Mapping[ServerId, ReplicaStatus | str]) -> int:
    """Return the newest incarnation of a server that those that answered have seen; 0 for none."""
    statuses = [answer for answer in answers.values() if isinstance(answer, ReplicaStatus)]
    return max((each.incarnations_seen.get(server, 0) for each in statuses), default=0)


def find_leader(
    voters: Collection[ServerId], answers: Mapping[ServerId, ReplicaStatus | str]
) -> LeaderWithQuorum:
    """Return the leader that the servers' answers prove; see above.

    `voters` count if no server knows a newer list than that of the founding.
    """
    statuses = [answer for answer in answers.values() if isinstance(answer, ReplicaStatus)]
    newest = newest_list(statuses)
    voters = voters if newest is None else newest.voters
    leaders = [each for each in statuses if each.role == "leader" and each.is_active]
    if not leaders:
        return LeaderWithQuorum(None, (), "no leader answers" if answers else "no server runs")
    leader = max(leaders, key=lambda each: each.epoch)
    following = tuple(
        each.server_id
        for each in statuses
        if each.is_active
        and each.votes
        and each.epoch == leader.epoch
        and leader.server_id in (each.server_id, each.leader)
        and each.server_id in voters
    )
    if not Quorum(voters).is_quorum(following):
        doubt = f"no majority of the voters follows server {leader.server_id}"
        return LeaderWithQuorum(None, following, doubt)
    return LeaderWithQuorum(leader, following)


def find_voting_disks(
    voters: Collection[ServerId], answers: Mapping[ServerId, ReplicaStatus | str]
) -> VotingDisks:
    """Return the disks of the voters that the servers' answers prove; see above."""
    leader = find_leader(voters, answers)
    if leader.status is None:
        return VotingDisks(doubt=leader.doubt)
    return VotingDisks(dict(leader.status.voter_disks), "")
