"""An ensemble on one node: launch, attach, status, and handles in every kind of process."""

import asyncio
import os
import pickle
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import ray

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.client import AsyncClient, connect
from raykeeper.client.errors import ConnectionLossError, WrongContextError
from raykeeper.client.ray_lookups import find_actor
from raykeeper.clusters import (
    ConfigError,
    Ensemble,
    EnsembleConfig,
    EnsembleNotFoundError,
    EnsembleStatus,
    SettingsDifferError,
    attach,
    launch,
    list_ensembles,
)
from raykeeper.clusters.actor_calls import call_actors, find_replicas
from raykeeper.links.ray_names import tracker_name
from raykeeper.zab.ids import ServerId
from tests.ray import programs
from tests.ray.conftest import Launch, eventually, new_name


def of_three(ensemble: Ensemble) -> EnsembleStatus | None:
    """The status, once all three serve."""
    report = ensemble.status()
    roles = sorted(server.role for server in report.servers)
    return report if roles == ["follower", "follower", "leader"] else None


def test_status_shows_every_server(shared: Ensemble) -> None:
    with shared.connect() as client:
        client.create("/status", b"x")
        client.exists("/status", watch=lambda event: None)
        report = eventually(lambda: of_three(shared))
    assert (report.name, report.reason) == (shared.name, None)
    assert [server.server_id for server in report.servers] == [1, 2, 3]
    by_id = {server.server_id: server for server in report.servers}
    assert report.leader is not None
    leader = by_id[report.leader]
    assert (leader.role, leader.sessions) == ("leader", 1)
    assert {server.epoch for server in report.servers} == {leader.epoch} != {0}
    assert leader.znodes >= 2
    assert leader.last_zxid > 0
    assert leader.outstanding == 0
    assert sum(server.watches for server in report.servers) == 1
    assert len({server.pid for server in report.servers}) == 3
    assert {server.node_id for server in report.servers} == {
        ray.get_runtime_context().get_node_id()
    }


def test_launch_is_idempotent(shared: Ensemble) -> None:
    """A setting that the caller does not state may be any: here the folder is no default one."""
    before = [server.pid for server in shared.status().servers]
    again = launch(name=shared.name)
    assert again == shared
    assert [server.pid for server in again.status().servers] == before


def test_launch_refuses_other_settings_than_those_of_the_running_ensemble(
    shared: Ensemble, tmp_path: Path
) -> None:
    described = shared.describe()
    assert described is not None
    with pytest.raises(SettingsDifferError) as raised:
        launch(name=shared.name, data_dir=tmp_path, servers=5, tick_ms=700)
    assert [str(each) for each in raised.value.differences] == [
        "servers: runs with 3, asked for 5",
        f"data_dir: runs with {described.settings['data_dir']}, asked for {tmp_path}",
        "tick_ms: runs with 500, asked for 700",
    ]
    with pytest.raises(ConfigError, match="servers: runs with 3, asked for 1"):
        launch(name=shared.name, servers=1)
    with pytest.raises(ConfigError, match="links: runs with auto, asked for ray"):
        launch(EnsembleConfig(name=shared.name, links="ray"))
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_a_launch_adds_runs_like_the_others(launch_one: Launch) -> None:
    """Server 3 is killed for good; a launch that states the name alone brings it back."""
    ensemble = launch_one(tick_ms=400, links="ray")
    ray.kill(find_replica(ensemble.name, ServerId(3)), no_restart=True)
    eventually(lambda: 3 not in find_replicas(ensemble.name))
    launch(name=ensemble.name)
    answers = call_actors(find_replicas(ensemble.name).values(), "describe")
    assert [answer.settings for answer in answers] == [answers[0].settings] * 3
    assert (answers[2].settings["tick_ms"], answers[2].settings["links"]) == (400, "ray")
    assert len({str(Path(answer.folder).parent) for answer in answers}) == 1


def test_launch_reads_a_file(ray_session: str, tmp_path: Path) -> None:
    """A launch without time for the folder says so, and the next one goes on."""
    name = new_name()
    file = tmp_path / "one.yaml"
    file.write_text(f"name: {name}\nservers: 1\ndata_dir: here\n")
    with pytest.raises(StorageError, match="has not made the folder of server 1 within 0 s: Ray"):
        launch(file, timeout_s=0.0)
    ensemble = launch(file)
    assert [server.role for server in ensemble.status().servers] == ["leader"]
    assert (tmp_path / "here" / name / "1" / "identity").is_file()
    ensemble.shutdown()


def test_attach_finds_and_list_lists_ensembles(shared: Ensemble) -> None:
    assert attach(shared.name) == shared
    assert shared.name in list_ensembles()
    with pytest.raises(EnsembleNotFoundError, match=rf"no ensemble \"nowhere\".*{shared.name}"):
        attach("nowhere")


def test_a_handle_of_a_stopped_ensemble_raises(ray_session: str) -> None:
    gone = Ensemble("gone")
    for call in (gone.status, gone.connect, gone.wait_for_leader):
        with pytest.raises(EnsembleNotFoundError, match='no ensemble "gone"'):
            call()
    gone.shutdown()  # there is nothing to do


