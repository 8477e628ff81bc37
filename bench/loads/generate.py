"""A load generator in Python: one process of a load. task.py defines its arguments and report.

python -m raykeeper.bench.loads.generate kind=mixed client=kazoo where=127.0.0.1:2181 …
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from random import Random
from typing import Any, TypeVar

from raykeeper.bench.loads.clients import (
    BarrierClient,
    BlockingClient,
    PipelinedClient,
)
from raykeeper.bench.loads.task import (
    PAUSE_S,
    READY,
    LoadReport,
    LoadTask,
    encode_report,
    parse_task,
)
from raykeeper.bench.measures import BIN_S

C = TypeVar("C", BlockingClient, BarrierClient)

CHILDREN = 1_000
"""Children of one parent, when very many znodes are created."""
SETTLE_S = 30.0
"""How long the last requests may take after the end of the load."""


def main() -> None:
    """Perform the task in the arguments."""
    task = parse_task(sys.argv[1:])
    if task.kind in ("mixed", "fill", "pipelined"):
        report = _run_loop(_pipelined(task))
    elif task.kind == "returns":
        report = _run_loop(_returns(task))
    elif task.kind in ("watchers", "contenders", "members"):
        from raykeeper.bench.loads.crowd_sessions import be_a_crowd

        report = _run_loop(be_a_crowd(task, lambda: _Span().report))
    elif task.kind == "idle":
        from raykeeper.bench.loads.idle_sessions import hold_idle_sessions

        report = _run_loop(hold_idle_sessions(task, lambda: _Span().report))
    else:
        report = {
            "creates": _creates,
            "one_by_one": _one_by_one,
            "latency": _latency,
            "sets": _sets,
            "barriers": _barriers,
            "bystander": _bystander,
        }[task.kind](task)
    sys.stdout.buffer.write(encode_report(report) + b"\n")


class _Span:
    """The duration of the work, and its processor time."""

    def __init__(self) -> None:
        """Print `ready`, wait for a line, and start the clock."""
        sys.stdout.write(READY + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        self.began, self._cpu = time.monotonic(), time.process_time()

    def report(self, **fields: Any) -> LoadReport:
        """Return the report of the finished work."""
        seconds = time.monotonic() - self.began
        return LoadReport(seconds=seconds, cpu_s=time.process_time() - self._cpu, **fields)


def _run_loop(work: Coroutine[Any, Any, LoadReport]) -> LoadReport:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


# The clients, whose libraries are imported when they are needed.


def open_with_barriers(task: LoadTask) -> BarrierClient:
    """Open a session of the task's library, which must have barriers."""
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import BlockingKazoo

        return BlockingKazoo(task.where)
    from raykeeper.bench.loads.raykeeper_clients import BlockingRaykeeper

    return BlockingRaykeeper(task.where)


def open_blocking(task: LoadTask) -> BlockingClient:
    """Open a session of the task's library."""
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import BlockingKazoo

        return BlockingKazoo(task.where)
    if task.client == "grpc":
        from raykeeper.bench.loads.etcd_clients import BlockingEtcd

        return BlockingEtcd(task.where, task.number)
    from raykeeper.bench.loads.raykeeper_clients import BlockingRaykeeper

    return BlockingRaykeeper(task.where)


async def open_pipelined(task: LoadTask, number: int) -> PipelinedClient:
    """Open the pipelined session `number` of the process."""
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import PipelinedKazoo

        return PipelinedKazoo(task.where)
    if task.client == "grpc":
        from raykeeper.bench.loads.etcd_clients import PipelinedEtcd

        return PipelinedEtcd(task.where, task.number + number)
    from raykeeper.bench.loads.raykeeper_clients import PipelinedRaykeeper

    return await PipelinedRaykeeper.open(task.where)


# Many outstanding requests.


async def _pipelined(task: LoadTask) -> LoadReport:
    clients = [await open_pipelined(task, number) for number in range(task.clients)]
    value = bytes(task.value_bytes)
    paths = [f"/{task.kind}-{task.number}-{i}" for i in range(task.clients)]
    window = _Window(1)
    for client, path in zip(clients, paths, strict=True):
        await window.room.acquire()
        client.create(path, value, window.done)
    await window.drain()
    if task.kind == "mixed":
        report = await _mixed(task, clients, paths)
    else:
        report = await _creations(task, clients[0], paths[0])
    for client in clients:
        await client.close()
    return report


