"""What a keeper sees of a member list that changes."""

import msgspec
from msgspec.structs import replace

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.healing.vocabulary import View
from raykeeper.clusters.keeper_view import make_view
from raykeeper.clusters.member_steps.vocabulary import Members, Plan
from raykeeper.zab.ids import FOUNDING_DISK, Epoch, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

S1, S2, S3, S4 = (ServerId(number) for number in range(1, 5))
GROWN = MemberList(Zxid(9), dict.fromkeys((S1, S2, S3, S4), FOUNDING_DISK))
PLAN = Plan(
    text="put server 4 in the place of server 2",
    begun_by="me",
    before=Members((S1, S2, S3)),
    target=Members((S1, S3, S4)),
    newcomers=(S4,),
)


def answer(server: ServerId) -> ReplicaStatus:
    return ReplicaStatus(
        server_id=server,
        role="leader" if server == S1 else "follower",
        pid=1,
        node_id=f"n{server}",
        is_active=True,
        leader=S1,
        epoch=Epoch(1),
        votes=True,
        voter_disks=GROWN.voters,
    )


def seen(leader: ReplicaStatus) -> View:
    answers = {S1: leader, S2: answer(S2), S3: answer(S3)}
    return make_view((S1, S2, S3), {}, {}, {}, {}, answers)


def test_the_voters_are_those_of_the_newest_list() -> None:
    assert seen(answer(S1)).voters == (S1, S2, S3)
    view = seen(replace(answer(S1), members=GROWN))
    assert (view.voters, view.voting) == ((S1, S2, S3, S4), (S1, S2, S3))


def test_the_servers_of_a_change_and_its_open_step_are_seen() -> None:
    view = seen(replace(answer(S1), member_plan=msgspec.json.encode(PLAN), change="4 joins"))
    assert view.changing == (S2, S4)
    assert view.open_change == "the members change: 4 joins"
    assert seen(answer(S1)).changing == ()
    assert seen(answer(S1)).open_change == ""
