"""Who the members are: the newest list that anybody knows, else what the settings say."""

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner
from raykeeper.actors.disk.members_file import StoredMembers
from raykeeper.actors.replica_status import ReplicaDescription, ReplicaStatus, describe_replica
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.membership import (
    Membership,
    founding_members,
    known_members,
    newest_list,
)
from raykeeper.clusters.node_report import EnsembleRecord, FoundFolder, NodeReport
from raykeeper.clusters.starting import replica_config
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

S1, S2, S3, S4, S5 = (ServerId(number) for number in range(1, 6))
CONFIG = EnsembleConfig(servers=3, observers=1)
GROWN = MemberList(Zxid(9), {S1: FOUNDING_DISK, S3: DiskId("b"), S5: DiskId("c")}, (S4,))
OLDER = MemberList(Zxid(5), {S1: FOUNDING_DISK, S3: DiskId("b")})


def described(members: MemberList | None = None) -> ReplicaDescription:
    first = describe_replica(replica_config(CONFIG, "uuid", S1), "node")
    if members is None:
        return first
    return replace(
        first,
        voters=tuple(members.voters),
        observers=members.observers,
        members_version=members.version,
    )


def holding(members: MemberList | None, record: int = 0) -> NodeReport:
    identity = DiskIdentity(FolderOwner("coord", "u", S1), "d", is_founding=True)
    stored = None if members is None else StoredMembers(members)
    folder = FoundFolder(S1, "/data/coord/1", identity, members=stored)
    recorded = EnsembleRecord("u", record) if record else None
    return NodeReport("a", "host-a", {}, [], record=recorded, folders=[folder])


FOUNDED = founding_members(CONFIG)


@pytest.mark.parametrize(
    ("servers", "nodes", "expected"),
    [
        # Nobody knows anything, or no more than with what it was founded.
        ([], [], FOUNDED),
        ([], [holding(None, record=3)], FOUNDED),
        ([described()], [], replace(FOUNDED, is_described=True)),
        ([], [holding(None, record=2)], replace(FOUNDED, founding_voters=(S1, S2))),
        (
            [],
            [holding(MemberList(ZERO, {S1: FOUNDING_DISK}))],
            FOUNDED,
        ),
        # The newest list counts, whoever knows it; a running server knows the founders, too.
        (
            [described(), described(GROWN), described(OLDER)],
            [],
            Membership((S1, S3, S5), (S4,), Zxid(9), (S1, S2, S3), (S4,), is_described=True),
        ),
        (
            [],
            [holding(OLDER), holding(GROWN, record=3), holding(None)],
            Membership((S1, S3, S5), (S4,), Zxid(9), (S1, S2, S3), (), listed=GROWN),
        ),
        (
            [described(OLDER)],
            [holding(GROWN)],
            Membership(
                *((S1, S3, S5), (S4,), Zxid(9), (S1, S2, S3), (S4,)),
                is_described=True,
                listed=GROWN,
            ),
        ),
        (
            [described(GROWN)],
            [holding(OLDER)],
            Membership((S1, S3, S5), (S4,), Zxid(9), (S1, S2, S3), (S4,), is_described=True),
        ),
        # A server of a version without changes describes the founders alone.
        (
            [replace(described(), founding_voters=(), founding_observers=())],
            [],
            replace(FOUNDED, is_described=True),
        ),
    ],
)
def test_the_newest_list_counts(
    servers: list[ReplicaDescription], nodes: list[NodeReport], expected: Membership
) -> None:
    assert known_members(CONFIG, servers, nodes) == expected


def status(members: MemberList | None) -> ReplicaStatus:
    return ReplicaStatus(server_id=S1, role="follower", pid=1, node_id="n", members=members)


def test_the_disks_are_those_of_the_newest_list() -> None:
    answers = [status(None), "it is dead", status(OLDER), status(GROWN)]
    assert newest_list(answers) == GROWN
    assert newest_list(answers[:2]) is None
    known = known_members(CONFIG, [described(OLDER)])
    assert known.as_list() is None
    assert known.with_listed(answers).as_list() == GROWN
    assert known.with_listed(answers[:3]).voters == (S1, S3)
    later = replace(known, version=Zxid(10))
    assert later.with_listed(answers) == later
    assert FOUNDED.with_listed(answers[:2]) == FOUNDED
    assert FOUNDED.as_list() == MemberList(ZERO, dict.fromkeys((S1, S2, S3), FOUNDING_DISK), (S4,))


def test_members_have_a_size_and_a_majority() -> None:
    known = known_members(CONFIG, [described(GROWN)])
    assert known.servers == (S1, S3, S4, S5)
    assert (known.majority, known.is_majority([S2, S4, S5]), known.is_majority([S3, S5])) == (
        2,
        False,
        True,
    )
    sized = known.sized(EnsembleConfig(servers=7))
    assert (sized.servers, sized.observers) == (3, 1)
