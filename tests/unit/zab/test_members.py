"""Members: by which lists a leader counts, and whose vote counts from which disk."""

import pytest

from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.members import Members, Seat
from tests.unit.zab.histories import NEW_DISK, S1, S2, S3, S4, S5, THREE

NEWER = DiskId("newer")
OLD1, OLD2, OLD3 = ((server, FOUNDING_DISK) for server in THREE)
NEW2, NEWER2, NEW4 = (S2, NEW_DISK), (S2, NEWER), (S4, NEW_DISK)
FOUNDERS = {OLD1, OLD2, OLD3}
REPLACED = {OLD1, NEW2, OLD3}
NEITHER = {OLD1, OLD3}


def members_of(version: int, *seats: Seat, observers: tuple[ServerId, ...] = ()) -> MemberList:
    return MemberList(Zxid(version), dict(seats), observers)


ADDED = members_of(5, *FOUNDERS, NEW4)
SWAPPED = members_of(5, OLD1, NEW4, OLD3)
REMOVED = members_of(5, OLD1, OLD3)


def counted(members: Members) -> set[Seat]:
    """Everybody that has a vote, among all servers on all disks of these tests."""
    disks = (FOUNDING_DISK, NEW_DISK, NEWER)
    return {(s, disk) for s in (*THREE, S4) for disk in disks if members.has_vote(s, disk)}


def test_a_new_ensemble_counts_every_voter_on_its_founding_disk() -> None:
    members = Members(reversed(THREE), [S5])
    assert counted(members) == FOUNDERS
    assert members.founding == members.delivered == members.newest
    assert members.founding == MemberList(ZERO, dict.fromkeys(THREE, FOUNDING_DISK), (S5,))
    assert (members.voters, members.to_tell, members.is_changing) == (THREE, None, False)
    assert [members.is_voter(server) for server in (*THREE, S4)] == [True, True, True, False]


def test_the_servers_of_every_list_are_known() -> None:
    members = Members(THREE, [S5])
    assert members.known_servers == (S1, S2, S3, S5)
    members.list_logged(SWAPPED)
    assert members.known_servers == (S1, S2, S3, S4, S5)
    members.forget_logged_lists()
    assert members.known_servers == (S1, S2, S3, S5)
    members.learn_delivered(SWAPPED)
    assert members.known_servers == (S1, S2, S3, S4, S5)
    members.list_delivered(SWAPPED)
    assert members.known_servers == (S1, S3, S4)


def test_a_replaced_disk_counts_and_the_one_before_no_more() -> None:
    members = Members(THREE)
    assert members.disk_delivered(S2, NEW_DISK, Zxid(1)) is True
    assert counted(members) == REPLACED
    assert members.disk_delivered(S2, NEWER, Zxid(2)) is True
    assert counted(members) == {OLD1, NEWER2, OLD3}
    assert members.to_tell == members_of(2, OLD1, NEWER2, OLD3)


@pytest.mark.parametrize("disk", [FOUNDING_DISK, NEW_DISK])
def test_to_replace_a_disk_by_itself_is_no_change(disk: DiskId) -> None:
    members = Members(THREE)
    members.disk_delivered(S2, disk, Zxid(1))
    before = counted(members), members.delivered
    assert members.disk_delivered(S2, disk, Zxid(2)) is False
    assert (counted(members), members.delivered) == before


def test_the_disk_of_a_server_that_is_no_voter_is_no_change() -> None:
    members = Members(THREE)
    members.disk_logged(S4, NEW_DISK, Zxid(1))
    assert members.disk_delivered(S4, NEW_DISK, Zxid(1)) is False
    assert counted(members) == FOUNDERS


@pytest.mark.parametrize(
    ("logged", "delivered", "counts"),
    [
        # Between the log and its delivery the vote rests on no disk.
        ([NEW_DISK], 0, NEITHER),
        ([NEW_DISK], 1, REPLACED),
        # Several changes: until the last of them is delivered.
        ([NEW_DISK, NEWER], 1, NEITHER),
        ([NEW_DISK, NEWER, NEW_DISK], 2, NEITHER),
        ([NEW_DISK, NEWER, NEW_DISK], 3, REPLACED),
        # A change and the same once more, in one log: that is the same list.
        ([NEW_DISK, NEW_DISK], 1, REPLACED),
        ([NEW_DISK, NEW_DISK], 2, REPLACED),
        # What the list says already is no change.
        ([FOUNDING_DISK], 0, FOUNDERS),
        ([FOUNDING_DISK], 1, FOUNDERS),
    ],
)
def test_neither_disk_counts_while_a_change_is_logged_and_not_delivered(
    logged: list[DiskId], delivered: int, counts: set[Seat]
) -> None:
    members = Members(THREE)
    for zxid, disk in enumerate(logged, 1):
        members.disk_logged(S2, disk, Zxid(zxid))
    for zxid, disk in enumerate(logged[:delivered], 1):
        members.disk_delivered(S2, disk, Zxid(zxid))
    assert counted(members) == counts
    assert members.is_voter(S2)
    assert members.is_changing is (counts == NEITHER)


