"""ElectedActor: its settings. What it does is in tests/ray/test_ray_tools.py."""

import asyncio
import pickle
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from raykeeper.client.client import Client
from raykeeper.client.errors import BadArgumentsError, InvalidValueError, WrongContextError
from raykeeper.client.ray_tools import ElectedActor
from raykeeper.client.ray_tools.candidate import CallOutcome, Identity, encode_identity
from raykeeper.client.ray_tools.elected_actor import LeaderView, _Call, _identity_of
from raykeeper.client.recipes.election import Leader
from raykeeper.zab.ids import Zxid
from tests.contract.client_handles import Room, open_blocking

SERVICE = "/services/x"


class Service:
    """Of a user."""


@pytest.mark.parametrize(
    "settings",
    [{"candidates": 0}, {"candidates": 101}, {"candidates": True}, {"promise": "exactly_once"}],
)
def test_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadArgumentsError):
        ElectedActor("coord", "/x", Service, **settings)


def test_an_elected_actor_pickles_as_its_settings() -> None:
    service = ElectedActor("coord", "/x", Service, 1, candidates=3, b=2)
    copy = pickle.loads(pickle.dumps(service))
    assert vars(copy).keys() == vars(service).keys()
    assert copy._actor_class == (Service, (1,), {"b": 2})
    assert copy._names() == ["coord/x/0", "coord/x/1", "coord/x/2"]


def test_an_elected_actor_pickles_during_a_lookup() -> None:
    service = ElectedActor("coord", "/x")
    service._look_up._running[("coord/x/0",)] = Future()
    assert pickle.loads(pickle.dumps(service))._look_up._running == {}


def test_an_elected_actor_without_a_class_only_calls() -> None:
    with pytest.raises(BadArgumentsError, match="no class to start"):
        ElectedActor("coord", "/x").start()


def test_an_event_loop_is_not_blocked() -> None:
    async def main() -> None:
        service = ElectedActor("coord", "/x", Service)
        for blocking in (service.start, service.stop, service.leader, lambda: service.call("a")):
            with pytest.raises(WrongContextError):
                blocking()

    asyncio.run(main())


class Dying:
    """A handle of a candidate, whose method fails in the way of Ray."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.serve = self

    async def remote(self, *args: Any) -> Any:
        raise self._error


class View:
    """Nobody else comes to lead."""

    async def change(self, seen: object) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("is_raised_by_the_method", [False, True])
def test_the_death_of_an_actor_called_by_a_method_deposes_nobody(
    is_raised_by_the_method: bool,
) -> None:
    error: Exception = ActorDiedError()
    if is_raised_by_the_method:
        error = RayTaskError("serve", "traceback", error).as_instanceof_cause()
        assert isinstance(error, ActorDiedError)
    service = ElectedActor("coord", "/x", Service)
    service._handles["coord/x/0"] = Dying(error)
    leader = Leader(encode_identity(Identity("coord/x/0", "life")), 1, Zxid(1))
    asking = service._send(_Call("method", (), {}), leader, View())  # type: ignore[arg-type]
    if is_raised_by_the_method:
        with pytest.raises(RayTaskError):
            asyncio.run(asking)
    else:
        assert asyncio.run(asking) == (CallOutcome.DEPOSED, None)


def test_another_election_at_the_path_is_an_error() -> None:
    identity = Identity("coord/x/0", "life")
    assert _identity_of("/x", Leader(encode_identity(identity), 1, Zxid(1))) == identity
    with pytest.raises(InvalidValueError, match="is no elected actor"):
        _identity_of("/x", Leader(b"worker 1", 1, Zxid(1)))


# LeaderView: a coroutine that waits for a change is woken by it, or by the end of the session.


@pytest.fixture
def clients() -> Iterator[tuple[Client, Client]]:
    opened = open_blocking(Room())
    clients = opened(), opened()
    yield clients
    for client in clients:
        client.close()


def test_it_tells_who_leads_and_of_each_change(clients: tuple[Client, Client]) -> None:
    client, other = clients
    view = LeaderView(client, SERVICE)

    async def main() -> None:
        first = await asyncio.to_thread(other.election(SERVICE, b"first").lead)
        await view.change(None)
        assert view.leader is not None
        assert (view.leader.identifier, view.leader.epoch) == (b"first", 1)
        changing = [asyncio.create_task(view.change(view.leader)) for _ in range(3)]
        await asyncio.sleep(0)
        changing[0].cancel()
        await asyncio.to_thread(first.resign)
        await asyncio.gather(*changing[1:])
        assert view.leader is None
        assert view._observation._changed._events == []

    asyncio.run(main())


def test_it_is_over_once_it_cannot_be_told(clients: tuple[Client, Client]) -> None:
    client, other = clients
    view = LeaderView(client, SERVICE)
    assert not view.is_over
    first = other.election(SERVICE, b"first").lead()
    other.set(SERVICE, b"garbage")

    async def main() -> None:
        async with asyncio.timeout(60):
            while not view.is_over:
                await view.change(view.leader)

    asyncio.run(main())
    with pytest.raises(InvalidValueError):
        LeaderView(client, SERVICE)
    first.resign()


def test_the_end_of_the_session_wakes_too(clients: tuple[Client, Client]) -> None:
    client, _ = clients
    view = LeaderView(client, SERVICE)

    async def main() -> None:
        changing = asyncio.create_task(view.change(None))
        await asyncio.sleep(0)
        await asyncio.to_thread(client.close)
        await changing
        await view.change(None)  # at once: no change would be told

    asyncio.run(main())
