"""Who the members of an ensemble are, by all that servers and folders tell: the newest list counts.

A running server describes the newest list that it has delivered, and a stopped one has left it in
its folder (`members.json`). Every such list is committed, and the one of the highest version
follows from all others. So what an older list says, or the settings, counts only if nobody knows
more: the settings say the number of servers with which an ensemble is founded.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.replica_status import ReplicaDescription, ReplicaStatus
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.node_report import NodeReport
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, ServerId, Zxid
from raykeeper.zab.member_list import MemberList


class Membership(Struct, frozen=True):
    """The members of an ensemble."""

    voters: tuple[ServerId, ...]
    observers: tuple[ServerId, ...] = ()
    version: Zxid = ZERO
    """Of the member list; 0: that of the founding."""
    founding_voters: tuple[ServerId, ...] = ()
    founding_observers: tuple[ServerId, ...] = ()
    """The list of version 0, with which every server begins before it knows more."""
    is_described: bool = False
    """Whether a running server has told it: then its observers are certain, also at version 0."""
    listed: MemberList | None = None
    """The same with the disks of the voters; None if only the ids are known."""

    @property
    def servers(self) -> tuple[ServerId, ...]:
        """All members, in order."""
        return tuple(sorted((*self.voters, *self.observers)))

    @property
    def majority(self) -> int:
        """The number of voters that are needed."""
        return len(self.voters) // 2 + 1

    def is_majority(self, servers: Iterable[ServerId]) -> bool:
        """Return whether these servers have a majority of the voters among them."""
        return len(set(self.voters).intersection(servers)) >= self.majority

    def sized(self, config: EnsembleConfig) -> EnsembleConfig:
        """Return the settings with the present numbers of servers."""
        return replace(config, servers=len(self.voters), observers=len(self.observers))

    def with_listed(self, answers: Iterable[ReplicaStatus | str]) -> "Membership":
        """Return the same with the disks of the voters, if one of these answers tells them."""
        newest = newest_list(answers)
        if newest is None or newest.version < self.version or newest.version == ZERO:
            return self
        return replace(
            self,
            voters=tuple(sorted(newest.voters)),
            observers=newest.observers,
            version=newest.version,
            listed=newest,
        )

    def as_list(self) -> MemberList | None:
        """Return the list with the disks of the voters; None if these are not known."""
        if self.listed is None and self.version == ZERO:
            return MemberList(ZERO, dict.fromkeys(self.voters, FOUNDING_DISK), self.observers)
        return self.listed


def founding_members(config: EnsembleConfig) -> Membership:
    """Return the members of an ensemble that is founded with these settings."""
    voters, observers = config.voter_ids, config.observer_ids
    return Membership(voters, observers, ZERO, voters, observers)


def known_members(
    config: EnsembleConfig,
    described: Iterable[ReplicaDescription] = (),
    nodes: Sequence[NodeReport] = (),
) -> Membership:
    """Return the members by the newest list that a running server or a folder names.

    If there is none they are those of the settings, as of an ensemble that is to be founded.
    """
    newest = newest_description(described)
    known = founding_members(config)
    if newest is not None:
        known = _as_described(newest)
    elif recorded := recorded_size(nodes):
        voters = tuple(ServerId(number) for number in range(1, recorded + 1))
        known = replace(known, founding_voters=voters)
    stored = [
        folder.members.members
        for node in nodes
        for folder in node.folders
        if folder.members is not None
    ]
    found = max(stored, key=lambda each: each.version, default=None)
    if found is None or found.version == ZERO or found.version < known.version:
        return known
    if known.version == ZERO and not known.is_described:
        known = replace(known, founding_observers=())  # those of the settings may be any by now
    voters = tuple(sorted(found.voters))
    return replace(
        known, voters=voters, observers=found.observers, version=found.version, listed=found
    )


def newest_description(described: Iterable[object]) -> ReplicaDescription | None:
    """Return the description with the newest list; None if no answer is a description."""
    found = [each for each in described if isinstance(each, ReplicaDescription)]
    return max(found, key=lambda each: each.members_version, default=None)


def newest_list(answers: Iterable[object]) -> MemberList | None:
    """Return the newest list that a status names; None if nobody has delivered one."""
    found = [
        each.members
        for each in answers
        if isinstance(each, ReplicaStatus) and each.members is not None
    ]
    return max(found, key=lambda each: each.version, default=None)


def recorded_size(nodes: Iterable[NodeReport]) -> int:
    """Return the number of founding voters that the nodes have recorded; 0 if none has."""
    return next((n.record.servers for n in nodes if n.record is not None and n.folders), 0)


def _as_described(newest: ReplicaDescription) -> Membership:
    # A server of a version that knew no changes describes the founders alone.
    is_old = not newest.founding_voters
    return Membership(
        newest.voters,
        newest.observers,
        newest.members_version,
        newest.voters if is_old else newest.founding_voters,
        newest.observers if is_old else newest.founding_observers,
        is_described=True,
    )
