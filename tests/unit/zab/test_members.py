"""Members: whose vote counts, from which disk, and when neither the old nor the new one does."""

import pytest

from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId
from raykeeper.zab.members import Members
from tests.unit.zab.histories import NEW_DISK, S1, S2, S3, S4, THREE

NEWER = DiskId("newer")
FOUNDERS = {(S1, FOUNDING_DISK), (S2, FOUNDING_DISK), (S3, FOUNDING_DISK)}
REPLACED = {(S1, FOUNDING_DISK), (S2, NEW_DISK), (S3, FOUNDING_DISK)}
NEITHER = {(S1, FOUNDING_DISK), (S3, FOUNDING_DISK)}


def counted(members: Members) -> set[tuple[ServerId, DiskId]]:
    """Everybody that has a vote, among all servers on all disks of these tests."""
    disks = (FOUNDING_DISK, NEW_DISK, NEWER)
    return {(s, disk) for s in (*THREE, S4) for disk in disks if members.has_vote(s, disk)}


def test_a_new_ensemble_counts_every_voter_on_its_founding_disk() -> None:
    members = Members(THREE)
    assert counted(members) == FOUNDERS
    assert [members.is_voter(server) for server in (*THREE, S4)] == [True, True, True, False]


def test_a_replaced_disk_counts_and_the_one_before_no_more() -> None:
    members = Members(THREE)
    assert members.change_delivered(S2, NEW_DISK) is True
    assert counted(members) == REPLACED
    assert members.change_delivered(S2, NEWER) is True
    assert counted(members) == {(S1, FOUNDING_DISK), (S2, NEWER), (S3, FOUNDING_DISK)}


@pytest.mark.parametrize("disk", [FOUNDING_DISK, NEW_DISK])
def test_to_replace_a_disk_by_itself_is_no_change(disk: DiskId) -> None:
    members = Members(THREE)
    members.change_delivered(S2, disk)
    before = counted(members)
    assert members.change_delivered(S2, disk) is False
    assert counted(members) == before


@pytest.mark.parametrize(
    ("logged", "delivered", "counts"),
    [
        # Between the log and its delivery the vote rests on no disk.
        ([NEW_DISK], [], NEITHER),
        ([NEW_DISK], [NEW_DISK], REPLACED),
        # Several changes: until the last of them is delivered.
        ([NEW_DISK, NEWER], [NEW_DISK], NEITHER),
        ([NEW_DISK, NEWER, NEW_DISK], [NEW_DISK, NEWER], NEITHER),
        ([NEW_DISK, NEWER, NEW_DISK], [NEW_DISK, NEWER, NEW_DISK], REPLACED),
        # A change and the same once more, in one log.
        ([NEW_DISK, NEW_DISK], [NEW_DISK], NEITHER),
        ([NEW_DISK, NEW_DISK], [NEW_DISK, NEW_DISK], REPLACED),
        # What the list says already is no change.
        ([FOUNDING_DISK], [], FOUNDERS),
        ([FOUNDING_DISK], [FOUNDING_DISK], FOUNDERS),
        # Delivered without having been told before, as followers are.
        ([], [NEW_DISK], REPLACED),
    ],
)
def test_neither_disk_counts_while_a_change_is_logged_and_not_delivered(
    logged: list[DiskId], delivered: list[DiskId], counts: set[tuple[ServerId, DiskId]]
) -> None:
    members = Members(THREE)
    for disk in logged:
        members.change_logged(S2, disk)
    for disk in delivered:
        members.change_delivered(S2, disk)
    assert counted(members) == counts
    assert members.is_voter(S2)


def test_said_once_more_after_its_delivery_a_change_takes_no_vote_away() -> None:
    members = Members(THREE)
    members.change_logged(S2, NEW_DISK)
    members.change_delivered(S2, NEW_DISK)
    members.change_logged(S2, NEW_DISK)
    assert counted(members) == REPLACED
    assert members.change_delivered(S2, NEW_DISK) is False
    assert counted(members) == REPLACED


def test_a_new_role_forgets_what_was_only_logged() -> None:
    members = Members(THREE)
    members.change_logged(S1, NEW_DISK)
    members.change_logged(S2, NEW_DISK)
    members.forget_logged_changes()
    assert counted(members) == FOUNDERS


def test_the_voters_themselves_never_change() -> None:
    """Any two quorums, of whatever list, have a voter in common."""
    members = Members(THREE)
    members.adopt({S4: NEW_DISK})
    assert not members.is_voter(S4)
    assert counted(members) == FOUNDERS


@pytest.mark.parametrize(
    ("before", "adopted", "counts"),
    [
        # The received list replaces the whole list, also what it does not mention.
        ({}, {S2: NEW_DISK}, REPLACED),
        ({S1: NEW_DISK}, {S2: NEW_DISK}, REPLACED),
        ({S2: NEWER}, {S2: NEW_DISK}, REPLACED),
        ({S2: NEW_DISK}, {}, FOUNDERS),
    ],
)
def test_adopts_the_list_of_a_received_state(
    before: dict[ServerId, DiskId],
    adopted: dict[ServerId, DiskId],
    counts: set[tuple[ServerId, DiskId]],
) -> None:
    members = Members(THREE)
    for server, disk in before.items():
        members.change_delivered(server, disk)
    members.adopt(adopted)
    assert counted(members) == counts


def test_what_others_have_delivered_counts_until_it_is_delivered_here() -> None:
    members = Members(THREE)
    members.learn_delivered(S2, NEW_DISK)
    assert counted(members) == REPLACED
    assert members.voter_disks == {}
    assert members.change_delivered(S2, NEW_DISK) is True  # news all the same
    assert (counted(members), members.voter_disks) == (REPLACED, {S2: NEW_DISK})


def test_a_voter_whose_disk_is_changing_has_no_counted_disk() -> None:
    members = Members(THREE)
    assert members.counted_disks == dict.fromkeys(THREE, FOUNDING_DISK)
    members.change_logged(S2, NEW_DISK)
    members.learn_delivered(S3, NEW_DISK)
    assert members.counted_disks == {S1: FOUNDING_DISK}
    members.change_delivered(S2, NEW_DISK)
    members.change_delivered(S3, NEW_DISK)
    assert members.counted_disks == {S1: FOUNDING_DISK, S2: NEW_DISK, S3: NEW_DISK}


@pytest.mark.parametrize("told", ["replace", "adopt"])
def test_an_own_delivery_overrides_what_others_said(told: str) -> None:
    members = Members(THREE)
    members.learn_delivered(S2, NEW_DISK)
    if told == "replace":
        members.change_delivered(S2, NEWER)
    else:
        members.adopt({S2: NEWER})
    assert counted(members) == {(S1, FOUNDING_DISK), (S2, NEWER), (S3, FOUNDING_DISK)}
