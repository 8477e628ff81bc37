"""The fair lock without a herd: the first in the queue has it, each other watches the one before.

    with client.lock("/locks/x") as held:
        write(data, token=held.token)       # a fencing token, which only grows
        held.lost.check()                   # LostError once somebody else may hold it

`ContenderQueue` is the base of locks, read/write locks, semaphores and elections: enqueue, wait for
the predecessors, guard, release. A place in the queue is an ephemeral sequential child. The
invariant of this file: the holder of the lock is the child with the lowest number, and nobody is
told that it holds the lock before it has seen that; a release wakes one contender.

Paper: section 2.4, "Simple Locks without Herd Effect". kazoo: `Lock`. Curator: `InterProcessMutex`.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Event, Flow, Gather, Wait, raise_unexpected, with_cleanup
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.client.core.public_types import EventType
from raykeeper.client.core.results import op_result_of, result_of
from raykeeper.client.errors import LostError
from raykeeper.client.recipes.acquirable import Acquirable, H, Held, spawn_guard
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_identifier,
    checked_root,
    create,
    get_all,
    get_children,
    identifier_of,
    remove_watch,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.znodes.errors import KeeperError, NoNodeError, ThrottledOpError
from raykeeper.znodes.paths import join
from raykeeper.znodes.replies import MultiReadReply
from raykeeper.znodes.requests import GetChildren, GetData, MultiRead, ReadChildren

PREFIX = "lock-"

_DIGITS_OF = itemgetter(slice(-10, None))

P = TypeVar("P", bound=Held[Any])
"""A place in the queue, which becomes what is held."""


class Contender(Struct, frozen=True):
    """A holder of a lock, or somebody who waits for it."""

    name: str
    """Of its znode."""
    identifier: bytes
    """The bytes with which it introduced itself."""
    session_id: int


class Contended(Acquirable[K, H], Generic[K, H]):
    """A recipe for which clients contend at one path; each shows an identifier."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None, what: str) -> None:
        """`what` is held, for messages."""
        super().__init__(client)
        self.path = checked_root(path)
        self._identifier = checked_identifier(identifier)
        self._what = what

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"{self._what} was held by others"


class ContenderQueue(Contended[K, P], Generic[K, P]):
    """A recipe whose contenders stand in one queue below `path`; a subclass says what differs."""

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        identifier: bytes | None,
        what: str,
        prefixes: tuple[str, ...],
    ) -> None:
        """`prefixes`: of all places, that of this contender first."""
        super().__init__(client, path, identifier, what)
        self._prefixes = prefixes

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """List the holders, which are first, and those who wait, in order."""
        return (yield from list_contenders(self.path, *self._prefixes))

    def _acquire(self) -> Flow[P]:
        """See `Acquirable`."""
        place: P = yield from self._enqueue()
        likely = self._likely_predecessor(place)
        yield from wait_for_predecessor(place, self._predecessors, likely)
        yield from self._on_turn(place)
        return (yield from spawn_guard(place))

    def _enqueue(self) -> Flow[Any]:
        """Queue up; return the place, which is not held yet."""
        identifier = identifier_of(self._client, self._identifier)
        return (
            yield from enqueue(self._client, self.path, self._prefixes[0], identifier, self._what)
        )

    def _predecessors(self, names: list[str], own: str) -> list[str]:
        """See `wait_for_predecessor`."""
        return predecessors(names, own)

    def _likely_predecessor(self, place: P) -> str | None:
        """See `wait_for_predecessor`."""
        return path_before(place.path)

    def _on_turn(self, place: P) -> Flow[None]:
        """Do what is left when nobody stands in the way. An error gives the place up."""
        yield from ()


class QueuedLock(ContenderQueue[K, P], Generic[K, P]):
    """A lock with a queue."""

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[P]:
        """Get the lock, behind all that came before and stand in the way.

        Raises:
            WaitTimeoutError: others held it all the time; nothing is left behind.
            LostError: somebody deleted the znode of this contender.
        """
        return self._acquire_within(timeout_s)


class Lock(QueuedLock[K, Held[K]]):
    """A fair lock on a path. Not reentrant; safe to share between threads, or tasks."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.lock`. `identifier` is shown to those who list the contenders."""
        super().__init__(client, path, identifier, f"the lock {path}", (PREFIX,))


def enqueue(
    client: FlowRunner, path: str, prefix: str, identifier: bytes = b"", what: str = ""
) -> Flow[Held[Any]]:
    """Queue up below `path`; return the place: not held before `wait_for_predecessor` returns."""
    own, stat = yield from create(join(path, prefix), identifier, ephemeral=True, sequence=True)
    return Held(client, what or f"the lock {path}", own, stat.czxid)


