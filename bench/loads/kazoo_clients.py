"""kazoo, the usual Python client of ZooKeeper, with its defaults.

ZooKeeper has no linearizable read; a `sync` sent right before the read, without waiting for it, is
the closest a client gets.
"""

from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from kazoo.recipe.barrier import DoubleBarrier

from raykeeper.bench.loads.clients import Done

START_S = 60.0
"""kazoo's 15 s are not enough for hundreds of clients that connect at once on a busy machine."""


def _connect(where: str) -> KazooClient:
    client = KazooClient(hosts=where)
    client.start(START_S)
    return client


class BlockingKazoo:
    """One call at a time."""

    def __init__(self, where: str) -> None:
        self._client = _connect(where)
        self.create = self._client.create
        self.set = self._client.set
        self.get = self._client.get
        self.delete_nowait = self._client.delete_async

    def get_linearizable(self, path: str) -> object:
        """See `BlockingClient`."""
        self._client.sync_async(path)
        return self._client.get(path)

    def watch(self, path: str, told: Callable[[], object]) -> object:
        """See `BlockingClient`."""
        return self._client.get(path, watch=lambda _event: told())

    def locker(self, path: str) -> Callable[[], object]:
        """See `RecipeClient`."""
        lock = self._client.Lock(path)

        def acquire_and_release() -> None:
            lock.acquire()
            lock.release()

        return acquire_and_release

    def double_barrier(self, path: str, participants: int, name: str) -> DoubleBarrier:
        """See `RecipeClient`."""
        return DoubleBarrier(self._client, path, participants, name)

    def close(self) -> None:
        """See `BlockingClient`."""
        self._client.stop()
        self._client.close()


class PipelinedKazoo:
    """kazoo's asynchronous calls; answers arrive on its threads."""

    def __init__(self, where: str) -> None:
        self._client = _connect(where)

    def create(self, path: str, value: bytes, done: Done) -> None:
        """See `PipelinedClient`."""
        _link(self._client.create_async(path, value), done)

    def set(self, path: str, value: bytes, done: Done) -> None:
        """See `PipelinedClient`."""
        _link(self._client.set_async(path, value), done)

    def get(self, path: str, done: Done) -> None:
        """See `PipelinedClient`."""
        _link(self._client.get_async(path), done)

    def delete(self, path: str, done: Done) -> None:
        """See `PipelinedClient`."""
        _link(self._client.delete_async(path), done)

    async def close(self) -> None:
        """See `PipelinedClient`."""
        self._client.stop()
        self._client.close()


def _link(result: IAsyncResult, done: Done) -> None:
    result.rawlink(lambda settled: done(settled.exception))
