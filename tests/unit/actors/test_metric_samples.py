"""The numbers of a server under the names of its metrics: each metric has some, and none is new."""

from raykeeper.actors.metric_samples import (
    NOTES,
    SERVER_METRICS,
    ProcessLoad,
    process_samples,
    server_samples,
)
from raykeeper.actors.step_times import StepTimes
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.znodes.requests import GetData
from tests.harness.pure_servers import PureServers

LOAD = ProcessLoad(
    memory_bytes=5 << 20,
    cpu_s=2.5,
    loop_pause_s=0.25,
    gc_pause_s=0.125,
    gc_s=0.5,
    collections=7,
    sessions_max=900,
    connections_max=500,
)
FACTS = ProcessFacts(70, 1024, 300, 4000, (), disk_free_bytes=10, disk_bytes=100)


def test_each_metric_has_numbers_with_its_labels() -> None:
    servers = PureServers(3)
    caller = servers[3].caller()
    caller.ask(caller.create("/a"), caller.create("/a"), GetData(1, "/", True))
    times = StepTimes()
    times.force.add(1_000_000)
    samples = server_samples(servers[3].server.metrics(), times) | process_samples(LOAD, FACTS)
    labels = {metric.name: len(metric.labels) for metric in SERVER_METRICS}
    assert {name: len(values) for name, values in samples} | {NOTES: 1} == labels
    assert all(isinstance(value, int | float) for value in samples.values())

    def value(name: str, *labels: str) -> float:
        return samples[f"raykeeper_{name}", labels]

    assert (value("role", "leader"), value("role", "follower")) == (1, 0)
    assert (value("voters"), value("synced_voters"), value("linked_servers")) == (3, 3, 2)
    assert (value("requests", "create", "ok"), value("requests", "create", "node_exists")) == (1, 1)
    assert (value("follower_lag_txns", "1"), value("watches"), value("sessions")) == (0, 1, 1)
    assert value("request_seconds_bucket", "update", "+Inf") == 2
    assert value("request_seconds_bucket", "read", "0.001") == 1
    assert value("stage_seconds_bucket", "force", "0.001024") == 1
    assert value("stage_seconds_sum", "force") == 0.001
    assert value("stage_seconds_bucket", "quorum", "+Inf") > 0
    assert (value("disk_free_bytes"), value("open_files"), value("gc_seconds")) == (10, 70, 0.5)


def test_a_follower_has_no_learners_and_facts_may_be_unknown() -> None:
    samples = server_samples(PureServers(3)[1].server.metrics(), StepTimes())
    assert samples["raykeeper_synced_voters", ()] == 0
    assert not [key for key in samples if key[0] == "raykeeper_follower_lag_txns"]
    names = {name for name, _ in process_samples(LOAD, None)}
    assert "raykeeper_memory_bytes" in names
    assert "raykeeper_log_bytes" not in names


def test_no_two_metrics_have_one_name() -> None:
    names = [metric.name for metric in SERVER_METRICS]
    assert len(set(names)) == len(names)
