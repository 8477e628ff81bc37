"""A loop that survives a lost session, with both clients: as `@with_session` makes it."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from raykeeper.client import AsyncClient, Client
from raykeeper.client.context_decorator import context_decorator
from raykeeper.client.errors import LostError
from raykeeper.client.loop_thread import shared_loop
from raykeeper.client.restart import call_until_done, call_until_done_async
from raykeeper.client.with_session import _async_session, _client_inserter
from tests.contract.client_handles import Room, open_blocking, options_of
from tests.contract.stream_room import StreamRoom

DELAY_MAX_S = 0.01
WORDS = ["a", "b"]


@pytest.fixture(params=[Room, StreamRoom])
def room(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Servers, over either carrier."""
    room = request.param()
    yield room
    room.close()


def test_an_elected_service_restarts_after_its_session(room: Any) -> None:
    opener, sessions, epochs = open_blocking(room), [], []

    def serve(client: Client, words: list[str]) -> list[str]:
        with client.election("/leader") as leadership:
            sessions.append(client.session_id)
            epochs.append(leadership.epoch)
            if len(epochs) == 1:
                opener(client_id=client.client_id).close()  # ends the session
            done = []
            for word in words:
                leadership.lost.check()
                done.append(client.create(f"/{word}"))
            return done

    call = call_until_done(
        context_decorator(serve, opener, _client_inserter("client", serve)), DELAY_MAX_S
    )
    assert call(WORDS) == ["/a", "/b"]
    assert epochs == [1, 2]
    assert len(set(sessions)) == 2


def test_an_elected_service_of_coroutines_restarts_after_its_session(room: Any) -> None:
    epochs: list[int] = []

    async def open_one() -> AsyncClient:
        client: AsyncClient = await room.open_session(options_of())
        return client

    async def serve(client: AsyncClient, words: list[str]) -> list[str]:
        async with client.election("/leader") as leadership:
            epochs.append(leadership.epoch)
            if len(epochs) == 1:
                other = await room.open_session(options_of(client_id=client.client_id))
                await other.close()
            return [await client.create(f"/{word}") for word in words]

    call = call_until_done_async(
        context_decorator(
            serve, partial(_async_session, open_one), _client_inserter("client", serve)
        ),
        DELAY_MAX_S,
    )
    running = asyncio.run_coroutine_threadsafe(call(WORDS), shared_loop())
    assert running.result(30) == ["/a", "/b"]
    assert epochs == [1, 2]


def test_a_holder_whose_znode_was_deleted_restarts(room: Any) -> None:
    opener, paths = open_blocking(room), []

    def work(client: Client) -> int:
        with client.lock("/lock") as held:
            paths.append(held.path)
            if len(paths) == 1:
                client.delete(held.path)  # somebody's mistake
                held.lost.wait()
            held.lost.check()
            return held.token

    call = call_until_done(
        context_decorator(work, opener, _client_inserter("client", work)), DELAY_MAX_S
    )
    assert call() > 0
    assert len(paths) == 2


def test_without_a_restart_the_loss_is_raised(room: Any) -> None:
    opener = open_blocking(room)

    def work(client: Client) -> None:
        opener(client_id=client.client_id).close()
        client.create("/a")

    with pytest.raises(LostError):
        context_decorator(work, opener, _client_inserter("client", work))()