class _Window:
    """At most `size` requests of pipelined clients under way; each acquires `room` first."""

    def __init__(self, size: int) -> None:
        self.room = asyncio.Semaphore(size)
        self._loop, self._size = asyncio.get_running_loop(), size
        self._errors: list[BaseException] = []

    def done(self, error: BaseException | None) -> None:
        """Record that a request was answered."""
        if error is not None:
            self._errors.append(error)
        self._loop.call_soon_threadsafe(self.room.release)

    async def drain(self) -> None:
        """Wait until all requests are answered, and raise the first error; then it is closed."""
        for _ in range(self._size):
            await self.room.acquire()
        if self._errors:
            raise self._errors[0]


class _Pauses:
    """The spans in which no write of this process completed."""

    def __init__(self, began: float) -> None:
        self.spans: list[tuple[float, float]] = []
        self._last = began

    def wrote(self, now: float) -> None:
        """Record that a write completed, or that the load is over."""
        if now - self._last > PAUSE_S:
            self.spans.append((self._last, now))
        self._last = now


class _Mix:
    """The reads and writes of one client; each answer triggers the next request."""

    def __init__(
        self,
        task: LoadTask,
        client: PipelinedClient,
        path: str,
        pauses: _Pauses,
        over: Callable[[], object],
    ) -> None:
        self.reads: dict[int, int] = {}
        self.writes: dict[int, int] = {}
        self.errors = 0
        self._share = task.reads_percent / 100
        self._draw = Random(path).random
        self._client, self._path, self._value = client, path, bytes(task.value_bytes)
        self._pauses, self._over = pauses, over
        self._left = task.outstanding
        self._until = 0.0

    def begin(self, until: float) -> None:
        """Send the first requests; keep their number outstanding `until` then."""
        self._until = until
        for _ in range(self._left):
            self._next()

    def _next(self) -> None:
        if self._draw() < self._share:
            self._client.get(self._path, self._read)
        else:
            self._client.set(self._path, self._value, self._written)

    def _read(self, error: BaseException | None) -> None:
        self._completed(error, self.reads, time.monotonic())

    def _written(self, error: BaseException | None) -> None:
        now = time.monotonic()
        if error is None:
            self._pauses.wrote(now)
        self._completed(error, self.writes, now)

    def _completed(self, error: BaseException | None, counts: dict[int, int], now: float) -> None:
        if error is None:
            number = int(now / BIN_S)
            counts[number] = counts.get(number, 0) + 1
        else:
            self.errors += 1
        if now < self._until:
            self._next()
        else:
            self._left -= 1
            if not self._left:
                self._over()


async def _mixed(task: LoadTask, clients: list[PipelinedClient], paths: list[str]) -> LoadReport:
    loop, over = asyncio.get_running_loop(), asyncio.Semaphore(0)
    span = await asyncio.to_thread(_Span)
    pauses = _Pauses(span.began)
    mixes = [
        _Mix(task, client, path, pauses, lambda: loop.call_soon_threadsafe(over.release))
        for client, path in zip(clients, paths, strict=True)
    ]
    for mix in mixes:
        mix.begin(span.began + task.seconds)
    async with asyncio.timeout(task.seconds + SETTLE_S):
        for _ in mixes:
            await over.acquire()
    pauses.wrote(time.monotonic())
    counts = [
        (number, mix.reads.get(number, 0), mix.writes.get(number, 0))
        for mix in mixes
        for number in sorted({*mix.reads, *mix.writes})
    ]
    return span.report(
        done=sum(reads + writes for _, reads, writes in counts),
        errors=sum(mix.errors for mix in mixes),
        counts=counts,
        pauses=pauses.spans,
    )


