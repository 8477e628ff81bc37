"""ClientProcessMonitor: which clients it asks about, how long, and what counts as dead.

Doubt never counts; for a cluster see tests/ray.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import structs

from raykeeper.actors import client_process_monitor
from raykeeper.actors.client_limit import client_limit
from raykeeper.actors.client_links import ClientLinks
from raykeeper.actors.client_process_monitor import (
    ClientProcessMonitor,
    is_dead,
    is_gone,
    is_raylet_witness,
    is_running_here,
)
from raykeeper.links.contract import RAY_CALLS, STREAM
from raykeeper.links.processes import Process, this_process
from raykeeper.links.ray_internals import WorkerExit
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
    """Answers for each process as the test decides, and counts the questions."""

    def __init__(self, **dies_after: int) -> None:
        self.asked: Counter[str] = Counter()
        self.ways: list[bool] = []
        self._dies_after = {who.replace("_", " "): count for who, count in dies_after.items()}

    def __call__(self, process: Process, *, link_is_over: bool) -> bool:
        self.asked[process.worker] += 1
        self.ways.append(link_is_over)
        return self.asked[process.worker] >= self._dies_after.get(process.worker, 1_000_000)


class Scene:
    """A server's clients and the monitor."""

    def __init__(self, *, pauses_s: tuple[float, ...], patrol_s: float, **dies_after: int) -> None:
        self.events: list[Event] = []
        self.links = ClientLinks(1, client_limit(None, 1 << 20, 0), self._deliver)
        self.knows = Knows(**dies_after)
        self.settled: set[int] = set()
        """Connections whose session has ended, or was taken up again."""
        self.kernel_says: dict[str, bool] = {}
        self.gone = ClientProcessMonitor(
            self.links,
            lambda process: self.kernel_says.get(process.worker),
            self.knows,
            lambda connection: connection not in self.settled,
            self._deliver,
            pauses_s,
            patrol_s,
        )

    def lose_link(self, number: int) -> int:
        """Open a link to process `number`, which then ends by itself; return its connection."""
        self.links.accept(Wire(), "", process(number)).closed("gone")
        return self.links._last_connection

    async def until_nothing_is_asked(self) -> None:
        await self.until(lambda: not self.gone._lost)

    def _deliver(self, event: Event) -> None:
        self.events.append(event)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():
                await asyncio.sleep(0)


async def test_the_monitor_asks_until_the_process_is_dead() -> None:
    scene = Scene(pauses_s=(0.0,) * 5, patrol_s=NEVER_S, worker_1=3)
    scene.links.accept(Wire(), "", process(1)).closed("gone")
    await scene.until(lambda: len(scene.events) == 2)
    assert scene.events == [ClientDisconnected(FIRST), ClientProcessDied(FIRST)]
    assert scene.knows.asked["worker 1"] == 3 and all(scene.knows.ways)
    scene.gone.close()


async def test_the_monitor_stops_asking_about_a_live_process() -> None:
    scene = Scene(pauses_s=(0.0,) * 3, patrol_s=NEVER_S)
    scene.links.accept(Wire(), "", process(1)).closed("gone")
    await scene.until(lambda: scene.knows.asked["worker 1"] == 3)
    await scene.until_nothing_is_asked()
    assert scene.events == [ClientDisconnected(FIRST)]
    scene.gone.close()


async def test_the_links_of_a_process_have_their_questions_in_common() -> None:
    scene = Scene(pauses_s=(0.0,) * 3, patrol_s=NEVER_S, worker_1=3)
    lost = [scene.lose_link(number) for number in (1, 2, 1, 2, 1)]
    await scene.until_nothing_is_asked()
    assert scene.knows.asked == {"worker 1": 3, "worker 2": 3}
    died = [event for event in scene.events if isinstance(event, ClientProcessDied)]
    assert died == [ClientProcessDied(lost[place]) for place in (0, 2, 4)]
    scene.gone.close()


async def test_the_questions_begin_anew_with_the_next_lost_link() -> None:
    scene = Scene(pauses_s=(0.0, NEVER_S), patrol_s=NEVER_S, worker_1=2)
    lost = [scene.lose_link(1)]
    await scene.until(lambda: scene.knows.asked["worker 1"] == 1)
    lost.append(scene.lose_link(1))
    await scene.until_nothing_is_asked()
    assert scene.events[2:] == [ClientProcessDied(connection) for connection in lost]
    scene.gone.close()


async def test_nothing_is_asked_about_a_session_that_was_taken_up_again() -> None:
    scene = Scene(pauses_s=(0.0,) * 1_000_000, patrol_s=NEVER_S)
    first, second = scene.lose_link(1), scene.lose_link(1)
    await scene.until(lambda: scene.knows.asked["worker 1"] > 0)
    scene.settled.add(first)
    before = scene.knows.asked["worker 1"]
    await scene.until(lambda: scene.knows.asked["worker 1"] > before + 1)
    scene.settled.add(second)
    await scene.until_nothing_is_asked()
    scene.gone.close()


