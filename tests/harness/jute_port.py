"""A pure server behind the real port for ZooKeeper's clients: TCP and a clock, but no Ray.

One thread runs the loop. So a client that others wrote can be tried in a process without Ray. One
native client may stand beside them; its frames take no socket.
"""

import asyncio
import queue
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any

from raykeeper.actors.client_limit import client_limit
from raykeeper.actors.client_links import ClientLinks
from raykeeper.actors.process_facts import read_process_facts
from raykeeper.links.jute_listener import JuteListener, PortSettings
from raykeeper.links.jute_tls import TlsFiles
from raykeeper.server.effects import (
    CloseClient,
    PauseReading,
    ReadProcessFacts,
    ResumeReading,
    SendClient,
)
from raykeeper.server.events import ClientFrameArrived, Event, ProcessFactsRead
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.ids import Millis
from tests.harness.pure_servers import PureServer


class _Streams(defaultdict[int, bytearray]):
    """Every connection is one of ZooKeeper's protocol."""

    def __contains__(self, _connection: object) -> bool:
        return True


class _Stuck(dict[int, None]):
    """No send leaves by itself: the sockets tell what has left."""

    def __contains__(self, _connection: object) -> bool:
        return True


NATIVE = 7
"""The connection number of the native client; those of the port begin far above."""


class JutePort:
    """One server, at `address`, while the context lasts."""

    def __init__(
        self,
        tls: TlsFiles | None = None,
        *,
        host: PureServer | None = None,
        per_address_max: int = 1000,
        without_session_max: int = 1000,
        **settings: Any,
    ) -> None:
        """`tls`: the port is encrypted.

        The server is `host`, which meets no other one, or else one with all votes, of which
        `settings` are those of `PureServer`.
        """
        self.address = ""
        self.native: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        """The frames to the native client."""
        self.traced: list[TraceEvent] = []
        self._tls = tls
        self._given_host = host
        self._bounds = per_address_max, without_session_max
        self._settings = settings
        self._began = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="jute-port")

    def __enter__(self) -> "JutePort":
        self._thread.start()
        self._began.wait()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def send_native(self, frame: bytes) -> None:
        """Deliver a frame of the native client."""
        self._loop.call_soon_threadsafe(self._deliver, ClientFrameArrived(NATIVE, frame))

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._events: list[Event] = []
        self._timer = self._loop.call_later(0, self._step)
        self._host = self._given_host or PureServer(**self._settings)
        self._host.streams = _Streams(bytearray)
        self._host.stuck = _Stuck()
        self._host.track()
        self._links = ClientLinks(1, client_limit(None, 1 << 16, 0), self._deliver)
        listener = JuteListener(
            self._links,
            PortSettings("127.0.0.1", 0, *self._bounds, 60.0, self._tls),
            lambda *_, **__: None,
        )
        await listener.listening()
        self.address = f"127.0.0.1:{listener.port}"
        self._began.set()
        await self._ended.wait()
        self._timer.cancel()
        listener.close()
        self._links.close_all("the test ends")
        await asyncio.sleep(0)

    def _deliver(self, event: Event) -> None:
        if not self._events:
            self._loop.call_soon(self._step)
        self._events.append(event)

    def _step(self) -> None:
        self._timer.cancel()
        if self._ended.is_set():
            return
        host, links = self._host, self._links
        events, self._events = self._events, []
        host.clock.now = Millis(int(time.monotonic() * 1000))
        try:
            host.step(*events)
        except BaseException as error:
            self._error = error
            self._ended.set()
        for effect in host.take():
            if isinstance(effect, SendClient) and effect.connection == NATIVE:
                self.native.put(effect.data)
            elif isinstance(effect, SendClient):
                links.send(effect.connection, effect.data)
            elif isinstance(effect, CloseClient):
                links.close(effect.connection, "the session ended")
            elif isinstance(effect, TraceEvent):
                self.traced.append(effect)
            elif isinstance(effect, ReadProcessFacts):
                self._deliver(ProcessFactsRead(read_process_facts(Path.cwd() / "missing")))
            elif isinstance(effect, PauseReading | ResumeReading):
                links.set_reading(effect.connection, isinstance(effect, ResumeReading))
        host.streams.clear()
        due = host.server.deadline()
        if due is not None:
            self._timer = self._loop.call_later(max(0, due - host.clock.now) / 1000, self._step)
