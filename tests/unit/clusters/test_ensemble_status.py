"""The status of an ensemble: who leads, what is down, and why there is no leader."""

import msgspec
import pytest

from raykeeper.actors.replica_status import FAILED, STARTING, ReplicaStatus
from raykeeper.clusters.ensemble_status import ServerStatus, problems_of, summarize
from raykeeper.clusters.member_steps.vocabulary import Members, Plan
from raykeeper.zab.ids import Epoch, ServerId, Zxid

LINKED = "linked"


def said(server: int, role: str, **more: object) -> ReplicaStatus:
    settings: dict[str, object] = {
        "is_active": role in ("leader", "follower"),
        "votes": True,
        "links": {ServerId(i): LINKED for i in (1, 2, 3) if i != server},
        **more,
    }
    return ReplicaStatus(
        server_id=ServerId(server),
        role=role,
        pid=100 + server,
        node_id="n",
        **settings,  # type: ignore[arg-type]
    )


def heard(*answers: ReplicaStatus | str) -> dict[ServerId, ReplicaStatus | str]:
    return {ServerId(number): answer for number, answer in enumerate(answers, 1)}


def test_a_healthy_ensemble_has_a_leader() -> None:
    leader = said(2, "leader", epoch=Epoch(3), last_zxid=Zxid(7), sessions=4, znodes=5)
    report = summarize("coord", heard(said(1, "follower"), leader, "no answer within 2 s"))
    assert (report.leader, report.reason) == (2, None)
    assert report.servers == [
        ServerStatus(ServerId(1), "follower", pid=101, node_id="n"),
        ServerStatus(
            ServerId(2), "leader", Epoch(3), Zxid(7), pid=102, node_id="n", sessions=4, znodes=5
        ),
        ServerStatus(ServerId(3), "down", problem="no answer within 2 s"),
    ]


def test_the_status_shows_carriers_and_why_streams_are_missing() -> None:
    carriers, clients = {ServerId(1): "ray calls"}, {"ray calls": 2, "stream": 1}
    reason = "cannot listen at 10.0.0.1: no such address"
    answer = said(2, "leader", carriers=carriers, clients=clients, stream_problem=reason)
    (status,) = summarize("coord", {ServerId(2): answer}).servers
    assert (status.carriers, status.clients) == (carriers, clients)
    assert status.problem == f"takes Ray calls only: it {reason}"


def test_the_status_shows_the_limits_and_why_fewer_clients_are_taken() -> None:
    limits = {
        "clients_max": 512,
        "sessions_max": 9,
        "clients_problem": "takes 512 clients, not 600",
        "clients_to_move": 3,
    }
    (status,) = summarize("coord", {ServerId(2): said(2, "leader", **limits)}).servers
    assert (status.clients_max, status.sessions_max) == (512, 9)
    assert status.problem == "takes 512 clients, not 600"
    assert status.clients_to_move == 3


def test_the_status_shows_the_port_for_clients_of_zookeeper_and_why_it_is_closed() -> None:
    reason = "cannot listen at 127.0.0.1:2181: in use"
    answer = said(2, "leader", zookeeper="127.0.0.1:2181", zookeeper_problem=reason)
    (status,) = summarize("coord", {ServerId(2): answer}).servers
    assert status.zookeeper == "127.0.0.1:2181"
    assert status.problem == f"takes no clients of ZooKeeper: it {reason}"


def test_the_status_shows_the_port_with_tls_and_why_it_is_closed() -> None:
    reason = "cannot listen at 127.0.0.1:2281: cannot use /c and /k"
    answer = said(2, "leader", zookeeper_tls="127.0.0.1:2281", zookeeper_tls_problem=reason)
    (status,) = summarize("coord", {ServerId(2): answer}).servers
    assert status.zookeeper_tls == "127.0.0.1:2281"
    assert status.problem == f"takes no clients of ZooKeeper over TLS: it {reason}"


def test_a_missing_admin_server_is_told() -> None:
    answer = said(2, "leader", admin_problem="the package aiohttp is not installed")
    (status,) = summarize("coord", {ServerId(2): answer}).servers
    assert status.problem == "has no admin server: the package aiohttp is not installed"


