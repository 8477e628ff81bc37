"""The read/write lock: many readers, or one writer, in the order in which they came.

    lock = client.read_write_lock("/locks/table")
    with lock.read as held:             # beside other readers
        ...
    with lock.write as held:            # alone
        ...

Readers and writers stand in one queue. A writer waits for the one right before it, of either kind;
a reader for the last writer before it, so readers never wait for readers nor wake them, and all
readers between two writers get the lock together when the first of these goes. No kind starves.
The invariant of this file: a holder has a larger token than everybody of the other kind, and every
writer, that held the lock before.

There is neither upgrade nor downgrade. Two readers who upgrade wait for each other for ever. A
writer that became a reader in place would stand before the writers that wait while its new znode
has a token larger than theirs: the next writer's token would be older than one that was seen
before. So release one, acquire the other, and read again what the lock protects.

Paper: section 2.4, "Read/Write Locks". kazoo: `ReadLock`, `WriteLock`. Curator:
`InterProcessReadWriteLock`.
"""

from raykeeper.client.core.flows import Flow
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.lock import Contender, QueuedLock, list_contenders, sort_queue
from raykeeper.client.recipes.primitives import checked_identifier, checked_root
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation

READ = "read-"
WRITE = "write-"


class Side(QueuedLock[K, Held[K]]):
    """One of the two ways to hold a read/write lock."""

    def __init__(
        self, client: FlowRunner, path: str, identifier: bytes | None, prefix: str
    ) -> None:
        """Use `ReadWriteLock`."""
        prefixes = (READ, WRITE) if prefix == READ else (WRITE, READ)
        super().__init__(client, path, identifier, f"the {prefix[:-1]} lock {path}", prefixes)

    def _likely_predecessor(self, _place: Held[K]) -> str | None:
        """See `ContenderQueue`: it takes the list to know."""
        return None

    def _predecessors(self, names: list[str], own: str) -> list[str]:
        """See `ContenderQueue`."""
        if self._prefixes[0] == READ:
            return predecessors_of_reader(names, own)
        return predecessors_of_writer(names, own)


class ReadWriteLock(PortableRecipe[K]):
    """A fair read/write lock on a path. Not reentrant, on neither side."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.read_write_lock`. `identifier` is shown to those who list the contenders."""
        super().__init__(client)
        self.path = checked_root(path)
        checked_identifier(identifier)
        self.read: Side[K] = Side(client, path, identifier, READ)
        """To share it with other readers."""
        self.write: Side[K] = Side(client, path, identifier, WRITE)
        """To have it alone."""

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """List the holders and those who wait, in order; names begin with "read-" or "write-"."""
        return (yield from list_contenders(self.path, READ, WRITE))


def predecessors_of_writer(names: list[str], own: str) -> list[str]:
    """Return the place right before a writer, if there is one."""
    queue = sort_queue(names, READ, WRITE)
    place = queue.index(own)
    return queue[max(place - 1, 0) : place]


def predecessors_of_reader(names: list[str], own: str) -> list[str]:
    """Return the last writer before a reader, if there is one."""
    queue = sort_queue(names, READ, WRITE)
    return [name for name in queue[: queue.index(own)] if name.startswith(WRITE)][-1:]
