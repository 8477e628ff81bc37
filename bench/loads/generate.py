"""A load generator in Python: one process of a load. task.py defines its arguments and report.

python -m raykeeper.bench.loads.generate kind=mixed client=kazoo where=127.0.0.1:2181 …
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from raykeeper.bench.loads.clients import (
    BarrierClient,
    BlockingClient,
    Done,
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

CHILDREN = 1_000
"""Children of one parent, when very many znodes are created."""
SETTLE_S = 30.0
"""How long the last requests may take after the end of the load."""


def main() -> None:
    """Perform the task in the arguments."""
    task = parse_task(sys.argv[1:])
    if task.kind in ("mixed", "fill", "pipelined"):
        report = _run_loop(_pipelined(task))
    else:
        report = {
            "creates": _creates,
            "one_by_one": _one_by_one,
            "latency": _latency,
            "sets": _sets,
            "barriers": _barriers,
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
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
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
    for client, path in zip(clients, paths, strict=True):
        await _call(lambda done, c=client, p=path: c.create(p, value, done))  # type: ignore[misc]
    if task.kind == "mixed":
        report = await _mixed(task, clients, paths)
    else:
        report = await _creations(task, clients[0], paths[0])
    for client in clients:
        await client.close()
    return report


async def _call(start: Callable[[Done], object]) -> None:
    """Wait for one request of a pipelined client."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    errors: list[BaseException] = []

    def done(error: BaseException | None) -> None:
        if error is not None:
            errors.append(error)
        loop.call_soon_threadsafe(answered.set)

    start(done)
    await answered.wait()
    if errors:
        raise errors[0]


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
    for parent in range((task.count - 1) // CHILDREN + 1):
        await _call(lambda done, p=parent: client.create(f"{root}/{p}", b"", done))  # type: ignore[misc]
    loop, room = asyncio.get_running_loop(), asyncio.Semaphore(task.outstanding)
    errors: list[BaseException] = []

    def done(error: BaseException | None) -> None:
        if error is not None:
            errors.append(error)
        loop.call_soon_threadsafe(room.release)

    span = await asyncio.to_thread(_Span)
    for index in range(task.count):
        await room.acquire()
        client.create(f"{root}/{index // CHILDREN}/{index}", value, done)
    for _ in range(task.outstanding):
        await room.acquire()
    if errors:
        raise errors[0]
    return span.report(done=task.count)


# One at a time.


def _creates(task: LoadTask) -> LoadReport:
    clients = [open_blocking(task) for _ in range(task.clients)]
    value = bytes(task.value_bytes)

    def work(number: int) -> None:
        for index in range(task.count):
            path = f"/creates-{task.number}-{number}-{index}"
            clients[number].create(path, value)
            clients[number].delete_nowait(path)

    span = _Span()
    with ThreadPoolExecutor(task.clients) as pool:
        for each in [pool.submit(work, number) for number in range(task.clients)]:
            each.result()
    report = span.report(done=task.clients * task.count)
    for client in clients:
        client.close()
    return report


def _one_by_one(task: LoadTask) -> LoadReport:
    client, value = open_blocking(task), bytes(task.value_bytes)
    root = f"/one-by-one-{task.number}"
    client.create(root, b"")
    span = _Span()
    for index in range(task.count):
        client.create(f"{root}/{index}", value)
    report = span.report(done=task.count)
    client.close()
    return report


def _latency(task: LoadTask) -> LoadReport:
    client, other, value = open_blocking(task), open_blocking(task), bytes(task.value_bytes)
    root = f"/latency-{task.number}"
    client.create(root, value)
    told = threading.Event()

    def notify() -> None:
        other.set(root, value)
        told.wait()

    span = _Span()
    timings: dict[str, list[tuple[float, float]]] = {}
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
    report = span.report(done=5 * task.count, timings=timings)
    client.close()
    other.close()
    return report


def _sets(task: LoadTask) -> LoadReport:
    client, value = open_blocking(task), bytes(task.value_bytes)
    path = f"/sets-{task.number}"
    client.create(path, value)
    span = _Span()
    timings = []
    while time.monotonic() < span.began + task.seconds:
        timings.append(_timed(lambda: client.set(path, value)))
    report = span.report(done=len(timings), timings={"set": timings})
    client.close()
    return report


def _barriers(task: LoadTask) -> LoadReport:
    clients = [open_with_barriers(task) for _ in range(task.clients)]
    root = f"/barriers-{task.participants}-{task.count}"

    def work(number: int) -> None:
        name = f"{task.number}-{number}"
        barriers = [
            clients[number].double_barrier(f"{root}-{index}", task.participants, name)
            for index in range(task.count)
        ]
        for barrier in barriers:
            barrier.enter()
        for barrier in barriers:
            barrier.leave()

    span = _Span()
    with ThreadPoolExecutor(task.clients) as pool:
        for each in [pool.submit(work, number) for number in range(task.clients)]:
            each.result()
    report = span.report(done=2 * task.clients * task.count)
    for client in clients:
        client.close()
    return report


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Call, and return the moment of the start and the microseconds."""
    began = time.monotonic()
    call()
    return began, (time.monotonic() - began) * 1e6


if __name__ == "__main__":
    main()
