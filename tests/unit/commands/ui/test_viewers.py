"""The sessions of viewers: each has its own, and there are not many."""

import asyncio

import pytest

from raykeeper.client import AsyncClient, ClientState
from raykeeper.commands.ui.answers import ApiError
from raykeeper.commands.ui.viewers import Viewers
from tests.harness.page_stage import PureSource


class Stage:
    """Viewers of an ensemble, and a clock."""

    def __init__(self, viewers_max: int = 2) -> None:
        self.source = PureSource()
        self.now = 0.0
        self.viewers = Viewers(self.source, viewers_max, 60.0, lambda: self.now)

    async def use(self, viewer: str) -> AsyncClient:
        async with self.viewers.client_of(viewer) as client:
            await client.exists("/")
            return client

    def sessions(self) -> int:
        return len(self.source.servers.leader.server.state.sessions.by_id)


async def test_each_viewer_has_one_session() -> None:
    stage = Stage()
    first, again, other = [await stage.use(each) for each in ("ann", "ann", "bob")]
    assert first is again is not other
    assert stage.sessions() == 2
    await stage.viewers.close_all()
    assert (stage.sessions(), first.state) == (0, ClientState.LOST)


async def test_two_requests_of_a_new_viewer_open_one_session() -> None:
    stage = Stage()
    one, other = await asyncio.gather(stage.use("ann"), stage.use("ann"))
    assert one is other and stage.sessions() == 1
    await stage.viewers.close_all()


async def test_the_viewer_who_was_idle_for_longest_gives_way() -> None:
    stage = Stage()
    ann, bob = await stage.use("ann"), await stage.use("bob")
    assert await stage.use("ann") is ann
    cas = await stage.use("cas")
    assert [each.state is ClientState.LOST for each in (ann, bob, cas)] == [False, True, False]
    assert await stage.use("bob") is not bob
    assert stage.sessions() == 2
    await stage.viewers.close_all()


async def test_a_session_in_use_is_not_taken_away() -> None:
    stage = Stage(viewers_max=1)
    async with stage.viewers.client_of("ann") as client:
        with pytest.raises(ApiError, match="1 viewers have sessions in use; `--viewers`") as told:
            await stage.use("bob")
        assert told.value.status == 503
        await client.exists("/")
        stage.now = 1_000.0
        await stage.viewers.close_idle()
        await client.exists("/")
    await stage.use("bob")
    assert client.state is ClientState.LOST
    await stage.viewers.close_all()


async def test_an_idle_session_is_closed_and_the_next_request_opens_another() -> None:
    stage = Stage()
    ann = await stage.use("ann")
    stage.now = 59.0
    await stage.viewers.close_idle()
    assert ann.state is ClientState.CONNECTED
    stage.now = 60.0
    await stage.viewers.close_idle()
    assert ann.state is ClientState.LOST
    assert (await stage.use("ann")).state is ClientState.CONNECTED
    await stage.viewers.close("nobody")
    await stage.viewers.close_all()


async def test_a_session_that_is_over_is_opened_anew_without_its_identities() -> None:
    stage = Stage()
    ann = await stage.use("ann")
    await ann.add_auth("digest", "ann:secret")
    await ann.close()
    again = await stage.use("ann")
    assert again is not ann
    assert {each.scheme for each in await again.who_am_i()} == {"ip"}
    await stage.viewers.close_all()
