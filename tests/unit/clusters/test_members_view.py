"""What the answers of servers show to a change of the members, and to its operator."""

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from raykeeper.actors.replica_status import ReplicaStatus, describe_replica
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.member_steps.vocabulary import Members, Plan, ServerView
from raykeeper.clusters.members_status import MembersStatus, MemberStatus, member_statuses
from raykeeper.clusters.members_view import MembersView, newest_plan, problem_of, see
from raykeeper.clusters.starting import replica_config
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

S1, S2, S3, S4, S5 = (ServerId(number) for number in range(1, 6))
FOUNDED = describe_replica(replica_config(EnsembleConfig(), "uuid", S1), "n1")
GROWN = MemberList(Zxid(9), dict.fromkeys((S1, S2, S4), FOUNDING_DISK) | {S4: DiskId("d")}, (S3,))


def answer(server: ServerId, role: str = "follower", **more: object) -> ReplicaStatus:
    fields: dict[str, object] = {"is_active": True, "votes": role != "observer", **more}
    return ReplicaStatus(
        server_id=server,
        role=role,
        pid=1,
        node_id=f"n{server}",
        leader=S1,
        epoch=Epoch(1),
        last_zxid=Zxid(100 - server),
        **fields,  # type: ignore[arg-type]
    )


LEADER = answer(S1, "leader")
WELL: Mapping[ServerId, ReplicaStatus | str] = {S1: LEADER, S2: answer(S2), S3: answer(S3)}


def seen(
    statuses: Mapping[ServerId, ReplicaStatus | str], lost: tuple[int, ...] = ()
) -> MembersView:
    return see({}, statuses, FOUNDED, lambda server: server in lost)


def test_the_list_of_the_founding_counts_until_the_leader_knows_another() -> None:
    first = seen(WELL)
    assert (first.version, first.listed, first.view.members) == (ZERO, None, Members((S1, S2, S3)))
    assert (first.view.leader, first.view.doubt, first.view.open_step) == (S1, "", "")
    leads = replace(LEADER, members=GROWN, change="server 4 becomes a voter")
    later = seen({**WELL, S1: leads, S4: answer(S4)})
    assert (later.version, later.listed) == (9, GROWN)
    assert later.view.members == Members((S1, S2, S4), (S3,))
    assert later.view.open_step == "server 4 becomes a voter"
    assert later.view.servers == dict.fromkeys((S1, S2, S3, S4), ServerView())


def test_without_a_leader_nothing_is_sure() -> None:
    alone = seen({S1: LEADER, S2: "it is dead", S3: "it is dead"})
    assert alone.view.leader is None
    assert alone.view.doubt == "no majority of the voters follows server 1"
    nobody = see({}, {S1: "it is dead"}, None, lambda _: False)
    assert (nobody.view.leader, nobody.view.doubt) == (None, "no server answers")


def test_a_server_that_is_nowhere_is_lost_unless_it_votes() -> None:
    silent = seen({**WELL, S2: "its node is gone", S4: "its node is gone"}, lost=(2, 4))
    assert silent.view.servers[S2] == ServerView(problem="does not answer: its node is gone")
    assert silent.view.servers[S4].is_lost


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (answer(S4, "observer"), ""),
        (answer(S4, "starting"), "is reading its disk, or waiting for it"),
        (
            answer(S4, "starting", failure="no space"),
            "is reading its disk, or waiting for it: no space",
        ),
        (answer(S4, "failed", failure="/d/4 is damaged"), "cannot start: /d/4 is damaged"),
        (answer(S4, "removed", failure="left by 9"), "has ended: left by 9"),
        (answer(S4, "looking", is_active=False), "follows no leader yet (looking)"),
        (
            answer(S4, "observer", has_disk_space=False),
            "has a full disk: it logs nothing until there is space",
        ),
    ],
)
def test_what_a_server_lacks_is_told(status: ReplicaStatus, problem: str) -> None:
    assert problem_of(status) == problem


def test_the_operator_sees_each_member_and_who_else_runs() -> None:
    leads = replace(LEADER, members=GROWN, voter_disks=GROWN.voters)
    statuses = {S1: leads, S2: answer(S2), S3: "it is dead", S5: answer(S5, "observer")}
    shown = member_statuses(seen(statuses), {"n1": "host-a"})
    assert shown == [
        MemberStatus(
            server_id=S1, kind="voter", role="leader", node_id="n1", node_name="host-a",
            disk=FOUNDING_DISK, lag=0,
        ),
        MemberStatus(
            server_id=S2, kind="voter", role="follower", node_id="n2", node_name="n2",
            disk=FOUNDING_DISK, lag=1,
        ),
        MemberStatus(server_id=S3, kind="observer", role="down", problem="it is dead"),
        MemberStatus(
            server_id=S4, kind="voter", role="down", disk=DiskId("d"), problem="not started"
        ),
        MemberStatus(
            server_id=S5, kind="none", role="observer", node_id="n5", node_name="n5", lag=4,
        ),
    ]  # fmt: skip
    report = MembersStatus(name="coord", version=Zxid(9), servers=shown, leader=S1)
    assert (report.voters, report.observers) == ([S1, S2, S4], [S3])


def test_how_far_a_server_lags_is_unknown_without_a_leader() -> None:
    without = seen({S1: "it is dead", S2: answer(S2), S3: answer(S3, is_active=False)})
    assert [each.lag for each in member_statuses(without, {})] == [None, None, None]


def test_the_plan_is_that_of_the_newest_tree() -> None:
    plan = Plan(text="add server 4", begun_by="me", before=Members((S1,)), target=Members((S1,)))
    value = msgspec.json.encode(plan)
    ahead = replace(answer(S2, member_plan=value), last_zxid=Zxid(200))
    assert newest_plan([LEADER, "it is dead", ahead]) == plan
    assert newest_plan([LEADER, replace(ahead, last_zxid=Zxid(3))]) is None
    assert newest_plan([replace(ahead, member_plan=b"{}")]) is None
    assert newest_plan(["it is dead"]) is None
