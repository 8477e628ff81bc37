"""Which answers of running servers prove on which disk a vote rests."""

import pytest
from msgspec.structs import replace

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.voting_disks import (
    VotingDisks,
    find_leader,
    find_voting_disks,
    newest_incarnation,
)
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
VOTERS = (S1, S2, S3)
OLD = {S1: FOUNDING_DISK, S2: FOUNDING_DISK, S3: FOUNDING_DISK}
NEW = {**OLD, S2: DiskId("new")}


def answer(
    server: ServerId,
    disks: dict[ServerId, DiskId],
    *,
    leader: ServerId | None = S1,
    epoch: int = 4,
    votes: bool = True,
    is_active: bool = True,
    zxid: int = 0,
) -> ReplicaStatus:
    return ReplicaStatus(
        server_id=server,
        role="leader" if server == leader else "looking" if leader is None else "follower",
        pid=1,
        node_id="node",
        is_active=is_active,
        leader=leader,
        epoch=Epoch(epoch),
        last_zxid=Zxid(zxid),
        votes=votes,
        voter_disks=disks,
    )


def test_a_majority_is_one_of_the_newest_list_that_a_server_knows() -> None:
    """Server 1 is the only one left of three: it and one of four newcomers are no majority."""
    ids = [ServerId(number) for number in (1, 4, 5, 6, 7)]
    grown = MemberList(Zxid(9), dict.fromkeys(ids, FOUNDING_DISK))
    leader = replace(answer(S1, OLD), members=grown)
    few = {S1: leader, ids[1]: answer(ids[1], OLD), S2: answer(S2, OLD), S3: answer(S3, OLD)}
    assert find_leader(VOTERS, few).doubt == "no majority of the voters follows server 1"
    enough = {**few, ids[2]: answer(ids[2], OLD)}
    assert find_leader(VOTERS, enough).following == (S1, ids[1], ids[2])


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # A leader with a quorum; a follower may be behind, whatever zxid it names.
        ([answer(S1, NEW), answer(S3, NEW)], VotingDisks(NEW, "")),
        ([answer(S1, NEW), answer(S3, OLD, zxid=9)], VotingDisks(NEW, "")),
        ([answer(S1, NEW), answer(S2, OLD), answer(S3, OLD)], VotingDisks(NEW, "")),
        # A vote on the move: the leader names no disk for it.
        ([answer(S1, {S1: FOUNDING_DISK}), answer(S3, OLD)], VotingDisks({S1: FOUNDING_DISK}, "")),
        # A deposed leader beside the new one.
        (
            [
                answer(S1, OLD),
                answer(S3, NEW, leader=S3, epoch=5),
                answer(S2, NEW, leader=S3, epoch=5),
            ],
            VotingDisks(NEW, ""),
        ),
        # A leader that nobody follows, that only observers or servers without a vote follow, or
        # that was followed in another epoch.
        ([answer(S1, OLD)], "no majority of the voters follows server 1"),
        ([answer(S1, OLD), answer(ServerId(4), OLD)], "no majority of the voters"),
        ([answer(S1, OLD), answer(S2, OLD, votes=False)], "no majority of the voters"),
        ([answer(S1, OLD), answer(S3, OLD, epoch=3)], "no majority of the voters"),
        ([answer(S1, OLD), answer(S3, OLD, is_active=False)], "no majority of the voters"),
        ([answer(S1, OLD), answer(S3, OLD, leader=S2)], "no majority of the voters"),
        # A majority without a leader, also with one that does not answer or is not established.
        ([answer(S2, NEW, leader=None), answer(S3, NEW, leader=None)], "no leader answers"),
        (["no answer", answer(S2, NEW), answer(S3, NEW)], "no leader answers"),
        ([answer(S1, NEW, is_active=False), answer(S3, NEW)], "no leader answers"),
        ([], "no server runs"),
    ],
)
def test_only_a_leader_with_a_quorum_is_believed(
    answers: list[ReplicaStatus | str], expected: VotingDisks | str
) -> None:
    by_server = {
        ServerId(number) if isinstance(each, str) else each.server_id: each
        for number, each in enumerate(answers, 1)
    }
    found = find_voting_disks(VOTERS, by_server)
    if isinstance(expected, VotingDisks):
        assert found == expected
    else:
        assert found.disks == {}
        assert found.doubt.startswith(expected)


@pytest.mark.parametrize(
    ("answers", "doubt"),
    [
        ([answer(S1, NEW), answer(S3, NEW)], ""),
        ([answer(S1, {S1: FOUNDING_DISK}), answer(S3, OLD)], "its vote is moving to another disk"),
        ([answer(S1, OLD)], "no majority of the voters follows server 1"),
    ],
)
def test_what_stands_against_an_empty_folder(answers: list[ReplicaStatus], doubt: str) -> None:
    """Seed 601 of the simulator: it held the name of the server that could make a majority."""
    found = find_voting_disks(VOTERS, {each.server_id: each for each in answers})
    assert found.doubt_about(S2) == doubt


def test_the_followers_of_a_leader_are_named() -> None:
    observer = answer(ServerId(4), OLD)
    answers = [answer(S1, OLD), answer(S2, OLD, votes=False), answer(S3, OLD), observer]
    found = find_leader(VOTERS, {each.server_id: each for each in answers})
    assert found.status is answers[0] and found.doubt == ""
    assert found.following == (S1, S3)
    alone = find_leader(VOTERS, {S1: answers[0]})
    assert (alone.status, alone.following) == (None, (S1,))


def test_the_newest_incarnation_that_anybody_has_seen_counts() -> None:
    seen = [{S3: 4}, {S3: 9, S2: 11}, {}]
    answers = {
        server: replace(answer(server, OLD), incarnations_seen=incarnations)
        for server, incarnations in zip(VOTERS, seen, strict=True)
    }
    assert newest_incarnation(S3, {**answers, ServerId(4): "no answer"}) == 9
    assert newest_incarnation(S1, answers) == 0
