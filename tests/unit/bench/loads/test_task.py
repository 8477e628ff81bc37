"""A task survives the command line, and a report is what the generator in Java writes."""

import msgspec
import pytest
from msgspec.structs import asdict

from raykeeper.bench.experiment_run import patience_s, split_task
from raykeeper.bench.loads.task import (
    GO,
    LoadTask,
    changed_task,
    decode_report,
    parse_task,
    task_arguments,
    where_of,
)


def test_a_task_survives_the_command_line() -> None:
    task = LoadTask(
        kind="latency", client="kazoo", where="a:1,b:2", number=3, seconds=0.5, value_bytes=100
    )
    assert "where=a:1,b:2" in task_arguments(task)
    assert parse_task(task_arguments(task)) == task


def test_participants_are_those_of_all_processes() -> None:
    task = LoadTask(
        kind="barriers", client="auto", where="main", number=0, clients=5, participants=5, count=9
    )
    shares = split_task(task, 2)
    assert [(each.number, each.clients, each.participants) for each in shares] == [
        (0, 3, 5),
        (1, 2, 5),
    ]
    assert patience_s(shares[0]) > patience_s(LoadTask(**{**asdict(shares[0]), "participants": 0}))


def test_a_line_changes_fields_for_a_round() -> None:
    task = LoadTask(kind="mixed", client="auto", where="a;b", number=3, seconds=0.5)
    changed = changed_task(task, "reads_percent=50 seconds=2.5")
    assert (changed.reads_percent, changed.seconds, changed.where) == (50, 2.5, "a;b")
    assert changed_task(task, GO) == task
    with pytest.raises(msgspec.ValidationError):
        changed_task(task, "reads_percent=many")


def test_each_client_has_a_place_in_turn() -> None:
    task = LoadTask(kind="mixed", client="auto", where="a;b,c;d", number=3, clients=7)
    taken = [
        where_of(share, client) for share in split_task(task, 3) for client in range(share.clients)
    ]
    assert taken == ["a", "b,c", "d", "a", "b,c", "d", "a"]
    assert where_of(parse_task([*task_arguments(task), "where=a,b"]), 5) == "a,b"


def test_malformed_words_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        parse_task(["kind=nothing", "client=kazoo", "where=", "number=1"])


def test_a_report_is_read() -> None:
    report = decode_report(
        '{"seconds":1.500000,"cpu_s":0.700000,"threads":4,"done":2,"errors":0,'
        '"counts":[[20,1,0],[21,0,1]],"pauses":[[1.000000,1.100000]],'
        '"timings":{"linearizable get":[[1.000000,250.000000]]}}'
    )
    assert (report.done, report.threads) == (2, 4)
    assert report.counts == [(20, 1, 0), (21, 0, 1)]
    assert report.timings == {"linearizable get": [(1.0, 250.0)]}
