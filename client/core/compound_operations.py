"""Operations made of several requests: create with its parents, delete with its children.

Each is a flow (client/core/flows.py), so both facades share it. None of those with several requests
is atomic: other clients see the steps, and what an error leaves behind stays. None of them waits,
so none can be cancelled.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Flow, Gather, MappedRequest, raise_unexpected
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.client.core.results import op_result_of, result_of
from raykeeper.znodes.errors import (
    BadArgumentsError,
    BadVersionError,
    KeeperError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from raykeeper.znodes.paths import SYSTEM_PATHS, join, parent_of
from raykeeper.znodes.replies import MultiReadReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    Delete,
    Exists,
    GetChildren,
    MultiRead,
    ReadChildren,
    ReadData,
    ReadStat,
    SetData,
)
from raykeeper.znodes.stat import Stat

ATTEMPTS_MAX = 100
"""How often others may undo what an operation builds on before it gives up."""
BATCH_MAX = 1000
"""Requests of one operation that wait at once: others need not wait behind all of them, and a
subtree of any size does not time out in the queue."""


def map_request(request: NewRequest, to_result: Callable[[SuccessReply], Any]) -> Flow[Any]:
    """Send one request, whose result is what `to_result` makes of the reply.

    Raises:
        KeeperError: what the request failed with, or `to_result` raises.
    """
    return (yield MappedRequest(request, to_result))


def read_many(reads: Iterable[ReadData | ReadStat | ReadChildren]) -> Flow[list[Any]]:
    """Read several znodes as of one moment; return the result of each, or its error."""
    request = MultiRead(0, list(reads))

    def to_results(reply: SuccessReply) -> list[Any]:
        assert isinstance(reply, MultiReadReply), reply
        pairs = zip(request.ops, reply.results, strict=True)
        return [op_result_of(result, op.path) for op, result in pairs]

    results: list[Any] = yield MappedRequest(request, to_results)
    return results


def create_if_missing(creation: Create) -> Flow[None]:
    """Create a persistent znode and those above it, unless it is there."""
    if (yield Query(Exists, creation.path)) is None:
        try:
            yield from create_with_parents(creation)
        except NodeExistsError:
            return  # somebody was quicker


def create_with_parents(
    creation: Create, to_result: Callable[[SuccessReply], Any] = result_of
) -> Flow[Any]:
    """Create a znode, and the missing ones above it as empty persistent ones with the same ACL.

    The znode alone is tried first, so where the parents exist this costs nothing.
    """
    parents = [Create(path, b"", 0, creation.acls) for path in ancestors(creation.path)]
    (outcome,) = yield Gather([creation], to_result)
    for _ in range(ATTEMPTS_MAX):
        # A parent that somebody deletes in between is missing once more.
        if not isinstance(outcome, NoNodeError):
            break
        *above, outcome = yield Gather([*parents, creation], to_result)
        raise_unexpected(above, NodeExistsError, NoNodeError)
    raise_unexpected([outcome])
    return outcome


def set_limits(setting: SetData, creation: Create, stats: Create) -> Flow[None]:
    """Set the value of the znode that keeps a quota; where there is none, create it.

    `stats`: the znode beside it, in which ZooKeeper's command line looks for the usage.
    """
    for attempt in range(ATTEMPTS_MAX):
        try:
            yield setting
        except NoNodeError:
            pass
        else:
            return
        try:
            yield from create_with_parents(creation)
        except NodeExistsError:  # somebody was quicker
            if attempt == ATTEMPTS_MAX - 1:
                raise
        else:
            # No more than a window to the usage: the quota holds without it.
            raise_unexpected((yield Gather([stats])), NodeExistsError, NoNodeError)
            return


def remove_limits(path: str, stats: str, root: str) -> Flow[None]:
    """Delete the znodes at `path` and `stats`, and those above up to `root` that are empty then."""
    above = [each for each in reversed(ancestors(path)) if each.startswith(f"{root}/")]
    outcome, *_ = yield Gather([Delete(each, ANY_VERSION) for each in (path, stats, *above)])
    raise_unexpected([outcome])


def delete_with_children(deletion: Delete) -> Flow[None]:
    """Delete a znode and everything below it, the deepest first.

    Nothing to delete is no error, as in kazoo, unless a version was asked for. A znode that
    appears meanwhile is deleted too. A wrong version is noticed before anything is deleted.

    Raises:
        KeeperError: what a deletion failed with; a part may have been deleted.
    """
    path, version = deletion.path, deletion.version
    if path in SYSTEM_PATHS:
        raise BadArgumentsError(path, "it cannot be deleted")
    if version != ANY_VERSION:
        stat: Stat | None = yield Query(Exists, path)
        if stat is None:
            raise NoNodeError(path)
        if stat.version != version:
            raise BadVersionError(path, f"it is at version {stat.version}, not {version}")
    for _ in range(ATTEMPTS_MAX):
        below = yield from _list_tree(path)
        if not below:
            return
        deletions = [Delete(each, ANY_VERSION) for each in reversed(below[1:])]
        outcomes = yield from _in_batches([*deletions, deletion], NoNodeError, NotEmptyError)
        if not isinstance(outcomes[-1], NotEmptyError):
            return
    raise outcomes[-1]


def ancestors(path: str) -> list[str]:
    """Return the paths of the znodes above `path`, the highest first, without the root."""
    above: list[str] = []
    while (path := parent_of(path)) != "/":
        above.append(path)
    return above[::-1]


def _list_tree(path: str) -> Flow[list[str]]:
    """The paths of a znode and all below it, each after its parent; none if it is missing."""
    found: list[str] = []
    level = [path]
    while level:
        outcomes = yield from _in_batches([Query(GetChildren, each) for each in level], NoNodeError)
        below: list[str] = []
        for parent, outcome in zip(level, outcomes, strict=True):
            if not isinstance(outcome, NoNodeError):
                found.append(parent)
                below += [join(parent, name) for name in sorted(outcome)]
        level = below
    return found


def _in_batches(requests: Sequence[NewRequest], *expected: type[KeeperError]) -> Flow[list[Any]]:
    """As one Gather, but never too many at once, and none after an error that is not expected."""
    outcomes: list[Any] = []
    for start in range(0, len(requests), BATCH_MAX):
        batch = yield Gather(list(requests[start : start + BATCH_MAX]))
        raise_unexpected(batch, *expected)
        outcomes += batch
    return outcomes
