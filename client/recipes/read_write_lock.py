"""The read/write lock: many readers, or one writer, in the order in which they came.

    lock = client.read_write_lock("/locks/table")
    with lock.read as held:             # beside other readers
        ...
    with lock.write as held:            # alone
        ...

Readers and writers stand in one queue. A writer waits for the one right before it, of either kind;
a reader for the last writer before it, so readers never wait for readers nor wake them, and all
readers between two writers get the lock together when the first of these goes. No kind starves.
The invariant of this file: whoever holds the lock has a larger token than everybody of the other
kind, and every writer, that held it before.

There is neither upgrade nor downgrade. Two readers who upgrade wait for each other for ever. A
writer that became a reader in place would stand before the writers that wait while its new znode
has a token larger than theirs: the next writer's token would be older than one that was seen
before. So release one, acquire the other, and look again at what the lock protects.

Paper: section 2.4, "Read/Write Locks". kazoo: `ReadLock`, `WriteLock`. Curator:
`InterProcessReadWriteLock`.
"""

from collections.abc import Callable
from typing import Generic

from raykeeper.client.core.flows import Flow
from raykeeper.client.recipes.acquirable import Acquirable, Held, spawn_guard
from raykeeper.client.recipes.lock import (
    Contender,
    enqueue,
    list_contenders,
    sort_queue,
    wait_for_predecessor,
)
from raykeeper.client.recipes.primitives import checked_identifier, checked_root, identifier_of
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation

READ = "read-"
WRITE = "write-"


class Side(Acquirable[K, Held[K]], Generic[K]):
    """One of the two ways to hold a read/write lock."""

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        identifier: bytes | None,
        prefix: str,
        find_predecessor: Callable[[list[str], str], str | None],
    ) -> None:
        """Use `ReadWriteLock`."""
        super().__init__(client)
        self.path = path
        self._identifier = identifier
        self._prefix = prefix
        self._find_predecessor = find_predecessor
        self._what = f"the {prefix[:-1]} lock {path}"

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[Held[K]]:
        """Get the lock in this way, behind all that came before and stand in the way.

        Args:
            timeout_s: How long to wait; 0 to take it only if it is free, None for ever.

        Raises:
            WaitTimeoutError: others held it all the time; nothing is left behind.
            LostError: somebody deleted the znode of this contender.
            KeeperError: as for every call.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"{self._what} was held by others"

    def _acquire(self) -> Flow[Held[K]]:
        """See `Acquirable`."""
        place: Held[K] = yield from enqueue(
            self._client,
            self.path,
            self._prefix,
            identifier_of(self._client, self._identifier),
            self._what,
        )
        yield from wait_for_predecessor(place, self._find_predecessor)
        return (yield from spawn_guard(place))

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """Those of both kinds, as `ReadWriteLock.contenders` lists them.

        Raises:
            KeeperError: as for every call.
        """
        return (yield from list_contenders(self.path, READ, WRITE))


class ReadWriteLock(Recipe[K]):
    """A fair read/write lock on a path. Not reentrant, on neither side."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.read_write_lock`. `identifier` is shown to who lists the contenders."""
        super().__init__(client)
        self.path = checked_root(path)
        checked_identifier(identifier)
        self.read: Side[K] = Side(client, path, identifier, READ, predecessor_of_reader)
        """To share it with other readers."""
        self.write: Side[K] = Side(client, path, identifier, WRITE, predecessor_of_writer)
        """To have it alone."""

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """Who holds the lock, or waits for it, in order; `name` begins with "read-" or "write-".

        Raises:
            KeeperError: as for every call.
        """
        return (yield from list_contenders(self.path, READ, WRITE))


def predecessor_of_writer(names: list[str], own: str) -> str | None:
    """Who stands right before a writer."""
    queue = sort_queue(names, READ, WRITE)
    place = queue.index(own)
    return queue[place - 1] if place else None


def predecessor_of_reader(names: list[str], own: str) -> str | None:
    """The last writer before a reader."""
    queue = sort_queue(names, READ, WRITE)
    writers = [name for name in queue[: queue.index(own)] if name.startswith(WRITE)]
    return writers[-1] if writers else None