def test_among_two_leaders_the_newer_epoch_counts() -> None:
    old, new = said(1, "leader", epoch=Epoch(1)), said(3, "leader", epoch=Epoch(2))
    assert summarize("coord", heard(old, said(2, "follower"), new)).leader == 3


def follows(server: int, leader: int = 2, **more: object) -> ReplicaStatus:
    return said(server, "follower", **{"leader": ServerId(leader), "epoch": Epoch(3), **more})


BROKEN = {ServerId(2): "no answer"}
IN_USE = "/d/2 is in use by process 7 on host-b"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        # The others follow it, and it cannot be asked.
        (heard(follows(1), "its process is gone", follows(3)), "its process is gone"),
        (heard(follows(1), "not started", "gone"), "not started"),
        # Another process of it waits for the folder that it has.
        (
            heard(follows(1), said(2, STARTING, failure=IN_USE), follows(3)),
            f"is reading its disk, or waiting for it: {IN_USE}",
        ),
        (heard(follows(1), said(2, FAILED, failure=IN_USE), follows(3)), IN_USE),
        # A part of the others has not noticed yet that there is a newer one.
        (heard(follows(1), "gone", follows(3), follows(4), follows(5, 1, epoch=Epoch(2))), "gone"),
    ],
)
def test_a_leader_that_ray_cannot_reach_is_reported(
    answers: dict[ServerId, ReplicaStatus | str], problem: str
) -> None:
    report = summarize("coord", answers)
    assert (report.leader, report.reason) == (2, None)
    unreached = f"leads, but Ray does not reach it: {problem}"
    assert report.servers[1] == ServerStatus(ServerId(2), "unreached", problem=unreached)
    assert f"server 2 {unreached}" in problems_of(report.servers)


@pytest.mark.parametrize(
    "answers",
    [
        # It says itself that it does not lead.
        heard(follows(1), said(2, "looking"), follows(3)),
        heard(follows(1), said(2, "follower"), follows(3)),
        heard(follows(1), said(2, "leader", is_active=False), follows(3)),
        # Those that say so are not linked to it any more, or do not serve.
        heard(follows(1, links=BROKEN), "gone", follows(3, links=BROKEN)),
        heard(follows(1, is_active=False), "gone", follows(3, is_active=False)),
        # With it they are no majority.
        heard(follows(1), "gone", "gone", "gone"),
        heard(follows(1), "gone", follows(3, 4), "gone", "gone"),
        heard(follows(1), "gone", follows(3, epoch=Epoch(2)), "gone", "gone"),
        heard("gone", "gone", said(3, "looking")),
        # It is none of the ensemble.
        heard(follows(1, 9, links={ServerId(9): LINKED}), "gone", "gone"),
    ],
)
def test_a_leader_without_a_quorum_does_not_count(
    answers: dict[ServerId, ReplicaStatus | str],
) -> None:
    report = summarize("coord", answers)
    assert report.leader is None
    assert report.reason is not None
    assert "unreached" not in {server.role for server in report.servers}


