"""Parts of many recipes: create with parents, read and watch, delete without a trace."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from raykeeper.client import arguments
from raykeeper.client.core.compound_operations import ancestors
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import (
    Event,
    Flow,
    Gather,
    MappedRequest,
    Timeout,
    raise_unexpected,
)
from raykeeper.client.core.outstanding import NewRequest, Query, WatchRemoval
from raykeeper.client.core.results import path_and_stat_of, result_of
from raykeeper.client.errors import (
    BadArgumentsError,
    KeeperError,
    NodeExistsError,
    NoNodeError,
    NoWatcherError,
)
from raykeeper.client.recipes.recipe import FlowRunner
from raykeeper.client.transaction import results_decoder
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Relation,
    SetData,
    TxnOp,
    WatchKind,
)
from raykeeper.znodes.stat import Stat

ATTEMPTS_MAX = 100
"""How often somebody else may undo what an operation builds on before it gives up."""
READ_BATCH_MAX = 500
"""Requests of a recipe that are sent at once, so that others need not wait behind all of them."""


def checked_millis(name: str, seconds: float | None) -> Millis | None:
    """Check a span in seconds, which may be 0, or None for no bound; return milliseconds.

    Raises:
        BadArgumentsError: it is no number of seconds, or negative.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise BadArgumentsError("", f"{name} must be seconds, 0 or more, or None, not {seconds!r}")
    return Millis(int(min(seconds * 1000, 1 << 53)))


def timeout_after(
    timeout_s: float | None, message: str, *, only_while_waiting: bool = False
) -> Timeout:
    """Return the step that bounds an operation.

    Raises:
        BadArgumentsError: it is no number of seconds, or negative.
    """
    return Timeout(checked_millis("timeout_s", timeout_s), message, only_while_waiting)


def checked_bytes(name: str, value: object) -> bytes:
    """Check the value of a znode that a recipe makes.

    Raises:
        BadArgumentsError: it is not bytes.
    """
    if not isinstance(value, bytes):
        raise BadArgumentsError("", f"{name} must be bytes, not {type(value).__name__}")
    return value


def checked_identifier(identifier: object) -> bytes | None:
    """Check what a contender shows of itself; None for the identity of its process.

    Raises:
        BadArgumentsError: it is neither.
    """
    return None if identifier is None else checked_bytes("identifier", identifier)


def identifier_of(client: FlowRunner, identifier: bytes | None) -> bytes:
    """Return what a contender shows of itself; called in the process that contends."""
    return client._identity() if identifier is None else identifier


def create(
    path: str,
    value: bytes = b"",
    *,
    ephemeral: bool = False,
    sequence: bool = False,
    ttl_ms: Millis | None = None,
    parent_stays: bool = False,
) -> Flow[tuple[str, Stat]]:
    """Create a znode, and its parents if they are missing; return its real path and Stat.

    See `ensure_parent`; `parent_stays` if the parent has a value that must last. With `ttl_ms` the
    znode is neither ephemeral nor sequential.
    """
    flags = CreateMode.EPHEMERAL if ephemeral else 0
    if sequence:
        flags |= CreateMode.SEQUENTIAL
    if ttl_ms is not None:
        flags = CreateMode.TTL
    creation = MappedRequest(Create(path, value, flags, None, ttl_ms or 0), path_and_stat_of)
    for _ in range(ATTEMPTS_MAX):
        try:
            made: tuple[str, Stat] = yield creation
        except NoNodeError:
            yield from ensure_parent(parent_of(path), stays=parent_stays)
        else:
            return made
    raise NoNodeError(parent_of(path), "somebody deletes it again and again")


def ensure_parent(path: str, value: bytes = b"", *, stays: bool = False) -> Flow[None]:
    """Create the parent of a recipe's znodes unless it is there, and the missing ones above it.

    It becomes a container, which goes with its last child, unless `stays`. Those above it stay.

    Raises:
        KeeperError: what a creation failed with; NoNodeError if the client's own root is missing.
    """
    above = [Create(each, b"", 0) for each in ancestors(path)]
    flags = 0 if stays else CreateMode.CONTAINER
    outcomes = yield Gather([*above, Create(path, value, flags)])
    if isinstance(outcomes[0], NoNodeError):
        raise NoNodeError("/", "the root of this client, its chroot, does not exist")
    # A parent may go in between; the caller that needs it will notice.
    raise_unexpected(outcomes, NodeExistsError, NoNodeError)


def get_children(path: str, event: Event | None = None) -> Flow[list[str]]:
    """Return the names of the children; none, and set no watch, if there is no such znode."""
    try:
        names: list[str] = yield Query(GetChildren, path, event)
    except NoNodeError:
        return []
    return names


