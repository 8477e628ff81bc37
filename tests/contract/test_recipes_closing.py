"""What was given up just before its client is closed: it goes back before the session ends."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from raykeeper.client import AsyncClient, Client
from raykeeper.client.recipes.queue import BaseQueue
from raykeeper.zab.ids import Zxid
from tests.contract.client_handles import Room, finish, open_awaited, open_blocking
from tests.contract.stream_room import StreamRoom


@pytest.fixture(params=[Room, StreamRoom])
def room(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Servers, over either carrier."""
    room = request.param()
    yield room
    room.close()


def queue_with_one(room: Any) -> tuple[str, Zxid]:
    """The element that the queue has, and the czxid of its parent."""
    client: Client = open_blocking(room)()
    client.queue("/q").put(b"1")
    (name,) = client.get_children("/q/elements")
    parent = client.exists("/q/elements")
    client.close()
    assert parent is not None
    return name, parent.czxid


def taken(room: Any) -> Any:
    client: Client = open_blocking(room)()
    try:
        return client.queue("/q").get_nowait()
    finally:
        client.close()


def test_an_element_not_taken_before_close_is_put_back(room: Any) -> None:
    element = queue_with_one(room)
    client: Client = open_blocking(room)()
    session = client._open_session()
    _, run = session.begin_flow(client.queue("/q")._take(*element))
    session.cancel_flow(run)
    client.close()
    assert taken(room) == b"1"


def test_an_element_of_a_cancelled_task_is_put_back(room: Any) -> None:
    element = queue_with_one(room)
    client: AsyncClient = open_awaited(room)()._thing

    async def crossed() -> None:
        queue: BaseQueue[Any] = client.queue("/q")
        taking = asyncio.ensure_future(client._run_flow(queue._take(*element), "take"))  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        await client.close()

    finish(crossed())
    assert taken(room) == b"1"


def test_an_interrupted_close_closes(room: Any) -> None:
    client: AsyncClient = open_awaited(room)()._thing

    async def crossed() -> None:
        run = client._session._flows.start(client.lock("/l")._acquire())
        run.cancel()
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await client.close()

    finish(crossed())
    assert client._session.has_ended()