async def _creations(task: LoadTask, client: PipelinedClient, root: str) -> LoadReport:
    """Create `count` znodes below `root`, with `outstanding` requests at a time."""
    value = bytes(task.value_bytes)
    parents = _Window(1)
    for parent in range((task.count - 1) // CHILDREN + 1):
        await parents.room.acquire()
        client.create(f"{root}/{parent}", b"", parents.done)
    await parents.drain()
    window = _Window(task.outstanding)
    span = await asyncio.to_thread(_Span)
    for index in range(task.count):
        await window.room.acquire()
        client.create(f"{root}/{index // CHILDREN}/{index}", value, window.done)
    await window.drain()
    return span.report(done=task.count)


# Idle sessions.


async def _returns(task: LoadTask) -> LoadReport:
    from raykeeper.bench.loads.returning_sessions import ReturningSessions

    sessions = ReturningSessions()
    await sessions.open(task.where, task.clients, task.session_timeout_s)
    span = await asyncio.to_thread(_Span)
    await asyncio.to_thread(sys.stdin.readline)
    returned, lost = list(sessions.absences), list(sessions.lost)
    report = span.report(
        done=len(returned), errors=len(lost), timings={"return": returned, "lost": lost}
    )
    await sessions.close()
    return report


# One at a time.


def _in_threads(
    task: LoadTask, open_client: Callable[[LoadTask], C], work: Callable[[C, int], int]
) -> LoadReport:
    """Have each client, given with its number, do its work in a thread of its own.

    `work` returns how many operations it did.
    """
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(open_client(task))) for _ in range(task.clients)]
        span = _Span()
        with ThreadPoolExecutor(task.clients) as pool:
            done = sum(pool.map(work, clients, range(task.clients)))
        return span.report(done=done)


def _creates(task: LoadTask) -> LoadReport:
    value = bytes(task.value_bytes)

    def work(client: BlockingClient, number: int) -> int:
        for index in range(task.count):
            path = f"/creates-{task.number}-{number}-{index}"
            client.create(path, value)
            client.delete_nowait(path)
        return task.count

    return _in_threads(task, open_blocking, work)


def _one_by_one(task: LoadTask) -> LoadReport:
    value, root = bytes(task.value_bytes), f"/one-by-one-{task.number}"
    with closing(open_blocking(task)) as client:
        client.create(root, b"")
        span = _Span()
        for index in range(task.count):
            client.create(f"{root}/{index}", value)
        return span.report(done=task.count)


def _latency(task: LoadTask) -> LoadReport:
    value, root = bytes(task.value_bytes), f"/latency-{task.number}"
    told = threading.Event()
    timings: dict[str, list[tuple[float, float]]] = {}
    with closing(open_blocking(task)) as client, closing(open_blocking(task)) as other:
        client.create(root, value)

        def notify() -> None:
            other.set(root, value)
            told.wait()

        span = _Span()
        for index in range(task.count):
            path = f"{root}/{index}"
            calls: list[tuple[str, Callable[[], object]]] = [
                ("create", lambda: client.create(path, value)),  # noqa: B023
                ("set", lambda: client.set(path, value)),  # noqa: B023
                ("get", lambda: client.get(path)),  # noqa: B023
                ("linearizable get", lambda: client.get_linearizable(path)),  # noqa: B023
            ]
            for name, call in calls:
                timings.setdefault(name, []).append(_timed(call))
            told.clear()
            client.watch(root, told.set)
            timings.setdefault("watch notification", []).append(_timed(notify))
        return span.report(done=5 * task.count, timings=timings)


def _sets(task: LoadTask) -> LoadReport:
    value, path = bytes(task.value_bytes), f"/sets-{task.number}"
    with closing(open_blocking(task)) as client:
        client.create(path, value)
        span = _Span()
        timings = []
        while time.monotonic() < span.began + task.seconds:
            timings.append(_timed(lambda: client.set(path, value)))
        return span.report(done=len(timings), timings={"set": timings})


def _barriers(task: LoadTask) -> LoadReport:
    root = f"/barriers-{task.participants}-{task.count}"

    def work(client: BarrierClient, number: int) -> int:
        name = f"{task.number}-{number}"
        barriers = [
            client.double_barrier(f"{root}-{index}", task.participants, name)
            for index in range(task.count)
        ]
        for barrier in barriers:
            barrier.enter()
        for barrier in barriers:
            barrier.leave()
        return 2 * task.count

    return _in_threads(task, open_with_barriers, work)


def _bystander(task: LoadTask) -> LoadReport:
    from raykeeper.bench.loads.crowd_sessions import stand_by

    return stand_by(task, lambda: _Span().report)


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Call, and return the moment of the start and the microseconds."""
    began = time.monotonic()
    call()
    return began, (time.monotonic() - began) * 1e6


if __name__ == "__main__":
    main()