async def test_ray_is_asked_only_what_the_kernel_does_not_know() -> None:
    scene = Scene(pauses_s=(0.0,) * 3, patrol_s=NEVER_S)
    scene.kernel_says = {"worker 1": True, "worker 2": False}
    lost = [scene.lose_link(number) for number in (1, 2, 3)]
    await scene.until_nothing_is_asked()
    assert scene.events[3:] == [ClientProcessDied(lost[1])]
    assert scene.knows.asked == {"worker 3": 3}
    scene.gone.close()


async def test_the_monitor_asks_about_clients_over_calls_while_their_link_exists() -> None:
    scene = Scene(pauses_s=(), patrol_s=0.001, worker_2=2)
    for number, carrier in ((1, RAY_CALLS), (2, RAY_CALLS), (3, STREAM)):
        scene.links.accept(Wire(carrier), "", process(number))
    await scene.until(lambda: len(scene.events) == 2)
    assert scene.events == [ClientDisconnected(FIRST + 1), ClientProcessDied(FIRST + 1)]
    await scene.until(lambda: scene.knows.asked["worker 1"] > 3)
    assert scene.knows.asked["worker 2"] == 2 and scene.knows.asked["worker 3"] == 0
    assert not any(scene.knows.ways)
    scene.gone.close()


async def test_clients_over_calls_take_turns() -> None:
    scene = Scene(pauses_s=(), patrol_s=NEVER_S)
    count = client_process_monitor.POLLED_MAX + 10
    for number in range(1, count + 1):
        scene.links.accept(Wire(RAY_CALLS), "", process(number))
    first = [connection - FIRST for connection, _ in scene.gone._next_call_clients()]
    second = [connection - FIRST for connection, _ in scene.gone._next_call_clients()]
    assert first == list(range(client_process_monitor.POLLED_MAX))
    assert second[:11] == [*range(client_process_monitor.POLLED_MAX, count), 0]
    scene.gone.close()


async def test_the_monitor_asks_nothing_after_its_close() -> None:
    scene = Scene(pauses_s=(NEVER_S,), patrol_s=NEVER_S)
    scene.links.accept(Wire(), "", process(1)).closed("gone")
    scene.gone.close()
    await asyncio.sleep(0)
    assert scene.knows.asked == {}


EOF = "Worker unexpectedly exits with a connection error code 2. End of file. Some common causes"
REMOTE = Process("there", "ab" * 28, 7, 1, "elsewhere")


def test_the_kernel_answers_for_its_own_node() -> None:
    me = this_process("here", "ab" * 28)
    assert is_running_here("here", me) is True
    assert is_running_here("here", structs.replace(me, started=me.started + 1)) is False
    assert is_running_here("here", structs.replace(me, pid_namespace="a container")) is None
    assert is_running_here("there", me) is None


@pytest.mark.parametrize("worker", ["", "no hex", "ab" * 28])
def test_without_ray_the_answer_is_unknown(worker: str) -> None:
    assert not is_gone(structs.replace(REMOTE, worker=worker), link_is_over=True)


@pytest.mark.parametrize(
    ("type_", "detail", "proof"),
    [
        (0, EOF, True),
        # Ray has told it to exit, or it has said that it will; it may run on, or stand still.
        (1, "Worker exits because the actor is killed.", False),
        (1, "Actor killed by GCS", False),
        (3, "Shutdown by ray.shutdown().", False),
        # Nobody has seen its end.
        (0, "Node died", False),
        (0, "", False),
        (4, "Task was killed due to the node running low on memory.", False),
        (1, EOF, False),
    ],
)
def test_one_death_cause_is_proof(type_: int, detail: str, proof: bool) -> None:
    assert is_raylet_witness(WorkerExit(7, type_, detail)) is proof


@pytest.mark.parametrize(
    ("found", "looked", "link_is_over", "dead"),
    [
        (None, False, True, False),  # it lives, as far as Ray knows
        (WorkerExit(7, 0, EOF), True, True, True),
        (WorkerExit(7, 0, EOF), True, False, False),  # only Ray says so; the probe decides
        (WorkerExit(7, 0, EOF), False, False, True),
        (WorkerExit(7, 1, "killed"), None, True, False),
        (WorkerExit(7, 1, "killed"), True, True, False),
        (WorkerExit(7, 1, "killed"), False, True, True),
        (WorkerExit(8, 0, EOF), False, True, False),  # that was another one
    ],
)
def test_ray_and_the_probe_decide_together(
    found: WorkerExit | None, looked: bool | None, link_is_over: bool, dead: bool
) -> None:
    answer = is_dead(REMOTE, lambda _: found, lambda _: looked, link_is_over=link_is_over)
    assert answer is dead


def test_every_failure_leaves_the_answer_unknown() -> None:
    def fails(_: object) -> None:
        raise RuntimeError("no such table")

    ended = WorkerExit(7, 1, "killed")
    assert not is_dead(REMOTE, fails, lambda _: False, link_is_over=True)
    assert not is_dead(REMOTE, lambda _: ended, fails, link_is_over=True)
