"""LeaderView: whoever waits for a change is woken by it, or by the end of the session."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from raykeeper.client.client import Client
from raykeeper.client.errors import InvalidValueError
from raykeeper.client.ray_tools.leader_view import LeaderView
from tests.contract.client_handles import Room, open_blocking

PATH = "/services/x"


@pytest.fixture
def clients() -> Iterator[tuple[Client, Client]]:
    opened = open_blocking(Room())
    clients = opened(), opened()
    yield clients
    for client in clients:
        client.close()


def test_it_tells_who_leads_and_of_each_change(clients: tuple[Client, Client]) -> None:
    client, other = clients
    view = LeaderView(client, PATH)

    async def main() -> None:
        first = await asyncio.to_thread(other.election(PATH, b"first").lead)
        await view.change(None)
        assert view.leader is not None
        assert (view.leader.identifier, view.leader.epoch) == (b"first", 1)
        changing = [asyncio.create_task(view.change(view.leader)) for _ in range(3)]
        await asyncio.sleep(0)
        changing[0].cancel()
        await asyncio.to_thread(first.resign)
        await asyncio.gather(*changing[1:])
        assert view.leader is None
        assert view._waiting == []

    asyncio.run(main())


def test_it_is_over_once_it_cannot_be_told(clients: tuple[Client, Client]) -> None:
    client, other = clients
    view = LeaderView(client, PATH)
    assert not view.is_over
    first = other.election(PATH, b"first").lead()
    other.set(PATH, b"garbage")

    async def main() -> None:
        async with asyncio.timeout(60):
            while not view.is_over:
                await view.change(view.leader)

    asyncio.run(main())
    with pytest.raises(InvalidValueError):
        LeaderView(client, PATH)
    assert client._session is not None
    assert len(client._session._listeners) == 1  # of the first view
    first.resign()


class ClosedLoop:
    """A loop that is closed while it is asked."""

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, *call: object) -> None:
        raise RuntimeError("Event loop is closed")


def test_a_loop_that_ends_meanwhile_keeps_nobody_asleep(clients: tuple[Client, Client]) -> None:
    view = LeaderView(clients[0], PATH)

    async def main() -> None:
        gone: Any = ClosedLoop()
        view._waiting.append((gone, asyncio.get_running_loop().create_future()))
        changing = asyncio.create_task(view.change(None))
        await asyncio.sleep(0)
        await asyncio.to_thread(clients[1].election(PATH, b"first").lead)
        await asyncio.wait_for(changing, 60)

    asyncio.run(main())


def test_the_end_of_the_session_wakes_too(clients: tuple[Client, Client]) -> None:
    client, _ = clients
    view = LeaderView(client, PATH)

    async def main() -> None:
        changing = asyncio.create_task(view.change(None))
        await asyncio.sleep(0)
        await asyncio.to_thread(client.close)
        await changing
        await view.change(None)  # at once: no change would be told

    asyncio.run(main())
