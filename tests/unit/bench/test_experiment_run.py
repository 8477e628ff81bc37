"""Shares of a load, the note about the generator, progress and contexts of a run."""

import os
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from raykeeper.bench.experiment_run import (
    ExperimentRun,
    Measurement,
    bottleneck_note,
    cpu_s,
    patience_s,
    split_task,
    throughput,
    warm_columns,
    warm_up,
)
from raykeeper.bench.experiments.throughput import most_per_s
from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.bench.measures import WarmUp, WarmUpBounds
from raykeeper.bench.systems.contract import EnsembleShape
from raykeeper.bench.systems.raykeeper import Raykeeper
from raykeeper.bench.systems.zookeeper import ZooKeeper


def task(clients: int) -> LoadTask:
    return LoadTask(kind="mixed", client="kazoo", where="", number=7, clients=clients)


def report(cpu: float, threads: int = 1) -> LoadReport:
    return LoadReport(seconds=10.0, cpu_s=cpu, threads=threads)


def test_every_process_has_its_share_and_a_number_of_its_own() -> None:
    shares = split_task(task(7), 3)
    assert [(share.number, share.clients) for share in shares] == [(7, 3), (8, 2), (9, 2)]


def test_clients_are_counted_over_all_processes() -> None:
    assert [share.first_client for share in split_task(task(7), 3)] == [0, 3, 5]


def test_one_process_has_all_clients_of_a_library_with_threads() -> None:
    in_java = structs.replace(task(7), client="java")
    assert [(share.number, share.clients) for share in split_task(in_java, 6)] == [(7, 7)]


class NoServers:
    """An ensemble without processes."""

    shape = EnsembleShape(3)

    def pid(self, server: int) -> int:
        return 0

    def sidecar_pids(self) -> list[int]:
        return []


def warmed_by(
    bounds: WarmUpBounds, done: list[int], told: Path, **changes: float
) -> tuple[WarmUp, list[str]]:
    """Warm up with a generator that completes so much in each round of 2.5 s.

    Returns the outcome, and the lines that the generator was told.
    """
    program = (
        "told = []\n"
        f"for done in {done}:\n"
        "    print('ready', flush=True); told.append(input())\n"
        "    if told[-1] == 'end': break\n"
        '    print(\'{"seconds":2.5,"cpu_s":0,"done":\' + str(done) + \'}\', flush=True)\n'
        f"open({str(told)!r}, 'w').write('\\n'.join(told))"
    )
    servers: Any = NoServers()
    with LoadProcesses([sys.executable, "-c", program], [task(1)]) as load:
        warm = warm_up(bounds, servers, load, **changes)
    return warm, told.read_text().splitlines()


def test_a_system_is_warmed_until_its_rate_stands_still(tmp_path: Path) -> None:
    done = [10, 50, 80, 95, 100, 100, 100, 7, 7]
    warm, told = warmed_by(WarmUpBounds(10.0, 60.0), done, tmp_path / "told", reads_percent=50)
    assert warm == WarmUp(17.5, 39.5, is_steady=True)
    assert told == ["count=0 seconds=2.5 reads_percent=50"] * 7 + ["end"]
    assert warm_columns(warm) == {"warmed_s": 17.5, "warm_ops_per_s": 39.5, "warmed": "steady"}


def test_a_load_by_its_amount_warms_by_rounds_of_it(tmp_path: Path) -> None:
    warm, told = warmed_by(WarmUpBounds(2.0, 6.0), [1, 2, 4, 4], tmp_path / "told", count=20)
    assert told == ["count=20 seconds=0.5"] * 3 + ["end"]
    assert warm_columns(warm)["warmed"] == "still moving"


def test_every_process_has_a_client() -> None:
    assert [share.clients for share in split_task(task(2), 4)] == [1, 1]