def reread_changed(
    events: dict[str, Event],
    found: dict[str, Any],
    *,
    value_of: str = "",
    to_result: Callable[[SuccessReply], Any] = result_of,
) -> Flow[list[tuple[str, Any]]]:
    """Read again, with its watch, what has changed or was not found yet; return paths and outcomes.

    Read nothing else: a watch that is set twice may fire and still be set. An outcome is the error
    of that read, or what `to_result` makes of the reply: by default the names of the children; of
    the path `value_of`, value and Stat.
    """
    changed = [path for path in events if path not in found or events[path].is_set()]
    for path in changed:
        events[path].drain()
    asks: list[NewRequest] = [
        Query(GetData if path == value_of else GetChildren, path, events[path]) for path in changed
    ]
    return list(zip(changed, (yield Gather(asks, to_result)), strict=True))


def get_or_none(path: str, event: Event | None = None) -> Flow[tuple[bytes, Stat] | None]:
    """Return value and Stat; None, and set no watch, if there is no such znode."""
    try:
        found: tuple[bytes, Stat] = yield Query(GetData, path, event)
    except NoNodeError:
        return None
    return found


def batches(paths: list[str]) -> Iterator[list[str]]:
    """Divide the paths of many requests into those to send at once."""
    return (paths[at : at + READ_BATCH_MAX] for at in range(0, len(paths), READ_BATCH_MAX))


def get_all(
    paths: Iterable[str], *left_out: type[KeeperError]
) -> Flow[list[tuple[bytes, Stat] | None]]:
    """Return value and Stat of several znodes; None for one that is missing, or `left_out`."""
    found = yield Gather([Query(GetData, path) for path in paths])
    raise_unexpected(found, NoNodeError, *left_out)
    return [None if isinstance(each, KeeperError) else each for each in found]


def stat_or_none(path: str, event: Event) -> Flow[Stat | None]:
    """Return the Stat, None if there is no such znode; set a watch in both cases."""
    stat: Stat | None = yield Query(Exists, path, event)
    return stat


def delete(path: str, version: int = ANY_VERSION) -> Flow[bool]:
    """Delete a znode; return False if there is none."""
    try:
        yield Delete(path, version)
    except NoNodeError:
        return False
    return True


def set_value(path: str, value: bytes, version: int = ANY_VERSION) -> Flow[Stat]:
    """Replace the value."""
    stat: Stat = yield SetData(path, value, version)
    return stat


def transact(
    ops: Sequence[TxnOp],
    compares: Iterable[Compare] = (),
    otherwise: Sequence[TxnOp] = (),
) -> Flow[tuple[bool, list[Any]]]:
    """Do several operations as one; return whether all conditions held, and that branch's results.

    Raises:
        KeeperError: what an operation failed with; nothing was done.
    """
    request = Multi(list(compares), list(ops), list(otherwise))
    outcome: tuple[bool, list[Any]] = yield MappedRequest(request, results_decoder(request))
    return outcome


def is_same(path: str, czxid: int) -> Compare:
    """Return the condition that the znode is still the one that was created with that czxid."""
    return Compare(path, CompareField.CZXID, Relation.EQUAL, czxid)


def is_unchanged(path: str, mzxid: Zxid) -> Compare:
    """Return the condition that the value is still the one that was written with that mzxid."""
    return Compare(path, CompareField.MZXID, Relation.EQUAL, mzxid)


def delete_if_same(path: str, czxid: Zxid) -> Multi:
    """Return what deletes a znode only if it is still the one that was created with that czxid.

    A container that went with its last child, and came again, counts its children from 0. So the
    path of a sequential znode that somebody deleted may be another client's znode by now.
    """
    return Multi([is_same(path, czxid)], [Delete(path, ANY_VERSION)], [])


def best_effort_cleanup(
    deletions: Iterable[Multi | str], watches: Iterable[tuple[str, Event]] = ()
) -> Flow[None]:
    """Delete znodes and remove watches, as far as possible: the caller has an error to raise.

    Args:
        deletions: Of each znode its `delete_if_same`; or its path, if it can only be one's own.
        watches: Of each watch its path and its event.
    """
    asks: list[Any] = [
        Delete(each, ANY_VERSION) if isinstance(each, str) else each for each in deletions
    ]
    asks += [WatchRemoval(path, WatchKind.ANY, event) for path, event in watches]
    yield Gather(asks)


def pending_watches(events: dict[str, Event]) -> list[tuple[str, Event]]:
    """Return the watches that have not fired; each path has a one-shot watch with its event."""
    return [(path, event) for path, event in events.items() if not event.is_set()]


def remove_watch(path: str, event: Event) -> Flow[None]:
    """Remove a watch, if it is still there."""
    try:
        yield WatchRemoval(path, WatchKind.ANY, event)
    except NoWatcherError:
        return


def checked_root(path: object) -> str:
    """Check the path of a recipe's znode, below which the recipe keeps its own znodes.

    Raises:
        BadArgumentsError: it is not a path, or the root.
    """
    if not isinstance(path, str):
        raise BadArgumentsError("", f"a path is text, not {type(path).__name__}")
    arguments.checked_path(path)
    if path == "/":
        raise BadArgumentsError(path, "a recipe needs a znode of its own, not the root")
    return path