def wait_for_predecessor(
    place: Held[Any],
    find_predecessors: Callable[[list[str], str], list[str]],
    likely: str | None = None,
) -> Flow[None]:
    """Wait until nobody of the queue stands in the way.

    Args:
        place: As `enqueue` made it. It is given up if the wait is cancelled, or fails.
        find_predecessors: Is given all children and the name of one's own. It returns those of
            which one must go before one need look again; none when it is one's turn.
        likely: The path of a znode that is the only predecessor if it exists. It is watched at
            once, and then a newcomer to a very long queue reads no list of it: else a crowd of n
            would read n * n names.

    Raises:
        LostError: somebody deleted the place.
    """
    changed = Event()
    watched: dict[str, None] = {}

    def clean_up(has_failed: bool) -> Flow[None]:
        deletions = [place._removal()] if has_failed else []
        return best_effort_cleanup(deletions, [(path, changed) for path in watched])

    turn = _wait_for_turn(place, find_predecessors, likely, changed, watched)
    yield from with_cleanup(turn, clean_up)


def _wait_for_turn(
    place: Held[Any],
    find_predecessors: Callable[[list[str], str], list[str]],
    likely: str | None,
    changed: Event,
    watched: dict[str, None],
) -> Flow[None]:
    """Wait until nobody stands in the way; keep in `watched` the paths whose watch is `changed`."""
    path, _, own = place.path.rpartition("/")
    is_there, names = yield from _look(place, likely, changed, watched)
    while True:
        if place._changed.is_set():
            is_there = yield from place._reread()
        if not is_there or (names is not None and own not in names):
            raise LostError(f"somebody deleted {place.path} while it waited")
        before = list(watched)
        if names is not None:
            before = [join(path, name) for name in find_predecessors(names, own)]
        if not before:
            return
        if (yield from _watch(before, changed, watched)):
            yield Wait((changed, place._changed))
            for event in changed.drain():
                if event.type is not EventType.NONE:
                    watched.pop(event.path, None)
        names = yield from get_children(path)


def _look(
    place: Held[Any], likely: str | None, changed: Event, watched: dict[str, None]
) -> Flow[tuple[bool, list[str] | None]]:
    """Look at the queue first; return whether the place is there, and all children.

    The children are None if they are too many for one answer and `likely` is there, and watched.
    """
    path, _, _ = place.path.rpartition("/")
    # The watch of one's own znode is set once and stays for as long as the lock is held.
    asks: list[NewRequest] = [Query(GetData, place.path, place._changed)]
    if likely is None:
        asks.append(Query(GetChildren, path))
    else:
        asks += [Query(GetData, likely, changed), MultiRead(0, [ReadChildren(path)])]
    mine, *found, listed = yield Gather(asks, _children_or_result)
    raise_unexpected([mine, *found], NoNodeError)  # the session ended between two answers, say
    watched |= {path: None for path in [likely] if path and not isinstance(found[0], NoNodeError)}
    if isinstance(listed, ThrottledOpError):
        listed = None if watched else (yield from get_children(path))
    raise_unexpected([listed])
    if isinstance(mine, NoNodeError):
        return False, listed
    if mine[1].czxid != place.token:  # somebody deleted it, and its number was given again
        yield from remove_watch(place.path, place._changed)
        return False, listed
    return True, listed


def _children_or_result(reply: SuccessReply) -> Any:
    """Return the children in the reply to a MultiRead of them, of another read its result."""
    if not isinstance(reply, MultiReadReply):
        return result_of(reply)
    (children,) = reply.results
    return op_result_of(children, "")


def _watch(paths: list[str], changed: Event, watched: dict[str, None]) -> Flow[bool]:
    """Watch those that are not watched yet; whether all are there."""
    new = [path for path in paths if path not in watched]
    found = yield Gather([Query(GetData, path, changed) for path in new])
    watched |= {
        path: None
        for path, each in zip(new, found, strict=True)
        if not isinstance(each, KeeperError)
    }
    raise_unexpected(found, NoNodeError)
    return all(path in watched for path in paths)


def sequence_number(name: str) -> int:
    """Return the sequence number at the end of a name, by which places are ordered."""
    digits = name[-10:]
    return int(digits) if digits.isdecimal() else -1


def sort_queue(names: list[str], *prefixes: str) -> list[str]:
    """Return the places among the children, in their order."""
    return sorted(
        (name for name in names if name.startswith(prefixes) and name[-10:].isdecimal()),
        key=sequence_number,
    )


def predecessors(names: list[str], own: str) -> list[str]:
    """Return the place right before `own`, if there is one."""
    prefix, number = own[:-10], own[-10:]
    before = [name for name in names if name[-10:] < number and name.startswith(prefix)]
    queue = [name for name in before if name[-10:].isdecimal()]
    return [max(queue, key=_DIGITS_OF)] if queue else []


def path_before(path: str) -> str | None:
    """Return the path of the place with the number before, None before the first."""
    number = sequence_number(path)
    return f"{path[:-10]}{number - 1:010}" if number > 0 else None


def list_contenders(path: str, *prefixes: str) -> Flow[list[Contender]]:
    """List the places below `path`, in order."""
    queue = sort_queue((yield from get_children(path)), *prefixes)
    found = yield from get_all((join(path, name) for name in queue), KeeperError)
    return [
        Contender(name, each[0], each[1].ephemeral_owner)
        for name, each in zip(queue, found, strict=True)
        if each  # else it is gone meanwhile, or not shown to this client
    ]