def test_a_load_without_a_time_may_take_as_long_as_its_requests() -> None:
    assert patience_s(LoadTask(kind="mixed", client="", where="", number=0, seconds=60.0)) == 180
    assert patience_s(LoadTask(kind="latency", client="", where="", number=0, count=5_000)) == 1_120


def test_generators_without_a_core_left_are_the_limit() -> None:
    assert bottleneck_note([report(9.5), report(9.2)], 5.0, cores=8) == "the generator is the limit"
    assert bottleneck_note([report(9.5), report(5.0)], 5.0, cores=8) == ""


def test_a_generator_with_threads_needs_all_its_cores_to_be_the_limit() -> None:
    assert bottleneck_note([report(20.0, threads=4)], 5.0, cores=8) == ""
    assert bottleneck_note([report(38.0, threads=4)], 5.0, cores=8) == "the generator is the limit"


def test_generators_that_take_the_servers_cores_are_reported() -> None:
    note = "the generator takes most of the cores"
    assert bottleneck_note([report(7.0), report(5.0)], 7.0, cores=2) == note
    assert bottleneck_note([report(4.0), report(4.0)], 11.0, cores=2) == ""  # the servers do


def test_an_ended_process_took_no_time() -> None:
    assert cpu_s([0, 2**22 + 1]) == 0


def test_time_of_another_process_is_counted_finer_than_ticks() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        mine = time.process_time()
        both = cpu_s([os.getpid(), child.pid])
        assert mine < both
        child.communicate(b"")
    assert cpu_s([child.pid]) == 0
    started = cpu_s([os.getpid()])
    assert started < cpu_s([os.getpid()])  # ticks of 10 ms would be equal


def test_columns_cover_the_time_of_the_slowest_generator() -> None:
    reports = [
        LoadReport(seconds=4.0, cpu_s=1.0, errors=2),
        LoadReport(seconds=2.0, cpu_s=1.0, errors=1),
    ]
    columns = Measurement(reports, began=0.0, server_cpu_s={1: 2.0, 2: 4.0}).columns()
    assert columns["server_cores"] == 1.5
    assert columns["generator_cores"] == 0.5
    assert columns["errors"] == 3


def test_the_time_of_a_request_is_told_for_each_kind_of_process() -> None:
    reports = [report(1.0), report(3.0)]
    for each in reports:
        each.done = 100_000
    cpu = {1: 2.0, 2: 6.0, 3: 4.0}
    taken_us = Measurement(reports, 0.0, cpu, sidecars_cpu_s=1.0).us_per_request(leader=2)
    assert taken_us == {"leader_us": 30, "follower_us": 15, "sidecars_us": 5, "client_us": 20}
    assert most_per_s(taken_us, cores=1) == pytest.approx(33_333, rel=1e-4)
    assert most_per_s({**taken_us, "follower_us": 40.0}, cores=4) == 100_000
    alone = Measurement(reports, 0.0, {1: 2.0}).us_per_request(leader=1)
    assert "follower_us" not in alone
    assert most_per_s(alone, cores=2) == 200_000


def test_a_load_that_completed_nothing_has_no_time_of_a_request() -> None:
    measured = Measurement([report(1.0)], 0.0, {1: 2.0})
    assert most_per_s(measured.us_per_request(leader=1), cores=4) == 0


def test_throughput_leaves_out_the_last_requests() -> None:
    counts = [(20, 5, 5), (39, 0, 10), (40, 500, 500)]
    measured = Measurement([LoadReport(seconds=1.2, cpu_s=1.0, counts=counts)], 1.0, {1: 1.0})
    assert round(throughput(measured, seconds=1.0)) == 20


def test_other_systems_are_left_out_with_the_reason() -> None:
    ours, told = Raykeeper(), StringIO()
    run = ExperimentRun([ZooKeeper(), ours], Console(file=told), None)
    run.leave_out_others("it is too old")
    assert run.systems == [ours]
    assert told.getvalue() == "zookeeper is left out: it is too old\n"
