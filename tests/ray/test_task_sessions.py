"""Sessions of Ray's tasks and actors: they end with the call, with the task, with the actor."""

import builtins
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from raykeeper.client import AsyncClient, Client, connect, with_session
from raykeeper.client.errors import LostError, WaitTimeoutError
from raykeeper.clusters import Ensemble
from tests.contract.blocking_calls import not_refused
from tests.ray.conftest import eventually

PATIENT_S = 40.0  # a session timeout that no test waits for


@ray.remote(num_cpus=4, max_retries=20, retry_exceptions=[LookupError])
def careless(ensemble: str, path: str, how: str) -> tuple[int, list[str]]:
    """Take a lock and leave it to Ray; the process, and the states of sessions that it kept."""
    kept: list[Client] = builtins.__dict__.setdefault(f"kept {path}", [])
    client = connect(ensemble, session_timeout_s=PATIENT_S)
    states = [str(each.state) for each in kept]
    kept.append(client)
    try:
        client.lock(path).acquire(0)
    except WaitTimeoutError:
        return os.getpid(), ["the lock is not free"]
    if how == "fail" and states == []:
        raise LookupError("Ray tries again")
    return os.getpid(), states


def test_a_session_left_open_by_a_task_ends_with_it(shared: Ensemble) -> None:
    path = "/locks/forgotten"
    ray.get(careless.remote(shared.name, path, "return"))
    with shared.connect() as client:
        client.lock(path).acquire(PATIENT_S / 2).release()


@pytest.mark.smoke
def test_the_next_task_of_the_worker_finds_it_ended(shared: Ensemble) -> None:
    # Ray gives a worker that it has leased the next of equal tasks at once.
    found = ray.get([careless.remote(shared.name, "/locks/next", "return") for _ in range(6)])
    by_process: dict[int, int] = {}
    for pid, states in found:
        assert set(states) <= {"LOST"}, found
        by_process[pid] = max(by_process.get(pid, 0), len(states))
    assert max(by_process.values()) > 0, "no worker was used again"


def test_a_retried_task_is_another_task(shared: Ensemble) -> None:
    _, states = ray.get(careless.remote(shared.name, "/locks/again", "fail"))
    assert states == ["LOST"]


@ray.remote(num_cpus=0)
class Keeper:
    """An ordinary actor with one session."""

    def __init__(self, ensemble: str) -> None:
        self.client = connect(ensemble, session_timeout_s=PATIENT_S)

    def create(self, path: str) -> int:
        self.client.create(path, ephemeral=True, makepath=True)
        return self.client.session_id

    def state(self) -> str:
        return str(self.client.state)


def test_the_session_of_an_actor_lives_as_long_as_it(shared: Ensemble) -> None:
    keeper: Any = Keeper.remote(shared.name)  # type: ignore[attr-defined]
    session_id = ray.get(keeper.create.remote("/of-actor/a"))
    assert session_id == ray.get(keeper.create.remote("/of-actor/b"))
    # Time for the watch over tasks, if it took an actor's method for one.
    ray.get(careless.remote(shared.name, "/locks/meanwhile", "return"))
    assert ray.get(keeper.state.remote()) == "CONNECTED"
    with shared.connect() as client:
        assert client.exists("/of-actor/a") is not None
    ray.kill(keeper)


def make(client: Any, path: str) -> Any:
    return client.create(path, ephemeral=True, makepath=True)


def decorated(ensemble: str) -> tuple[Any, Any, Any, Any]:
    """A task, one that yields, an actor and an async actor, each of whose calls has a session."""

    @ray.remote(num_cpus=0)
    @with_session(ensemble, session_timeout_s=PATIENT_S)
    def task(client: Client, path: str) -> str:
        made: str = make(client, path)
        return made

    @ray.remote(num_cpus=0)
    @with_session(ensemble, session_timeout_s=PATIENT_S)
    def stream(client: Client, path: str) -> Iterator[str]:
        for part in ("a", "b"):
            yield make(client, path + part)

    @ray.remote(num_cpus=0)
    class Plain:
        @with_session(ensemble, session_timeout_s=PATIENT_S)
        def method(self, client: Client, path: str) -> str:
            made: str = make(client, path)
            return made

    @ray.remote(num_cpus=0)
    class Async:
        @with_session(ensemble, session_timeout_s=PATIENT_S)
        async def method(self, path: str, *, client: AsyncClient) -> str:
            made: str = await make(client, path)
            return made

        @with_session(ensemble, session_timeout_s=PATIENT_S)
        async def stream(self, path: str, *, client: AsyncClient) -> AsyncIterator[str]:
            for part in ("a", "b"):
                yield await make(client, path + part)

    return task, stream, Plain, Async


