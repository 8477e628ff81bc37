"""The room of `client_handles` behind real streams: its servers run on a loop of their own, so that
nothing but sockets joins them with the clients.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from raykeeper.client.loop_thread import shared_loop
from raykeeper.links.contract import Link, LinkEvents
from raykeeper.links.hello import Hello, client_hello
from raykeeper.links.stream_endpoints import StreamAddress, StreamDialer, StreamListener
from raykeeper.server.events import ClientDisconnected, ClientFrameArrived
from raykeeper.zab.ids import ServerId
from tests.contract.client_handles import Room, finish

T = TypeVar("T")


class StreamRoom(Room):
    """Three servers, each with a listener."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._held: list[Callable[[], None]] | None = None
        self._open: set[Link] = set()
        self._listeners = {n: self.there(self._listen(ServerId(n))) for n in (1, 2, 3)}

    async def dial(self, server: ServerId, events: LinkEvents) -> Any:
        await self._is_open.wait()

        async def find(server: ServerId) -> StreamAddress:
            return self._listeners[server].address

        return await StreamDialer(find, client_hello(), 2000).dial(server, events)

    def there(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the servers."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def cut_while(self, session_id: int, act: Callable[[], object]) -> None:
        """Break the link of a session, and take no new ones before something was done."""
        finish(self._shut())
        self.there(self._cut(session_id))
        act()
        shared_loop().call_soon_threadsafe(self._is_open.set)

    def mute(self) -> None:
        """Have the servers take nothing in until `unmute`."""
        self.there(self._hold())

    def unmute(self) -> None:
        """Have them take in what came meanwhile."""
        self.there(self._let_go())

    def serve(self, event: ClientFrameArrived | ClientDisconnected, number: int) -> None:
        """Take in what came over a stream; for `_Served`."""
        host = self._servers[ServerId(number)]
        if self._held is not None:
            self._held.append(lambda: self.take(host, event))
        else:
            self.take(host, event)

    def opened(self, number: int, link: Link) -> LinkEvents:
        """A stream was accepted; for `_Listening`."""
        self._connections += 1
        self._open.add(link)
        self._links[self._connections] = (self._servers[ServerId(number)], _Told(link))
        return _Served(self, self._connections, number)

    def close(self) -> None:
        """End every stream, and the loop."""
        self.there(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self, server: ServerId) -> StreamListener:
        return StreamListener(_Listening(self, server), "127.0.0.1")

    async def _shut(self) -> None:
        self._is_open.clear()

    async def _hold(self) -> None:
        self._held = []

    async def _let_go(self) -> None:
        held, self._held = self._held or [], None
        for take in held:
            take()

    async def _end(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for link in self._open:
            link.close("the room is closed")
        while any(not link.is_over for link in self._open):  # type: ignore[attr-defined]
            await asyncio.sleep(0.005)


class _Listening:
    """One of the servers, as an acceptor."""

    incarnation = 1

    def __init__(self, room: StreamRoom, server_id: ServerId) -> None:
        self.server_id = server_id
        self._room = room

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        return self._room.opened(self.server_id, link)


class _Told:
    """Sends on what a server tells a client."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._link.send(frame)

    def closed(self, reason: str) -> None:
        self._link.close(reason)


class _Served:
    """What comes from a client."""

    def __init__(self, room: StreamRoom, connection: int, number: int) -> None:
        self._room = room
        self._connection = connection
        self._number = number

    def frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._room.serve(ClientFrameArrived(self._connection, frame, "10.1.2.3"), self._number)

    def closed(self, _reason: str) -> None:
        self._room.forget(self._connection)
        self._room.serve(ClientDisconnected(self._connection), self._number)
