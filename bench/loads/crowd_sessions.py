"""The sessions of one process of a crowd that watches one znode, wants one lock, or is one group.

They act when the load begins and go on until another line comes. A group says `ready` once more
when each of its members has read all others. The paths are those of
`bench/experiments/crowds.py`, which makes the changes.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from raykeeper.bench.loads.raykeeper_clients import (
    BlockingRaykeeper,
    client_options,
    gather_bounded,
)
from raykeeper.bench.loads.task import READY, LoadReport, LoadTask
from raykeeper.client import AsyncClient, Held
from raykeeper.client.recipes.group import GroupChange
from raykeeper.client.recipes.recipe import Awaited
from raykeeper.client.session_options import SessionOptions

WATCHED, LOCK, GROUP = "/crowd/watched", "/crowd/lock", "/crowd/group"
NEW_MEMBER = "new-"
"""The names of those that join a group when it has formed begin so."""
JOINING_AT_ONCE = 100
"""Members of one process: each that joins has a thousand others of its process told."""
TIMEOUT_S = 60.0
"""Of the sessions: a loop that has a thousand of them may be late for a heartbeat."""
BYSTANDER_S = 0.01
"""A bystander begins a set so often."""

Begin = Callable[[], Callable[..., LoadReport]]
"""Blocks until the load begins, and returns what makes the report."""


async def be_a_crowd(task: LoadTask, begin: Begin) -> LoadReport:
    """Act as the crowd of `task.kind`; report the moments at which its clients were told.

    watchers: told when the value was read again after an event, with the next watch.
    contenders: told when they have the lock; the first `task.count` release it at once.
    members: told when the callback of their watch names a member that joined when all were there.
    """
    timeout = SessionOptions(session_timeout_s=TIMEOUT_S)
    options = await asyncio.to_thread(client_options, task.where, timeout)
    told: list[tuple[float, float]] = []

    def tell(*_: object) -> None:
        told.append((time.monotonic(), 0.0))

    clients = await gather_bounded([partial(AsyncClient.open, *options)] * task.clients)
    report_of = await asyncio.to_thread(begin)
    acts = {"watchers": _watch, "contenders": _contend, "members": _join}
    at_once = asyncio.Semaphore(JOINING_AT_ONCE if task.kind == "members" else task.clients)

    async def act(number: int, client: AsyncClient) -> object:
        async with at_once:
            return await acts[task.kind](client, task, number, tell)

    acting = [asyncio.ensure_future(act(*each)) for each in enumerate(clients)]
    if task.kind == "members":
        await asyncio.wait(acting)
        sys.stdout.write(READY + "\n")
        sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    errors = sum(1 for each in acting if each.done() and each.exception() is not None)
    return report_of(done=len(told), errors=errors, timings={"told": told})


async def _watch(
    client: AsyncClient, _task: LoadTask, _number: int, tell: Callable[..., None]
) -> None:
    fired: asyncio.Queue[object] = asyncio.Queue()
    await client.get(WATCHED, fired.put_nowait)
    while True:
        await fired.get()
        await client.get(WATCHED, fired.put_nowait)
        tell()


async def _contend(
    client: AsyncClient, task: LoadTask, _number: int, tell: Callable[..., None]
) -> Held[Awaited]:
    held = await client.lock(LOCK).acquire()
    tell()
    if int(held.path[-10:]) <= task.count:
        await held.release()
    return held


async def _join(
    client: AsyncClient, task: LoadTask, number: int, tell: Callable[..., None]
) -> tuple[object, object]:
    def look(change: GroupChange) -> None:
        if any(member.name.startswith(NEW_MEMBER) for member in change.joined):
            tell()

    group = client.group(GROUP)
    membership = await group.join(f"{task.number}-{number}", b"10.0.0.7:4000")
    return membership, await group.watch(look)


def stand_by(task: LoadTask, begin: Begin) -> LoadReport:
    """Begin a set every 10 ms until another line comes; see `waits_of`."""
    client, value, path = BlockingRaykeeper(task.where), bytes(task.value_bytes), "/bystander"
    client.create(path, value)
    report_of = begin()
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.readline()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    timings: list[tuple[float, float]] = []
    due = time.monotonic()
    while not over.wait(max(0.0, due - time.monotonic())):
        client.set(path, value)
        timings += (waits := waits_of(due, time.monotonic()))
        due += BYSTANDER_S * len(waits)
    report = report_of(done=len(timings), timings={"set": timings})
    client.close()
    return report


def waits_of(due: float, done: float) -> list[tuple[float, float]]:
    """Return how long sets took, one that was begun and those that were due before it was done.

    Each with its moment, and in microseconds. Without the others a pause would be one long wait
    among many short ones, however long it was.
    """
    waits = [(due, (done - due) * 1e6)]
    while (due := due + BYSTANDER_S) < done:
        waits.append((due, (done - due) * 1e6))
    return waits