@pytest.mark.smoke
def test_each_call_of_a_decorated_function_has_its_session(shared: Ensemble) -> None:
    task, stream, plain, awaited = decorated(shared.name)
    actor, async_actor = plain.remote(), awaited.remote()
    made = [
        ray.get(task.remote("/calls/task")),
        ray.get(task.remote(path="/calls/task")),
        *(ray.get(ref) for ref in stream.remote("/calls/stream-")),
        ray.get(actor.method.remote("/calls/method")),
        ray.get(async_actor.method.remote("/calls/method")),
        *(ray.get(ref) for ref in async_actor.stream.remote(path="/calls/stream-")),
    ]
    names = ["task", "task", "stream-a", "stream-b", "method", "method", "stream-a", "stream-b"]
    assert made == [f"/calls/{name}" for name in names], "none was left by the call before"
    with shared.connect() as client:
        eventually(lambda: client.get_children("/calls") == [])
    for each in (actor, async_actor):
        ray.kill(each)


@ray.remote(num_cpus=0)
class Awaiting:
    """An async actor in which somebody uses the blocking client."""

    async def refused(self, client: Client, ensemble: str) -> list[str]:
        accepted = []
        try:
            connect(ensemble)
            accepted.append("connect")
        except Exception as error:
            assert type(error).__name__ == "WrongContextError", error
        return accepted + not_refused(client)

    def plain_method(self, client: Client) -> list[str]:
        return not_refused(client)  # Ray runs it on the loop all the same

    async def still_answers(self, ensemble: str) -> str:
        async with await AsyncClient.connect(ensemble) as client, client.lock("/locks/async"):
            return str(client.state)


def test_blocking_calls_in_an_async_actor_are_refused(shared: Ensemble) -> None:
    actor: Any = Awaiting.remote()  # type: ignore[attr-defined]
    with shared.connect() as client:
        assert ray.get(actor.refused.remote(client, shared.name)) == []
        assert ray.get(actor.plain_method.remote(client)) == []
    assert ray.get(actor.still_answers.remote(shared.name)) == "CONNECTED"
    ray.kill(actor)


@pytest.fixture(scope="module")
def links() -> str:
    """One carrier will do."""
    return "direct"


@ray.remote(num_cpus=0)
class Service:
    """Leads again and again, and writes down each epoch; between two it may be stopped."""

    def by_hand(self, ensemble: str, path: str, folder: Path) -> list[int]:
        epochs: list[int] = []
        while True:
            try:
                with connect(ensemble, session_timeout_s=1) as client:
                    return _lead(client, path, folder, epochs)
            except LostError:
                continue

    def by_helper(self, ensemble: str, path: str, folder: Path) -> list[int]:
        serve = with_session(ensemble, session_timeout_s=1, restart_on_loss=True)(_lead)
        return serve(path=path, folder=folder, epochs=[])


def _lead(client: Client, path: str, folder: Path, epochs: list[int]) -> list[int]:
    with client.election(path) as leadership:
        epochs.append(leadership.epoch)
        (folder / f"{len(epochs)}.new").write_text(str(os.getpid()))
        (folder / f"{len(epochs)}.new").rename(folder / str(len(epochs)))
        while len(epochs) == 1:
            client.exists("/")  # tells of the end of the session, as `lost` would
        return epochs


@pytest.mark.parametrize("way", ["by_hand", "by_helper"])
def test_a_service_paused_beyond_its_session_leads_again(
    shared: Ensemble, tmp_path: Path, way: str
) -> None:
    path = f"/services/{way}"
    running = getattr(Service.remote(), way).remote(shared.name, path, tmp_path)
    eventually((tmp_path / "1").exists)
    pid = int((tmp_path / "1").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        with shared.connect() as client, client.election(path) as leadership:
            assert leadership.epoch == 2
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(running, timeout=60) == [1, 3]
