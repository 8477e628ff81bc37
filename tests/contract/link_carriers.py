"""The carriers under contract, and the station at the accepting end of each.

The station may live in another process, so every question to it is awaited.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from raykeeper.links.contract import Dialer, Link, LinkEvents, LinkRefused
from raykeeper.links.daemon_threads import SharedCall
from raykeeper.links.hello import Fence, Hello, refusal_reason
from raykeeper.links.ray_calls import RayCallAcceptor, RayCallDialer
from raykeeper.zab.ids import ServerId
from tests.harness.memory_links import MemoryNetwork

ENSEMBLE = "8a1b"
SERVER = ServerId(1)
INCARNATION = 7
QUEUE_BYTES_MAX = 200_000


class Recorder:
    """The events of one end of a link."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.reasons: list[str] = []
        self._changed = asyncio.Event()

    def frames(self, frames: list[bytes]) -> None:
        assert frames, "an empty batch was handed over"
        assert not self.reasons, "frames came after the end"
        self.batches.append(frames)
        self._changed.set()

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self._changed.set()

    @property
    def received(self) -> list[bytes]:
        return [frame for batch in self.batches for frame in batch]

    async def wait_received(self, count: int) -> list[bytes]:
        while len(self.received) < count:
            assert not self.reasons, self.reasons
            await self._wait_change()
        return self.received

    async def wait_closed(self) -> str:
        while not self.reasons:
            await self._wait_change()
        return self.reasons[0]

    async def _wait_change(self) -> None:
        self._changed.clear()
        await asyncio.wait_for(self._changed.wait(), 10)


class Station:
    """An acceptor under the test's control; its links are numbered in order of arrival."""

    def __init__(self, incarnation: int = INCARNATION) -> None:
        self.incarnation = incarnation
        self.server_id = SERVER
        self._fence = Fence()
        self._links: list[tuple[Link, Recorder]] = []
        self._left: list[list[int]] = []
        self._of_server: dict[ServerId, Link] = {}

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        if reason := refusal_reason(hello, ENSEMBLE):
            raise LinkRefused(reason)
        if hello.server_id:
            if reason := self._fence.refusal_reason(hello.server_id, hello.incarnation):
                raise LinkRefused(reason)
            older = self._of_server.get(hello.server_id)
            if older is not None:
                older.close("a newer link came")
            self._of_server[hello.server_id] = link
        recorder = Recorder()
        self._links.append((link, recorder))
        self._left.append([])
        link.on_bytes_sent(self._left[-1].append)
        link.send(b"accepted")
        return recorder

    async def accepted(self) -> int:
        return len(self._links)

    async def send(self, number: int, frames: list[bytes]) -> None:
        for frame in frames:
            self._links[number][0].send(frame)

    async def left(self, number: int) -> list[int]:
        return self._left[number]

    async def overrun_and_close(self, number: int) -> None:
        self._links[number][0].send(bytes(QUEUE_BYTES_MAX + 1))
        self._links[number][0].close("in the same turn")

    async def close(self, number: int, reason: str) -> None:
        self._links[number][0].close(reason)

    async def wait_received(self, number: int, count: int) -> list[bytes]:
        return await self._links[number][1].wait_received(count)

    async def wait_closed(self, number: int) -> str:
        return await self._links[number][1].wait_closed()

    async def batches(self, number: int) -> list[list[bytes]]:
        return self._links[number][1].batches

    async def reasons(self, number: int) -> list[str]:
        return self._links[number][1].reasons


class Carrier(Protocol):
    """One way to carry links to `station`."""

    station: Any
    deadline_s: float

    def dialer(self, hello: Hello, fence: Fence | None = None) -> Dialer: ...
    def cut_to_acceptor(self) -> None: ...
    def cut_to_dialer(self) -> None: ...
    async def close(self) -> None: ...


class MemoryCarrier:
    """`tests/harness/memory_links.py`."""

    def __init__(self) -> None:
        self.station = Station()
        self._network = MemoryNetwork(deadline_s=0.05, queue_bytes_max=QUEUE_BYTES_MAX)
        self.deadline_s = self._network.deadline_s
        self._network.listen(self.station)
        self.cut_to_acceptor = self._network.cut_to_acceptors
        self.cut_to_dialer = self._network.cut_to_dialers

    def dialer(self, hello: Hello, fence: Fence | None = None) -> Dialer:
        return self._network.dialer(hello, fence)

    async def close(self) -> None:
        pass


class Calls:
    """An imitation of an actor's handle that loses calls or their answers on demand."""

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call
        self.loses_calls = False
        self.loses_answers = False

    def __getattr__(self, method: str) -> "_Method":
        return _Method(self, method)

    async def call(self, method: str, *args: Any) -> Any:
        if self.loses_calls:
            await asyncio.Event().wait()
        answer = await self._call(method, *args)
        if self.loses_answers:
            await asyncio.Event().wait()
        return answer


class _Method:
    def __init__(self, calls: Calls, name: str) -> None:
        self._calls = calls
        self._name = name

    def remote(self, *args: Any) -> "asyncio.Task[Any]":
        return asyncio.ensure_future(self._calls.call(self._name, *args))


class CallsCarrier:
    """`links/ray_calls.py` without Ray: calls and answers overtake each other at random."""

    deadline_s = 0.55

    def __init__(
        self,
        seed: int = 1,
        park_ms: int = 40,
        grace_ms: int = 400,
        station: Any = None,
    ) -> None:
        self.station: Any = station or Station()
        self.acceptor = RayCallAcceptor(self.station, QUEUE_BYTES_MAX, grace_ms)
        self.calls = Calls(self._shuffled)
        self._random = random.Random(seed)
        self._park_ms = park_ms
        self._grace_ms = grace_ms

    def dialer(self, hello: Hello, fence: Fence | None = None) -> Dialer:
        return RayCallDialer(
            SharedCall(self._find),
            hello,
            self._park_ms,
            fence=fence,
            queue_bytes_max=QUEUE_BYTES_MAX,
            grace_ms=self._grace_ms,
        )

    def cut_to_acceptor(self) -> None:
        self.calls.loses_calls = True

    def cut_to_dialer(self) -> None:
        self.calls.loses_answers = True

    async def close(self) -> None:
        pass

    def _find(self, server: ServerId) -> Calls:
        if server != SERVER:
            raise ValueError(f"no actor of server {server}")
        return self.calls

    async def _shuffled(self, method: str, *args: Any) -> Any:
        for _ in range(self._random.randrange(8)):
            await asyncio.sleep(0)
        answer = await getattr(self.acceptor, method)(*args)
        for _ in range(self._random.randrange(8)):
            await asyncio.sleep(0)
        return answer
