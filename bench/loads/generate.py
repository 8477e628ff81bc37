"""A load generator in Python: one process of a load. task.py defines its arguments and report.

python -m raykeeper.bench.loads.generate kind=mixed client=kazoo where=127.0.0.1:2181 …
"""

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from random import Random
from typing import Any, Final, TypeVar

from raykeeper.bench.loads.clients import BlockingClient, PipelinedClient, RecipeClient
from raykeeper.bench.loads.creations import Window, create_below, delete_below, turns_of
from raykeeper.bench.loads.task import (
    END,
    PAUSE_S,
    READY,
    REPEATED,
    Kind,
    LoadReport,
    LoadTask,
    changed_task,
    encode_report,
    parse_task,
    where_of,
)
from raykeeper.bench.measures import BIN_S

C = TypeVar("C", BlockingClient, RecipeClient)
T = TypeVar("T")

SETTLE_S = 30.0
"""How long the last requests may take after the end of the load."""


def main() -> None:
    """Perform the task in the arguments, and its further rounds."""
    task = parse_task(sys.argv[1:])
    if task.kind in REPEATED:
        _REPEATED[task.kind](task)
    else:
        _print_report(_ONCE[task.kind](task))


def _print_report(report: LoadReport) -> None:
    sys.stdout.buffer.write(encode_report(report) + b"\n")
    sys.stdout.buffer.flush()


class _Span:
    """The duration of the work, and its processor time."""

    def __init__(self) -> None:
        """Print `ready`, wait for a line, and start the clock."""
        sys.stdout.write(READY + "\n")
        sys.stdout.flush()
        self.line = sys.stdin.readline().strip()
        self.began, self._cpu = time.monotonic(), time.process_time()

    def report(self, **fields: Any) -> LoadReport:
        """Return the report of the finished work."""
        seconds = time.monotonic() - self.began
        return LoadReport(seconds=seconds, cpu_s=time.process_time() - self._cpu, **fields)


def _next_round(task: LoadTask) -> tuple[LoadTask, _Span] | None:
    """Wait for the next round of a repeated task; None if there is none."""
    span = _Span()
    return None if span.line in ("", END) else (changed_task(task, span.line), span)


def _rounds(task: LoadTask) -> Iterator[tuple[LoadTask, _Span]]:
    """Yield the rounds of a repeated task."""
    while (following := _next_round(task)) is not None:
        yield following


