"""The client libraries behind one face, so that every one of them is given the same load."""

from collections.abc import Callable
from typing import Any, Protocol

from raykeeper.bench.loads.task import LoadTask

Done = Callable[[BaseException | None], object]
"""Called with the error, or None, on whatever thread the library answers on."""


class BlockingClient(Protocol):
    """One session that does one thing at a time."""

    def create(self, path: str, value: bytes) -> object:
        """Create a znode."""

    def set(self, path: str, value: bytes) -> object:
        """Replace its value."""

    def get(self, path: str) -> object:
        """Read it, from the server at hand."""

    def get_linearizable(self, path: str) -> object:
        """Read it, with all that was written before."""

    def delete_nowait(self, path: str) -> object:
        """Delete it without waiting."""

    def watch(self, path: str, told: Callable[[], object]) -> object:
        """Have `told` called once when the value changes."""

    def close(self) -> object:
        """End the session."""


class PipelinedClient(Protocol):
    """One session with many requests under way. Nothing here waits."""

    def create(self, path: str, value: bytes, done: Done) -> object:
        """Create a znode."""

    def set(self, path: str, value: bytes, done: Done) -> object:
        """Replace its value."""

    def get(self, path: str, done: Done) -> object:
        """Read it."""

    async def close(self) -> object:
        """End the session."""


class DoubleBarrier(Protocol):
    """One participant of a double barrier."""

    def enter(self) -> object:
        """Wait until all have entered."""

    def leave(self) -> object:
        """Wait until all have left."""


class BarrierClient(Protocol):
    """One session of a library that has double barriers."""

    def double_barrier(self, path: str, participants: int, name: str) -> DoubleBarrier:
        """Take part, under that name."""

    def close(self) -> object:
        """End the session."""


def open_with_barriers(task: LoadTask) -> BarrierClient:
    """A session of the library that the task names, which is one of those."""
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import BlockingKazoo

        return BlockingKazoo(task.where)
    from raykeeper.bench.loads.raykeeper_clients import BlockingRaykeeper

    return BlockingRaykeeper(task.where)


def open_blocking(task: LoadTask) -> BlockingClient:
    """A session of the library that the task names."""
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import BlockingKazoo

        return BlockingKazoo(task.where)
    if task.client == "grpc":
        from raykeeper.bench.loads.etcd_clients import BlockingEtcd

        return BlockingEtcd(task.where, task.number)
    from raykeeper.bench.loads.raykeeper_clients import BlockingRaykeeper

    return BlockingRaykeeper(task.where)


async def open_pipelined(task: LoadTask, number: int) -> PipelinedClient:
    """The same for session `number` of the process, of the library's pipelined kind."""
    if task.client == "kazoo":
        from raykeeper.bench.loads.kazoo_clients import PipelinedKazoo

        return PipelinedKazoo(task.where)
    if task.client == "grpc":
        from raykeeper.bench.loads.etcd_clients import PipelinedEtcd

        return PipelinedEtcd(task.where, task.number + number)
    from raykeeper.bench.loads.raykeeper_clients import PipelinedRaykeeper

    return await PipelinedRaykeeper.open(task.where)


def call_done(done: Done) -> Callable[[Any], object]:
    """What a future of asyncio or of concurrent.futures calls when it is done."""
    return lambda future: done(future.exception())