def test_a_following_observer_does_not_prove_a_leader() -> None:
    answers = heard("gone", follows(2, 1), follows(3, 1), "gone", "gone")
    assert summarize("coord", answers).leader == 1
    assert summarize("coord", answers, {ServerId(3)}).leader is None


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (
            heard(said(1, "looking"), "not started", "its actor is dead"),
            "heard server 1; 2 of 3 voters are needed, 1 can vote; "
            "server 2 is down: not started; server 3 is down: its actor is dead",
        ),
        (heard("x", "y", "z"), "heard no server; 2 of 3 voters are needed, 0 can vote; server 1"),
        # A leader that does not serve yet is none.
        (
            heard(said(1, "leader", is_active=False), said(2, "looking"), said(3, "looking")),
            "heard servers 1, 2, 3; an election is under way",
        ),
        (
            heard(said(1, "looking"), said(2, "looking", votes=False), "gone"),
            "1 can vote; server 2 waits for its vote, because it may have forgotten a promise: its "
            "disk is not in the member list; server 3 is down: gone",
        ),
        (
            heard(
                said(1, "looking", has_disk_space=False),
                said(2, "looking", votes=False, reset_reason="its folder was empty"),
                said(3, "looking", votes=False, reset_reason="log.1 is damaged"),
            ),
            "heard servers 1, 2, 3; the disks of servers 2, 3 have forgotten their promises, and "
            "the others are no majority that could tell what was acknowledged: bring a lost disk "
            "back, or what the folder `damaged` of a server has kept; "
            "server 1 its disk is full: it logs nothing until there is space; "
            "server 2 waits for its vote, because it may have forgotten a promise: its folder was "
            "empty; server 3 waits for its vote, because it may have forgotten a promise: log.1 is "
            "damaged",
        ),
        (
            heard(said(1, "looking"), said(2, STARTING, is_active=False, votes=False), "gone"),
            "server 2 is reading its disk, or waiting for it; server 3",
        ),
        (
            heard(said(1, "looking"), said(2, STARTING, failure="/d: 0 bytes are free"), "gone"),
            "server 2 is reading its disk, or waiting for it: /d: 0 bytes are free",
        ),
        (
            heard(said(1, "looking"), said(2, FAILED, failure="/d: No space"), "gone"),
            "heard server 1; 2 of 3 voters are needed, 1 can vote; "
            "server 2 is down: /d: No space; server 3 is down: gone",
        ),
        # Both are up, and do not reach each other.
        (
            heard(
                said(1, "looking", links={ServerId(2): "refused", ServerId(3): "no answer"}),
                said(2, "looking", links={ServerId(1): LINKED, ServerId(3): "no answer"}),
                "gone",
            ),
            "server 1 does not reach server 2 (refused), 3 (no answer); server 3 is down: gone",
        ),
    ],
)
def test_the_status_says_why_there_is_no_leader(
    answers: dict[ServerId, ReplicaStatus | str], reason: str
) -> None:
    report = summarize("coord", answers)
    assert report.leader is None
    assert report.reason is not None
    assert reason in report.reason


def test_observers_count_in_no_majority() -> None:
    """Two of three voters are down: the observers that look for a leader do not help."""
    alone = {ServerId(i): "no answer" for i in (2, 3)} | {ServerId(4): LINKED}
    watches = {ServerId(1): LINKED, **{ServerId(i): "no answer" for i in (2, 3, 5)}}
    answers = heard(
        said(1, "looking", links=alone),
        "gone",
        "gone",
        said(4, "looking", votes=False, links=watches),
        said(5, "looking", votes=False, links={ServerId(i): LINKED for i in (1, 2, 3, 4)}),
    )
    report = summarize("coord", answers, {ServerId(4), ServerId(5)})
    assert report.reason == (
        "heard servers 1, 4, 5; 2 of 3 voters are needed, 1 can vote; "
        "server 1 does not reach server 2 (no answer), 3 (no answer); "
        "server 2 is down: gone; server 3 is down: gone; "
        "server 4 does not reach server 2 (no answer), 3 (no answer), 5 (no answer)"
    )


def test_a_server_that_is_no_member_is_told_and_counts_in_no_majority() -> None:
    answers = heard(said(1, "leader"), said(2, "observer", is_active=True), "it is dead")
    report = summarize("coord", answers, {ServerId(2), ServerId(3)}, {ServerId(2), ServerId(3)})
    assert report.leader == 1
    told = "is no member: it is about to join, or has left (raykeeper members)"
    assert [each.problem for each in report.servers] == ["", told, f"{told}; it is dead"]


def test_a_change_of_the_members_is_told() -> None:
    members = Members((ServerId(1),))
    plan = Plan(text="add server 2", begun_by="me", before=members, target=members)
    answers = heard(said(1, "leader", member_plan=msgspec.json.encode(plan)))
    assert summarize("coord", answers).change == plan
    assert summarize("coord", heard(said(1, "leader"))).change is None


def test_a_following_observer_lacks_nothing() -> None:
    answers = heard(said(1, "leader"), said(2, "observer", votes=False))
    report = summarize("coord", answers, {ServerId(2)})
    assert (report.leader, [server.role for server in report.servers]) == (
        1,
        ["leader", "observer"],
    )
    assert [server.problem for server in report.servers] == ["", ""]


def test_starting_counts_as_looking_and_failed_as_down() -> None:
    report = summarize("coord", heard(said(1, STARTING), said(2, FAILED), said(3, "observer")))
    assert [server.role for server in report.servers] == ["looking", "down", "observer"]