def _run_loop(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes an event loop: uvloop's where that exists."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


# The clients, whose libraries are imported when they are needed.


def open_with_recipes(task: LoadTask, number: int) -> RecipeClient:
    """Open the session `number` of the process, of a library that has recipes."""
    where = where_of(task, number)
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import BlockingKazoo

        return BlockingKazoo(where)
    from raykeeper.bench.loads.raykeeper_clients import BlockingRaykeeper

    return BlockingRaykeeper(where)


def open_blocking(task: LoadTask, number: int = 0) -> BlockingClient:
    """Open the session `number` of the process."""
    where = where_of(task, number)
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import BlockingKazoo

        return BlockingKazoo(where)
    if task.client == "grpc":
        from raykeeper.bench.loads.etcd_clients import BlockingEtcd

        return BlockingEtcd(where, task.number)
    from raykeeper.bench.loads.raykeeper_clients import BlockingRaykeeper

    return BlockingRaykeeper(where)


async def open_pipelined(task: LoadTask, number: int) -> PipelinedClient:
    """Open the pipelined session `number` of the process."""
    where = where_of(task, number)
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import PipelinedKazoo

        return PipelinedKazoo(where)
    if task.client == "grpc":
        from raykeeper.bench.loads.etcd_clients import PipelinedEtcd

        return PipelinedEtcd(where, task.number + number)
    from raykeeper.bench.loads.raykeeper_clients import PipelinedRaykeeper

    return await PipelinedRaykeeper.open(where)


# Many outstanding requests.


async def _open_with_znodes(task: LoadTask) -> list[tuple[PipelinedClient, str]]:
    """Open the sessions of the process, each with a znode, and return both."""
    clients = [await open_pipelined(task, number) for number in range(task.clients)]
    value = bytes(task.value_bytes)
    paths = [f"/{task.kind}-{task.number}-{i}" for i in range(task.clients)]
    window = Window(1)
    for client, path in zip(clients, paths, strict=True):
        await window.room.acquire()
        client.create(path, value, window.done)
    await window.drain()
    return list(zip(clients, paths, strict=True))


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


async def _mixed(task: LoadTask) -> None:
    clients = await _open_with_znodes(task)
    while (following := await asyncio.to_thread(_next_round, task)) is not None:
        _print_report(await _mixed_round(*following, clients))
    for client, _ in clients:
        await client.close()


async def _mixed_round(
    task: LoadTask, span: _Span, clients: Sequence[tuple[PipelinedClient, str]]
) -> LoadReport:
    loop, over = asyncio.get_running_loop(), asyncio.Semaphore(0)
    pauses = _Pauses(span.began)
    mixes = [
        _Mix(task, client, path, pauses, lambda: loop.call_soon_threadsafe(over.release))
        for client, path in clients
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


async def _creations(task: LoadTask) -> None:
    """Create znodes below one, with `outstanding` requests at a time."""
    ((client, root),) = await _open_with_znodes(task)
    for number in itertools.count():
        if (following := await asyncio.to_thread(_next_round, task)) is None:
            break
        changed, span = following
        created = await create_below(f"{root}/{number}", changed, span.began, client)
        _print_report(span.report(done=created))
        if not changed.count:
            await delete_below(f"{root}/{number}", created, task, client)
    await client.close()


# Idle sessions, and crowds.


def _idle(task: LoadTask) -> LoadReport:
    from raykeeper.bench.loads.idle_sessions import hold_idle_sessions

    return _run_loop(hold_idle_sessions(task, lambda: _Span().report))


def _crowd(task: LoadTask) -> LoadReport:
    from raykeeper.bench.loads.crowd_sessions import be_a_crowd

    return _run_loop(be_a_crowd(task, lambda: _Span().report))


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


def _in_threads(task: LoadTask, clients: Sequence[C], work: Callable[[C, int], int]) -> int:
    """Have each client, given with its number, do its work in a thread of its own.

    `work` returns how many operations it did; returns the sum.
    """
    with ThreadPoolExecutor(task.clients) as pool:
        return sum(pool.map(work, clients, range(task.clients)))


@contextmanager
def _all_clients(task: LoadTask, open_client: Callable[[LoadTask, int], C]) -> Iterator[list[C]]:
    """Open the sessions of the process, and close them afterwards."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(open_client(task, number)))
            for number in range(task.clients)
        ]


def _creates(task: LoadTask) -> None:
    value = bytes(task.value_bytes)
    with _all_clients(task, open_blocking) as clients:
        for turn, (following, span) in enumerate(_rounds(task)):

            def work(client: BlockingClient, number: int) -> int:
                created = 0
                for index in turns_of(following, span.began):  # noqa: B023
                    path = f"/creates-{task.number}-{number}-{turn}-{index}"  # noqa: B023
                    client.create(path, value)
                    client.delete_nowait(path)
                    created += 1
                return created

            _print_report(span.report(done=_in_threads(task, clients, work)))


def _one_by_one(task: LoadTask) -> None:
    value, root = bytes(task.value_bytes), f"/one-by-one-{task.number}"
    with closing(open_blocking(task)) as client:
        client.create(root, b"")
        for turn, (following, span) in enumerate(_rounds(task)):
            created = []
            for index in turns_of(following, span.began):
                created.append(f"{root}/{turn}-{index}")
                client.create(created[-1], value)
            _print_report(span.report(done=len(created)))
            if not following.count:
                for path in created:
                    client.delete_nowait(path)
                client.set(root, b"")  # behind the deletions


def _latency(task: LoadTask) -> None:
    value, root = bytes(task.value_bytes), f"/latency-{task.number}"
    paths = (f"{root}/{index}" for index in itertools.count())
    with closing(open_blocking(task)) as client, closing(open_blocking(task)) as other:
        client.create(root, value)
        lock = client.locker(f"{root}-lock") if isinstance(client, RecipeClient) else None
        for following, span in _rounds(task):
            timings: dict[str, list[tuple[float, float]]] = {}
            for _ in turns_of(following, span.began):
                _one_turn(client, other, root, next(paths), value, timings)
                if lock is not None:
                    timings.setdefault("lock and unlock", []).append(_timed(lock))
            done = sum(map(len, timings.values()))
            _print_report(span.report(done=done, timings=timings))


def _one_turn(
    client: BlockingClient,
    other: BlockingClient,
    root: str,
    path: str,
    value: bytes,
    timings: dict[str, list[tuple[float, float]]],
) -> None:
    """Time one request of each kind."""
    told = threading.Event()

    def notify() -> None:
        other.set(root, value)
        told.wait()

    calls: list[tuple[str, Callable[[], object]]] = [
        ("create", lambda: client.create(path, value)),
        ("set", lambda: client.set(path, value)),
        ("get", lambda: client.get(path)),
        ("linearizable get", lambda: client.get_linearizable(path)),
    ]
    for name, call in calls:
        timings.setdefault(name, []).append(_timed(call))
    client.watch(root, told.set)
    timings.setdefault("watch notification", []).append(_timed(notify))


def _sets(task: LoadTask) -> None:
    value, path = bytes(task.value_bytes), f"/sets-{task.number}"
    with closing(open_blocking(task)) as client:
        client.create(path, value)
        for following, span in _rounds(task):
            timings = []
            while time.monotonic() < span.began + following.seconds:
                timings.append(_timed(lambda: client.set(path, value)))
            _print_report(span.report(done=len(timings), timings={"set": timings}))


def _barriers(task: LoadTask) -> None:
    with _all_clients(task, open_with_recipes) as clients:
        for number, (following, span) in enumerate(_rounds(task)):
            root = f"/barriers-{task.participants}-{number}"

            def work(client: RecipeClient, index: int) -> int:
                name, count = f"{task.number}-{index}", following.count  # noqa: B023
                barriers = [
                    client.double_barrier(f"{root}-{each}", task.participants, name)  # noqa: B023
                    for each in range(count)
                ]
                for barrier in barriers:
                    barrier.enter()
                for barrier in barriers:
                    barrier.leave()
                return 2 * count

            _print_report(span.report(done=_in_threads(task, clients, work)))


def _hostile(task: LoadTask) -> LoadReport:
    from raykeeper.bench.loads.hostile_clients import be_hostile

    return _run_loop(be_hostile(task, lambda: _Span().report))


def _bystander(task: LoadTask) -> LoadReport:
    from raykeeper.bench.loads.crowd_sessions import stand_by

    return stand_by(task, lambda: _Span().report)


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Call, and return the moment of the start and the microseconds."""
    began = time.monotonic()
    call()
    return began, (time.monotonic() - began) * 1e6


_ONCE: Final[Mapping[Kind, Callable[[LoadTask], LoadReport]]] = {
    "returns": lambda task: _run_loop(_returns(task)),
    **dict.fromkeys(("watchers", "contenders", "members"), _crowd),
    "idle": _idle,
    "bystander": _bystander,
    **dict.fromkeys(("silent", "slow", "lengths", "unread", "connections"), _hostile),
}
"""The tasks that are done once."""
_REPEATED: Final[Mapping[Kind, Callable[[LoadTask], None]]] = {
    "mixed": lambda task: _run_loop(_mixed(task)),
    **dict.fromkeys(("pipelined", "fill"), lambda task: _run_loop(_creations(task))),
    "creates": _creates,
    "one_by_one": _one_by_one,
    "latency": _latency,
    "sets": _sets,
    "barriers": _barriers,
}
"""The tasks that print a report for each round."""


if __name__ == "__main__":
    main()
