"""Both clients as the suite of clients uses them, over servers in this process or over real ones.

A handle is a `Client`, or an `AsyncClient` whose calls are awaited before they return: so one suite
serves both.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import pytest

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.loop_thread import shared_loop
from raykeeper.client.recipes.recipe import Recipe
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import (
    SessionOptions,
    checked_default_acl,
    split_ensemble_name,
)
from raykeeper.links.contract import LinkEvents
from raykeeper.server.context import ServerOptions
from raykeeper.server.events import ClientDisconnected, ClientFrameArrived
from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN, LEVEL_OF_MEMBERS
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import encode_server_frame
from raykeeper.znodes.state import State
from tests.harness.pure_servers import PureServer, PureServers

UUID = "00000000-0000-4000-8000-000000000000"
HOST = "10.1.2.3"
SUPER = "root:of all"
T = TypeVar("T")
Open = Callable[..., Any]
"""Opens a handle: a path below which all is, and the options of `connect`."""


class Room:
    """Three servers that talk at once, on the loop of the clients; their time stands still."""

    def __init__(self, ensemble: str = UUID, *, strangers: int = 0) -> None:
        """`strangers` follow and are no members; only then the members may change."""
        root = Identity("digest", digest_id(*SUPER.split(":")))
        limits = Limits(session_timeout_min_ms=Millis(1_000), super_identities=(root,))
        self._servers = PureServers(
            3,
            limits=limits,
            options=ServerOptions(ensemble=ensemble),
            strangers=strangers,
            newest_level=LEVEL_OF_MEMBERS if strangers else LEVEL_MIN,
        )
        if strangers:
            self._servers.pass_time(300)  # the leader raises the level
        self._links: dict[int, tuple[PureServer, LinkEvents]] = {}
        self._told: dict[int, int] = {}
        self._connections = 0
        self._is_open = asyncio.Event()
        self._is_open.set()

    @property
    def state(self) -> State:
        """The state of a server."""
        return self._servers[1].server.state

    def found(self, state: State) -> None:
        """Start all servers on new disks that hold this state."""
        for server in (1, 2, 3):
            self._servers.crash(server)
        for server, host in sorted(self._servers.down.items()):
            host.disk.found(state)
            host.newest_level = LEVEL_MAX
            self._servers.restart(server)

    def empty(self, server: int) -> None:
        """Start a server again on an empty disk; the others give it their state."""
        self._servers.crash(server)
        self._servers.down[server].disk.repair()
        self._servers.restart(server)

    async def dial(self, server: ServerId, events: LinkEvents) -> "_Link":
        await self._is_open.wait()
        self._connections += 1
        host = self._servers[server]
        self._links[self._connections] = (host, events)
        return _Link(self, self._connections, host)

    def take(self, host: PureServer, event: ClientFrameArrived | ClientDisconnected) -> None:
        """Let the servers do what there is to do, and tell the clients."""
        host.step(event)
        self._servers.run()
        for connection, (server, events) in list(self._links.items()):
            frames = server.frames.get(connection, [])
            new = frames[self._told.get(connection, 0) :]
            self._told[connection] = len(frames)
            if new:
                events.frames([encode_server_frame(frame) for frame in new])
            if connection in server.closed and self._links.pop(connection, None):
                events.closed("the server closed it")

    def cut_while(self, session_id: int, act: Callable[[], object]) -> None:
        """Break the link of a session, and take no new ones before something was done."""
        finish(self._cut(session_id))
        act()
        shared_loop().call_soon_threadsafe(self._is_open.set)

    async def _cut(self, session_id: int) -> None:
        self._is_open.clear()
        for connection, (host, events) in list(self._links.items()):
            known = host.server._clients._by_number.get(connection)
            if known is not None and known.session_id == session_id:
                self.forget(connection)
                events.closed("cut by the test")
                self.take(host, ClientDisconnected(connection))

    def close(self) -> None:
        """Nothing is left open."""

    def forget(self, connection: int) -> None:
        self._links.pop(connection, None)

    async def open_session(self, options: SessionOptions) -> AsyncClient:
        return await AsyncClient.open([ServerId(n) for n in (1, 2, 3)], self, options)


class _Link:
    incarnation = 1

    def __init__(self, room: Room, connection: int, host: PureServer) -> None:
        self._room = room
        self._connection = connection
        self._host = host

    def send(self, frame: bytes) -> None:
        self._soon(ClientFrameArrived(self._connection, frame, HOST))

    def close(self, reason: str) -> None:
        self._room.forget(self._connection)
        self._soon(ClientDisconnected(self._connection))

    def _soon(self, event: ClientFrameArrived | ClientDisconnected) -> None:
        asyncio.get_running_loop().call_soon(self._room.take, self._host, event)


def options_of(
    chroot: str = "", default_acl: Any = None, client_id: Any = None, **spans: float
) -> SessionOptions:
    """As `connect` makes them of its arguments."""
    return SessionOptions(
        session_timeout_s=spans.get("session_timeout_s", 20.0),
        timeout_s=spans.get("timeout_s", 10.0),
        default_acl=checked_default_acl(default_acl),
        client_id=client_id,
        chroot=split_ensemble_name(f"here{chroot}")[1],
    )


def open_blocking(room: Room) -> Open:
    """What opens a `Client` of these servers."""

    def open_one(chroot: str = "", **options: Any) -> Client:
        servers = [ServerId(n) for n in (1, 2, 3)]
        return Client(BlockingSession.open(servers, room, options_of(chroot, **options)))

    return open_one


def open_awaited(room: Room) -> Open:
    """What opens an `AsyncClient` of these servers."""

    def open_one(chroot: str = "", **options: Any) -> Awaited:
        return Awaited(finish(room.open_session(options_of(chroot, **options))))

    return open_one


@contextmanager
def crossed_by_an_interrupt(client: Client) -> Iterator[None]:
    """The call in this block is interrupted just after its answer has come."""
    session = client._open_session()
    wait = session.wait

    def interrupted(reply: Any) -> Any:
        wait(reply)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(session, "wait", interrupted)
        yield


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of the clients."""
    return asyncio.run_coroutine_threadsafe(coroutine, shared_loop()).result(30)


class Awaited:
    """An `AsyncClient`, or a transaction or a recipe of one, each of whose calls is awaited."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._thing, name)
        if not callable(attribute):
            return _awaited(attribute)

        async def call(*arguments: Any, **options: Any) -> Any:
            returned = attribute(*arguments, **options)
            return await returned if isinstance(returned, Awaitable) else returned

        def awaited(*arguments: Any, **options: Any) -> Any:
            returned = finish(call(*arguments, **options))
            return _awaited(returned)

        return awaited

    def __enter__(self) -> Any:
        entered = finish(self._thing.__aenter__())
        return self if entered is self._thing else _awaited(entered)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        finish(self._thing.__aexit__(kind, error, traceback))


def _awaited(thing: Any) -> Any:
    return Awaited(thing) if hasattr(thing, "commit") or isinstance(thing, Recipe) else thing
