"""Facts made of answers; tests/ray asks real servers and nodes."""

from typing import Any

import pytest
import ray
from msgspec.structs import replace
from ray.exceptions import GetTimeoutError, RayTaskError, WorkerCrashedError

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.replica_status import (
    FAILED,
    STARTING,
    ReplicaDescription,
    ReplicaStatus,
)
from raykeeper.clusters.doctor.fact_collection import (
    ahead_ms,
    ask_nodes,
    questions_for,
    server_facts,
    tls_of,
    usual_settings,
)
from raykeeper.clusters.doctor.node_inspection import NodeQuestion
from raykeeper.clusters.doctor.rules.facts import NodeFacts, ServerFacts
from raykeeper.links.jute_tls import TlsFiles
from raykeeper.zab.ids import Epoch, ServerId, Zxid

ONE = ServerId(1)
LATE = "no answer within 2 s"
DESCRIPTION = ReplicaDescription(
    ensemble="coord",
    ensemble_uuid="u",
    server_id=ONE,
    voters=(ONE,),
    folder="~/data/coord/1",
    node_id="n",
    value_bytes_max=1,
    session_timeout_min_ms=1,
    session_timeout_max_ms=1,
    settings={"name": "coord", "tick_ms": 500, "super_ids": ["scrypt:a:b"]},
)


def status(role: str = "leader", **more: Any) -> ReplicaStatus:
    return ReplicaStatus(server_id=ONE, role=role, pid=1, node_id="n2", wall_ms=1_500, **more)


def facts_of(answer: ReplicaStatus | str) -> ServerFacts:
    return server_facts(ONE, answer, DESCRIPTION, (1_000, 2_000))


def test_a_server_that_answers() -> None:
    facts = facts_of(
        status(
            is_active=True,
            leader=ONE,
            epoch=Epoch(2),
            last_zxid=Zxid(7),
            votes=True,
            digest=5,
            clients={"stream": 3, "ray": 2},
            clients_max=9,
            clients_to_move=4,
            niceness=15,
            priority_problem="it needs root",
            versions={"Ray": "2.60.0"},
        )
    )
    assert facts == ServerFacts(
        server_id=ONE,
        role="leader",
        is_active=True,
        leader=ONE,
        epoch=Epoch(2),
        zxid=Zxid(7),
        votes=True,
        digest=5,
        node_id="n2",
        folder="~/data/coord/1",
        clients=5,
        clients_max=9,
        clients_to_move=4,
        niceness=15,
        priority_problem="it needs root",
        versions={"Ray": "2.60.0"},
        settings=facts.settings,
    )
    assert facts.settings["tick_ms"] == 500 and "name" not in facts.settings
    assert "scrypt" not in str(facts.settings)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (LATE, LATE),
        (status(FAILED, failure="the folder is foreign"), "failed to start: the folder is foreign"),
        (status(STARTING), "is reading its disk, or waiting for it"),
        (status(STARTING, failure="full"), "is reading its disk, or waiting for it: full"),
    ],
)
def test_a_server_that_is_not_ready_tells_why(answer: ReplicaStatus | str, problem: str) -> None:
    facts = facts_of(answer)
    assert (facts.problem, facts.is_active, facts.folder) == (problem, False, "~/data/coord/1")
    assert facts.node_id == ("n" if isinstance(answer, str) else "n2")


def test_a_server_of_which_only_the_others_know() -> None:
    assert server_facts(ONE, "not started", None, (0, 0)) == ServerFacts(
        server_id=ONE, problem="not started"
    )


def test_closed_ports_are_told_with_their_reasons() -> None:
    facts = facts_of(status(zookeeper_problem="p", zookeeper_tls_problem="t", admin_problem="a"))
    assert facts.port_problems == (
        "takes no clients of ZooKeeper: it p",
        "takes no clients of ZooKeeper over TLS: it t",
        "has no admin server: a",
    )


@pytest.mark.parametrize(
    ("wall", "ahead"), [(1_000, 0), (2_000, 0), (2_500, 500), (400, -600), (0, 0)]
)
def test_a_clock_is_ahead_only_as_far_as_that_is_certain(wall: int, ahead: int) -> None:
    assert ahead_ms(wall, 1_000, 2_000) == ahead