def test_two_disks_that_change_at_once_count_neither() -> None:
    """A log of an earlier version may hold both."""
    members = Members(THREE)
    members.disk_logged(S2, NEW_DISK, Zxid(1))
    members.disk_logged(S3, NEW_DISK, Zxid(2))
    assert counted(members) == {OLD1}
    members.disk_delivered(S2, NEW_DISK, Zxid(1))
    assert counted(members) == {OLD1, NEW2}


def test_a_new_role_forgets_what_was_only_logged() -> None:
    members = Members(THREE)
    members.disk_logged(S1, NEW_DISK, Zxid(1))
    members.disk_logged(S2, NEW_DISK, Zxid(2))
    members.forget_logged_lists()
    assert counted(members) == FOUNDERS


@pytest.mark.parametrize(
    ("new", "seats", "is_quorum"),
    [
        # Three become four: two of three and three of four.
        (ADDED, [OLD1, OLD2], False),
        (ADDED, [OLD1, NEW4], False),
        (ADDED, [OLD1, OLD2, OLD3], True),
        (ADDED, [OLD1, OLD2, NEW4], True),
        # The newcomer on another disk is another seat.
        (ADDED, [OLD1, OLD2, (S4, NEWER)], False),
        # One swapped for another: neither helps the other's list.
        (SWAPPED, [OLD1, OLD2], False),
        (SWAPPED, [OLD1, NEW4], False),
        (SWAPPED, [OLD1, OLD2, NEW4], True),
        (SWAPPED, [OLD1, OLD3], True),
        # Three become two: both.
        (REMOVED, [OLD1, OLD2], False),
        (REMOVED, [OLD1, OLD3], True),
    ],
)
def test_a_logged_list_needs_a_majority_beside_the_one_before(
    new: MemberList, seats: list[Seat], is_quorum: bool
) -> None:
    members = Members(THREE)
    members.list_logged(new)
    assert members.is_quorum(seats) is is_quorum
    assert members.covers_all_acked(seats, []) is is_quorum
    assert members.quorum_value([(seat, 7) for seat in seats]) == (7 if is_quorum else 0)


def test_a_delivered_list_counts_alone() -> None:
    members = Members(THREE)
    members.list_logged(SWAPPED)
    assert members.list_delivered(SWAPPED) is True
    assert members.is_quorum([OLD1, NEW4]) and not members.is_quorum([OLD1, OLD2])
    assert members.list_delivered(SWAPPED) is False  # said again
    assert members.voters == (S1, S3, S4)


def test_uncertain_disks_must_cover_both_lists() -> None:
    members = Members(THREE)
    members.list_logged(SWAPPED)
    assert not members.covers_all_acked([OLD1], [OLD2, OLD3])
    assert members.covers_all_acked([OLD1], [OLD2, OLD3, NEW4])


def test_observers_are_part_of_a_list_and_of_no_quorum() -> None:
    members = Members(THREE)
    observed = members_of(5, *FOUNDERS, observers=(S4,))
    members.list_logged(observed)
    assert members.is_quorum([OLD1, OLD2]) and not members.is_quorum([OLD1, NEW4])
    assert members.list_delivered(observed) is True
    assert members.delivered == observed


def test_electors_are_servers_on_any_disk() -> None:
    members = Members(THREE)
    members.list_delivered(SWAPPED)
    assert members.are_electors([S1, S4]) and not members.are_electors([S1, S2])


def test_a_list_that_another_server_has_delivered_counts_in_place_of_an_older_one() -> None:
    members = Members(THREE)
    assert members.learn_delivered(SWAPPED) is True
    assert members.learn_delivered(SWAPPED) is False
    assert members.learn_delivered(None) is False
    assert members.is_quorum([OLD1, NEW4])
    assert (members.newest, members.to_tell) == (SWAPPED, SWAPPED)
    assert members.delivered == members.founding
    # A newer one in the own log counts beside it, an older one no more.
    members.disk_logged(S1, NEW_DISK, Zxid(4))
    assert members.is_quorum([OLD1, NEW4])
    members.list_logged(members_of(6, OLD1, NEW4))
    assert members.is_quorum([OLD1, NEW4]) and not members.is_quorum([OLD1, OLD3])
    # What was heard counts until something newer is delivered here.
    assert members.disk_delivered(S2, NEW_DISK, Zxid(3)) is True
    assert members.newest == SWAPPED
    assert members.list_delivered(members_of(6, OLD1, NEW4)) is True
    assert members.newest.version == 6


def test_adopts_the_list_of_a_received_state() -> None:
    members = Members(THREE)
    members.list_delivered(ADDED)
    members.list_logged(members_of(6, OLD1))
    members.adopt(members_of(7, OLD1, NEW2, OLD3))
    assert counted(members) == REPLACED
    assert members.voter_disks == {S2: NEW_DISK}


def test_a_voter_whose_disk_is_changing_has_no_counted_disk() -> None:
    members = Members(THREE)
    assert members.counted_disks == dict.fromkeys(THREE, FOUNDING_DISK)
    members.disk_logged(S2, NEW_DISK, Zxid(1))
    assert members.counted_disks == {S1: FOUNDING_DISK, S3: FOUNDING_DISK}
    members.disk_delivered(S2, NEW_DISK, Zxid(1))
    assert members.counted_disks == {S1: FOUNDING_DISK, S2: NEW_DISK, S3: FOUNDING_DISK}
