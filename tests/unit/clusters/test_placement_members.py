"""Placement by the member list: who starts, whose folder is left alone, what a majority is."""

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.members_file import StoredMembers
from raykeeper.clusters.config import ConfigError, EnsembleConfig
from raykeeper.clusters.membership import founding_members
from raykeeper.clusters.node_report import EnsembleRecord, FoundFolder
from raykeeper.clusters.placement import FolderFormat, PlacementError, place
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from tests.unit.clusters.test_placement import hold, node

KEEP, NO_VOTE = FolderFormat.KEEP, FolderFormat.JOINING
S = tuple(ServerId(number) for number in range(8))
GROWN = MemberList(Zxid(9), dict.fromkeys((S[1], S[3], S[4]), DiskId("d")), (S[6],))
OLDER = MemberList(Zxid(5), dict.fromkeys((S[1], S[2], S[3]), DiskId("d")))


def knows(folder: FoundFolder, members: MemberList, removed: str = "") -> FoundFolder:
    return replace(folder, members=StoredMembers(members, removed))


def test_the_servers_of_the_newest_list_start_and_those_that_left_do_not() -> None:
    """1 and 4 know the newest list, 3 an older one; 2 has left, 5 was to come, 6 lost its disk."""
    founders = EnsembleRecord("u", 3)
    nodes = [
        node("a", knows(hold(1), GROWN), record=founders),
        node("b", knows(hold(2), GROWN, "left the ensemble by the change of version 0:9")),
        node("c", knows(hold(3), OLDER)),
        node("d", knows(hold(4, disk="new"), GROWN), knows(hold(5, disk="five"), OLDER)),
        node("e", hold(7, disk="seven")),
        node("f"),
    ]
    plan = place(EnsembleConfig(servers=3, observers=1), nodes, {})
    assert [(each.server_id, each.node_id, each.format) for each in plan.placements] == [
        (1, "a", KEEP),
        (3, "c", KEEP),
        (4, "d", KEEP),
        (6, "b", NO_VOTE),
    ]
    assert plan.members.founding_voters == (1, 2, 3)
    assert plan.members.as_list() == GROWN
    assert plan.warnings == [
        "server 2 left the ensemble by the change of version 0:9: remove /data/coord/2 on host-b",
        "server 5 is no member yet: /data/coord/5 on host-d is left alone until `raykeeper members "
        "resume` goes on, or remove it",
        "server 7 is no member by the list of version 0:9: /data/coord/7 on host-e is left alone, "
        "remove it",
    ]
    with pytest.raises(ConfigError, match="3 voting servers and 1 observers by its member list"):
        place(EnsembleConfig(), nodes, {})


def test_a_majority_is_one_of_the_newest_list() -> None:
    """Two founders are no majority of five; and a server that left counts for nothing."""
    five = MemberList(Zxid(9), dict.fromkeys(S[3:8], DiskId("d")))
    silent = node("z", problem="does not answer")
    left = knows(hold(1), five, "left the ensemble by the change of version 0:9")
    found = [node("a", left, knows(hold(3), five), knows(hold(4), five)), silent]
    with pytest.raises(PlacementError, match="found 2 of 5 voting servers"):
        place(EnsembleConfig(servers=5), found, {})
    plan = place(EnsembleConfig(servers=5), [*found, node("b", knows(hold(6), five))], {})
    assert [each.server_id for each in plan.placements] == [3, 4, 6]
    assert sorted(plan.refused) == [5, 7]


def test_a_folder_of_a_newcomer_is_in_nobodys_way() -> None:
    """The caller of a change was killed before its first step: the list is that of the founding."""
    first = MemberList(ZERO, dict.fromkeys(S[1:4], FOUNDING_DISK))
    newcomer = knows(hold(4, disk="new"), first)
    nodes = [node("a", hold(1), hold(2), hold(3), newcomer)]
    plan = place(EnsembleConfig(), nodes, {})
    assert [each.server_id for each in plan.placements] == [1, 2, 3]
    assert plan.warnings[1].startswith("server 4 is no member yet: /data/coord/4 on host-a")
    described = replace(founding_members(EnsembleConfig()), is_described=True)
    at = {S[1]: "a", S[4]: "a"}
    plan = place(EnsembleConfig(), nodes, at, members=described)
    assert [each.server_id for each in plan.placements] == [2, 3]
    assert len(plan.warnings) == 1


def test_a_folder_of_a_newcomer_that_was_not_added_is_in_nobodys_way() -> None:
    """The change was undone before its first step: the list is that of the founding for ever."""
    first = MemberList(ZERO, dict.fromkeys(S[1:4], FOUNDING_DISK))
    undone = knows(hold(4, disk="new"), first, "was not added, because the change was undone")
    nodes = [node("a", hold(1), hold(2), hold(3), undone, record=EnsembleRecord("u", 3))]
    plan = place(EnsembleConfig(), nodes, {})
    assert [each.server_id for each in plan.placements] == [1, 2, 3]
    assert plan.warnings[1] == (
        "server 4 was not added, because the change was undone: remove /data/coord/4 on host-a"
    )
    with pytest.raises(ConfigError, match="has 3 servers"):
        place(EnsembleConfig(servers=5), nodes, {})
