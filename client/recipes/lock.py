"""The fair lock without a herd: who came first has it, each of the others watches the one before.

    with client.lock("/locks/x") as held:
        write(data, token=held.token)       # a fencing token, which only grows
        held.lost.check()                   # LostError once somebody else may hold it

One place in the queue, which locks, read/write locks and elections share: an ephemeral sequential
child. The invariant of this file: who holds the lock is the child with the lowest number, and
nobody is told that it holds it before it has seen that; a release wakes one contender.

Paper: section 2.4, "Simple Locks without Herd Effect". kazoo: `Lock`. Curator: `InterProcessMutex`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from raykeeper.client.core.flows import Cancelled, Event, Flow, Gather, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import LostError, RayKeeperError
from raykeeper.client.recipes.acquirable import Acquirable, Held, spawn_guard
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_identifier,
    checked_root,
    create,
    get_children,
    get_or_none,
    identifier_of,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.znodes.errors import KeeperError, NoNodeError
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import GetChildren, GetData, WatchKind

PREFIX = "lock-"


class Contender(Struct, frozen=True):
    """One who holds a lock, or waits for it."""

    name: str
    """Of its znode."""
    identifier: bytes
    """What it said of itself."""
    session_id: int


class Lock(Acquirable[K, Held[K]]):
    """A fair lock on a path. Not reentrant; safe to share between threads, or tasks."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.lock`. `identifier` is shown to whoever lists the contenders."""
        super().__init__(client)
        self.path = checked_root(path)
        self._identifier = checked_identifier(identifier)

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[Held[K]]:
        """Get the lock, behind all that came before.

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
        return f"the lock {self.path} was held by others"

    def _acquire(self) -> Flow[Held[K]]:
        """See `Acquirable`."""
        identifier = identifier_of(self._client, self._identifier)
        place: Held[K] = yield from enqueue(self._client, self.path, PREFIX, identifier)
        yield from wait_for_predecessor(place, predecessor)
        return (yield from spawn_guard(place))

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """Who holds the lock, first, and who waits for it, in order.

        Raises:
            KeeperError: as for every call.
        """
        return (yield from list_contenders(self.path, PREFIX))


def enqueue(
    client: FlowRunner, path: str, prefix: str, identifier: bytes = b"", what: str = ""
) -> Flow[Held[Any]]:
    """Queue up below `path`. What is returned is not held before `wait_for_predecessor` has
    returned.

    Raises:
        KeeperError: what the creation failed with.
    """
    own, stat = yield from create(join(path, prefix), identifier, ephemeral=True, sequence=True)
    return Held(client, what or f"the lock {path}", own, stat.czxid)


def wait_for_predecessor(
    place: Held[Any], find_predecessor: Callable[[list[str], str], str | None]
) -> Flow[None]:
    """Wait until nobody of the queue stands in the way.

    Args:
        place: As `enqueue` made it. It is given up if the wait is abandoned, or fails.
        blocker: Of all children, and the name of one's own, who must go before one need look
            again; None for nobody.

    Raises:
        LostError: somebody deleted the place.
        KeeperError: what a request failed with.
    """
    path, _, own = place.path.rpartition("/")
    watched: list[tuple[str, WatchKind, Event]] = []
    try:
        # The watch of one's own znode is set once and stays for as long as the lock is held.
        names, mine = yield Gather(
            [Query(GetChildren, path), Query(GetData, place.path, place._changed)]
        )
        if isinstance(names, KeeperError):
            raise names
        if isinstance(mine, KeeperError) and not isinstance(mine, NoNodeError):
            raise mine  # the session ended between the two answers, say
        is_there = not isinstance(mine, NoNodeError)
        while True:
            if not is_there or own not in names:
                raise LostError(f"somebody deleted {place.path} while it waited")
            before = find_predecessor(names, own)
            if before is None:
                return
            bell = Event()
            if (yield from get_or_none(join(path, before), bell)) is not None:
                watched = [(join(path, before), WatchKind.DATA, bell)]
                yield Wait((bell, place._changed))
                if not bell.is_set():
                    yield from best_effort_cleanup([], watched)
                watched = []
            if place._changed.is_set():
                is_there = yield from place._reread()
            names = yield from get_children(path)
    except (Cancelled, RayKeeperError):
        yield from best_effort_cleanup([place._removal()], watched)
        raise


def sequence_number(name: str) -> int:
    """The sequence number at the end of a name, by which places are ordered."""
    digits = name[-10:]
    return int(digits) if digits.isdecimal() else -1


def sort_queue(names: list[str], *prefixes: str) -> list[str]:
    """The places among the children, the first first."""
    return sorted(
        (name for name in names if name.startswith(prefixes) and name[-10:].isdecimal()),
        key=sequence_number,
    )


def predecessor(names: list[str], own: str) -> str | None:
    """Who stands right before `own`."""
    prefix = own[:-10]
    queue = sort_queue(names, prefix)
    place = queue.index(own)
    return queue[place - 1] if place else None


def list_contenders(path: str, *prefixes: str) -> Flow[list[Contender]]:
    """The places below `path`, in order.

    Raises:
        KeeperError: what a read failed with.
    """
    queue = sort_queue((yield from get_children(path)), *prefixes)
    found = yield Gather([Query(GetData, join(path, name)) for name in queue])
    return [
        Contender(name, each[0], each[1].ephemeral_owner)
        for name, each in zip(queue, found, strict=True)
        if not isinstance(each, KeeperError)  # gone meanwhile
    ]