def test_the_handle_works_in_tasks_and_actors(shared: Ensemble) -> None:
    def write(ensemble: Ensemble, path: str) -> str:
        with ensemble.connect() as client:
            return client.create(path, str(os.getpid()).encode())

    class Writer:
        def __init__(self, ensemble: Ensemble) -> None:
            self._client = ensemble.connect()

        def write(self, path: str) -> str:
            return self._client.create(path, b"actor", ephemeral=True)

    assert pickle.loads(pickle.dumps(shared)) == shared
    task: Any = ray.remote(num_cpus=0)(write)
    assert ray.get(task.remote(shared, "/from-task")) == "/from-task"
    actor_class: Any = ray.remote(num_cpus=0)(Writer)
    actor = actor_class.remote(shared)
    assert ray.get(actor.write.remote("/from-actor")) == "/from-actor"
    with shared.connect() as client:
        assert client.get("/from-task")[0] != str(os.getpid()).encode()
        assert client.get("/from-actor")[0] == b"actor"
        ray.kill(actor)


def test_an_async_actor_awaits_its_client(shared: Ensemble) -> None:
    class AsyncWriter:
        async def write(self, name: str, count: int) -> list[str]:
            async with await AsyncClient.connect(name) as client:
                await client.create("/async")
                paths = [client.create("/async/n-", sequence=True) for _ in range(count)]
                return list(await asyncio.gather(*paths))

        async def loop(self) -> str:
            return type(asyncio.get_running_loop()).__module__

        async def block(self, name: str) -> str:
            try:
                connect(name)
            except WrongContextError as error:
                return str(error)
            return "no error"

    actor_class: Any = ray.remote(num_cpus=0)(AsyncWriter)
    actor = actor_class.remote()
    written = ray.get(actor.write.remote(shared.name, 50))
    assert written == [f"/async/n-{number:010d}" for number in range(50)]
    assert "AsyncClient" in ray.get(actor.block.remote(shared.name))
    assert ray.get(actor.loop.remote()) == "uvloop", "Ray's actors take it by themselves"


def test_connect_joins_ray(shared: Ensemble, driver_environment: dict[str, str]) -> None:
    program = f"""
        from raykeeper.client import connect
        with connect({shared.name!r}) as client:
            print(client.create("/from-driver", b"x"))
    """
    done = programs.run([sys.executable, "-c", textwrap.dedent(program)], driver_environment)
    assert (done.returncode, done.stdout) == (0, "/from-driver\n"), done.stderr


def test_threads_may_join_ray_at_once(shared: Ensemble, driver_environment: dict[str, str]) -> None:
    program = f"""
import threading
from raykeeper.client import connect
begin, created = threading.Barrier(4), [""] * 4
def work(number):
    begin.wait()
    with connect({shared.name!r}) as client:
        created[number] = client.create("/join-{{}}".format(number), ephemeral=True)
threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*created)
"""
    done = programs.run([sys.executable, "-c", program], driver_environment)
    assert done.stdout.split() == [f"/join-{i}" for i in range(4)], done.stderr


def test_a_larger_value_limit_reaches_the_client(launch_one: Launch) -> None:
    ensemble = launch_one(servers=1, value_limit_bytes=3 << 20)
    with ensemble.connect() as client:
        client.create("/large", bytes(3 << 20))
        assert client.get("/large")[1].data_length == 3 << 20


@pytest.mark.parametrize("limit", ["clients_max", "sessions_max"])
def test_one_client_too_many_is_told_the_setting_and_a_higher_one_takes_it(
    launch_one: Launch, limit: str
) -> None:
    name = new_name()
    ensemble = launch_one(name, servers=1, **{limit: 1})
    (server,) = ensemble.status().servers
    assert getattr(server, limit) == 1
    with (
        ensemble.connect(),
        pytest.raises(ConnectionLossError, match=f"the setting {limit} is 1, .* raise it in"),
    ):
        ensemble.connect(timeout_s=1.0)
    ensemble.shutdown()
    ensemble = launch_one(name, servers=1, **{limit: 2})
    with ensemble.connect() as one, ensemble.connect() as other:
        one.create("/a")
        assert one.session_id != other.session_id


def test_two_launches_at_once_make_one_ensemble(ray_session: str, tmp_path: Path) -> None:
    name = new_name()
    task: Any = ray.remote(num_cpus=0)(launch)
    launches = [task.remote(name=name, data_dir=str(tmp_path)) for _ in range(3)]
    ensembles = ray.get(launches)
    assert ensembles == [Ensemble(name)] * 3
    report = eventually(
        lambda: (
            (r := ensembles[0].status()).leader is not None
            and all(server.role in ("leader", "follower") for server in r.servers)
            and r
        )
    )
    assert [server.problem for server in report.servers] == ["", "", ""]
    ensembles[0].shutdown()


def test_a_server_and_its_tracker_have_the_niceness_of_the_setting(launch_one: Launch) -> None:
    """Ray starts them with 15; threads that Ray has begun before have that as well."""
    ensemble = launch_one(servers=1, niceness=5)
    ((server, status),) = ensemble.ask_all()[1].items()
    assert isinstance(status, ReplicaStatus)
    if status.priority_problem:
        assert (status.niceness, "CAP_SYS_NICE" in status.priority_problem) == (15, True)
        pytest.skip(status.priority_problem)
    tracker = eventually(lambda: find_actor(tracker_name(ensemble.name, server)))
    for pid in (status.pid, ray.get(tracker.pid.remote())):
        threads = [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
        assert max(os.getpriority(os.PRIO_PROCESS, thread) for thread in threads) == 5
    assert status.niceness == 5