def test_the_usual_settings_are_those_of_most_servers() -> None:
    known = ServerFacts(server_id=ONE, settings={"a": 1, "b": {"label": "x"}})
    other = replace(known, settings={"a": 2, "b": {"label": "x"}, "c": 3})
    assert usual_settings([other, known, known]) == {"a": 1, "b": {"label": "x"}, "c": 3}
    assert usual_settings([ServerFacts(server_id=ONE)]) == {}


def test_the_files_of_the_port_over_tls_matter_if_there_is_one() -> None:
    files = {f"zookeeper_tls_{kind}": f"/{kind}" for kind in ("certificate", "key", "authority")}
    assert tls_of({"zookeeper_tls_port": 0, **files}) is None
    assert tls_of({"zookeeper_tls_port": 2281, **files}) == TlsFiles(
        "/certificate", "/key", "/authority"
    )
    assert tls_of({}) is None


class Asked:
    """What `ray.remote` returns, and the task that it starts; asks nobody."""

    def options(self, **_: object) -> "Asked":
        return self

    def remote(self, *_: object) -> "Asked":
        return self


NODE_ID = "ab" * 28
QUESTION = NodeQuestion(node_id=NODE_ID, name="host/n", data_dir="", ensemble="coord")
ANSWER = NodeFacts(node_id=NODE_ID, name="host/n", load_percent=7)


def raised_by_a_task(cause: Exception) -> Exception:
    error: Exception = RayTaskError("examine_node", "", cause).as_instanceof_cause()
    return error


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (GetTimeoutError("late"), "no answer within 7 s"),
        (WorkerCrashedError(), "runs no task: WorkerCrashedError"),
        (
            raised_by_a_task(ModuleNotFoundError("No module named 'raykeeper'")),
            "cannot be examined: ModuleNotFoundError(\"No module named 'raykeeper'\")",
        ),
        (raised_by_a_task(StorageError("the disk is gone")), "the disk is gone"),
    ],
)
def test_every_way_in_which_a_node_does_not_answer_has_words(
    monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str
) -> None:
    def fail(_: object, timeout: float) -> None:
        raise error

    cancelled: list[object] = []
    monkeypatch.setattr(ray, "remote", lambda _: Asked())
    monkeypatch.setattr(ray, "wait", lambda refs, **_: (refs, []))
    monkeypatch.setattr(ray, "get", fail)
    monkeypatch.setattr(ray, "cancel", lambda ref, force: cancelled.append(ref))
    (facts,) = ask_nodes([QUESTION], 7)
    assert facts == NodeFacts(node_id=NODE_ID, name="host/n", problem=problem)
    assert len(cancelled) == isinstance(error, GetTimeoutError), "a late task is not left behind"
    monkeypatch.setattr(ray, "get", lambda _, timeout: ANSWER)
    assert ask_nodes([QUESTION, QUESTION], 7) == (ANSWER, ANSWER)
    assert ask_nodes([], 7) == ()


def test_each_live_node_is_asked_for_the_folders_of_its_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [
        {"NodeID": f"{each}" * 40, "NodeManagerHostname": f"h{each}", "Alive": each != "c"}
        for each in "abc"
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    servers = {
        ServerId(1): ServerFacts(server_id=ServerId(1), node_id="a" * 40),
        ServerId(2): ServerFacts(server_id=ServerId(2), problem="not started"),
    }
    first, second = questions_for("coord", {ONE: DESCRIPTION}, servers, {}, 10)
    assert (first.name, first.runs_here, first.servers) == ("ha/aaaaaaaa", True, (1, 2))
    # A server that runs nowhere may have its folder anywhere.
    assert (second.name, second.runs_here, second.servers) == ("hb/bbbbbbbb", False, (2,))
    assert {each.data_dir for each in (first, second)} == {"~/data"}
    assert first.reading_s < 10
    assert [each.data_dir for each in questions_for("coord", {}, servers, {}, 10)] == ["", ""]
