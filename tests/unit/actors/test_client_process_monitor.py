"""ClientProcessMonitor: who is asked after, how long, and what is told."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from raykeeper.actors import client_process_monitor
from raykeeper.actors.client_links import ClientLinks
from raykeeper.actors.client_process_monitor import ClientProcessMonitor
from raykeeper.links.contract import RAY_CALLS, STREAM
from raykeeper.links.processes import Process
from raykeeper.server.events import ClientDisconnected, ClientProcessDied, Event

FIRST = (1 << 30) + 1
NEVER_S = 1_000.0


def process(number: int) -> Process:
    return Process("node", f"worker {number}", number, 1, "here")


class Wire:
    """The link of a client."""

    incarnation = 0

    def __init__(self, carrier: str = STREAM) -> None:
        self.carrier = carrier

    def send_last(self, frame: bytes) -> None: ...

    def on_bytes_sent(self, told: Callable[[int], None]) -> None: ...

    def close(self, reason: str) -> None: ...


class Knows:
    """Says of each process what it was told to, and counts how often it was asked."""

    def __init__(self, changed: asyncio.Event, **dies_after: int) -> None:
        self.asked: Counter[str] = Counter()
        self.ways: list[bool] = []
        self._loop = asyncio.get_running_loop()
        self._changed = changed
        self._dies_after = {who.replace("_", " "): count for who, count in dies_after.items()}

    def __call__(self, process: Process, *, link_is_over: bool) -> bool:
        self.asked[process.worker] += 1
        self.ways.append(link_is_over)
        self._loop.call_soon_threadsafe(self._changed.set)
        return self.asked[process.worker] >= self._dies_after.get(process.worker, 1_000_000)


class Scene:
    """A server's clients, and who asks after them."""

    def __init__(self, *, pauses_s: tuple[float, ...], patrol_s: float, **dies_after: int) -> None:
        self.changed = asyncio.Event()
        self.events: list[Event] = []
        self.links = ClientLinks(1, 1_000, self._deliver)
        self.knows = Knows(self.changed, **dies_after)
        self.gone = ClientProcessMonitor(self.links, self.knows, self._deliver, pauses_s, patrol_s)

    def _deliver(self, event: Event) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_it_is_asked_until_it_is_known_to_be_dead() -> None:
    async def scenario() -> None:
        scene = Scene(pauses_s=(0.0,) * 5, patrol_s=NEVER_S, worker_1=3)
        scene.links.accept(Wire(), "", process(1)).closed("gone")
        await scene.until(lambda: len(scene.events) == 2)
        assert scene.events == [ClientDisconnected(FIRST), ClientProcessDied(FIRST)]
        assert scene.knows.asked["worker 1"] == 3 and all(scene.knows.ways)
        scene.gone.close()

    run(scenario)


def test_one_that_lives_is_left_alone_after_a_while() -> None:
    async def scenario() -> None:
        scene = Scene(pauses_s=(0.0,) * 3, patrol_s=NEVER_S)
        scene.links.accept(Wire(), "", process(1)).closed("gone")
        await scene.until(lambda: scene.knows.asked["worker 1"] == 3)
        while scene.gone._checks:
            await asyncio.sleep(0)
        assert scene.events == [ClientDisconnected(FIRST)]
        scene.gone.close()

    run(scenario)


def test_those_over_calls_are_asked_after_while_their_link_is_there() -> None:
    async def scenario() -> None:
        scene = Scene(pauses_s=(), patrol_s=0.001, worker_2=2)
        for number, carrier in ((1, RAY_CALLS), (2, RAY_CALLS), (3, STREAM)):
            scene.links.accept(Wire(carrier), "", process(number))
        await scene.until(lambda: len(scene.events) == 2)
        assert scene.events == [ClientDisconnected(FIRST + 1), ClientProcessDied(FIRST + 1)]
        await scene.until(lambda: scene.knows.asked["worker 1"] > 3)
        assert scene.knows.asked["worker 2"] == 2 and scene.knows.asked["worker 3"] == 0
        assert not any(scene.knows.ways)
        scene.gone.close()

    run(scenario)


def test_they_take_turns() -> None:
    async def scenario() -> None:
        scene = Scene(pauses_s=(), patrol_s=NEVER_S)
        count = client_process_monitor.POLLED_MAX + 10
        for number in range(1, count + 1):
            scene.links.accept(Wire(RAY_CALLS), "", process(number))
        first = [connection - FIRST for connection, _ in scene.gone._next_call_clients()]
        second = [connection - FIRST for connection, _ in scene.gone._next_call_clients()]
        assert first == list(range(client_process_monitor.POLLED_MAX))
        assert second[:11] == [*range(client_process_monitor.POLLED_MAX, count), 0]
        scene.gone.close()

    run(scenario)


def test_nothing_is_asked_after_the_end() -> None:
    async def scenario() -> None:
        scene = Scene(pauses_s=(NEVER_S,), patrol_s=NEVER_S)
        scene.links.accept(Wire(), "", process(1)).closed("gone")
        scene.gone.close()
        while scene.gone._checks:
            await asyncio.sleep(0)
        assert scene.knows.asked == {}

    run(scenario)
