"""Operations made of several requests: create with its parents, delete with its children.

Each is a generator that yields a round of requests, all sent at once, and is sent their outcomes;
so both facades share it. None of those with several requests is atomic: other clients see the
steps, and what an error leaves behind stays. A single request whose result takes more than its
answer to make is one of them too.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from raykeeper.client.core.effects import SuccessReply
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
from raykeeper.znodes.replies import ExistsReply, GetChildrenReply, MultiReadReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    Delete,
    Exists,
    GetChildren,
    MultiRead,
    SetData,
)

ATTEMPTS_MAX = 100  # against somebody who undoes each round
BATCH_MAX = 1000
"""Requests of one operation that wait at once: others need not wait behind all of them, and a
subtree of any size does not time out in the queue."""

Outcome = SuccessReply | KeeperError
Rounds = Generator[list[NewRequest], list[Outcome], Any]


class Owner(Protocol):
    """Who waits for the whole operation."""

    def succeed(self, value: Any) -> None:
        """It is done."""

    def fail(self, error: KeeperError) -> None:
        """It failed."""


def shaped(ask: NewRequest, shape: Callable[[SuccessReply], Any]) -> Rounds:
    """One request, whose result is what `shape` makes of the answer.

    Raises:
        KeeperError: what the request failed with, or `shape` raises.
    """
    (outcome,) = yield [ask]
    return shape(_succeeded(outcome))


def read_many(request: MultiRead) -> Rounds:
    """Several reads of one moment: the result of each, or its error.

    Raises:
        KeeperError: what the whole request failed with.
    """
    (outcome,) = yield [request]
    answer = _succeeded(outcome)
    assert isinstance(answer, MultiReadReply), answer
    results = zip(request.ops, answer.results, strict=True)
    return [op_result_of(result, op.path) for op, result in results]


def ensure(creation: Create) -> Rounds:
    """Create a persistent znode and those above it, unless it is there.

    Raises:
        KeeperError: what the creation failed with.
    """
    (found,) = yield [Query(Exists, creation.path)]
    answer = _succeeded(found)
    assert isinstance(answer, ExistsReply), answer
    if answer.stat is None:
        try:
            yield from create_with_parents(creation)
        except NodeExistsError:
            return  # somebody was quicker


def create_with_parents(
    creation: Create, shape: Callable[[SuccessReply], Any] = result_of
) -> Rounds:
    """Create a znode, and the missing ones above it as empty persistent ones with the same ACL.

    The znode alone is tried first, so where the parents exist this costs nothing.

    Raises:
        KeeperError: what the creation failed with.
    """
    parents = [Create(path, b"", 0, creation.acls) for path in _ancestors(creation.path)]
    *above, outcome = yield [creation]
    for _ in range(ATTEMPTS_MAX):
        # A parent that somebody deletes in between is missing once more.
        if not isinstance(outcome, NoNodeError):
            break
        *above, outcome = yield [*parents, creation]
        _raise_unexpected(above, NodeExistsError, NoNodeError)
    return shape(_succeeded(outcome))


def set_limits(setting: SetData, creation: Create) -> Rounds:
    """Set the value of the znode that keeps a quota; where there is none, create it.

    Raises:
        KeeperError: what the setting or the creation failed with.
    """
    for _ in range(ATTEMPTS_MAX):
        (outcome,) = yield [setting]
        if not isinstance(outcome, NoNodeError):
            break
        try:
            yield from create_with_parents(creation)
        except NodeExistsError as error:
            outcome = error  # somebody was quicker
        else:
            return None
    _succeeded(outcome)
    return None


def remove_limits(path: str, root: str) -> Rounds:
    """Delete the znode at `path`, and those above it up to `root` that are empty then.

    Raises:
        KeeperError: what the deletion failed with.
    """
    above = [each for each in reversed(_ancestors(path)) if each.startswith(f"{root}/")]
    outcome, *_ = yield [Delete(each, ANY_VERSION) for each in (path, *above)]
    _succeeded(outcome)


def delete_with_children(deletion: Delete) -> Rounds:
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
        (found,) = yield [Query(Exists, path)]
        if isinstance(found, KeeperError):
            raise found
        assert isinstance(found, ExistsReply), found
        if found.stat is None:
            raise NoNodeError(path)
        if found.stat.version != version:
            raise BadVersionError(path, f"it is {found.stat.version}, not {version}")
    outcome: Outcome | None = None
    for _ in range(ATTEMPTS_MAX):
        below = yield from _list_tree(path)
        if not below:
            return None
        doomed = [Delete(each, ANY_VERSION) for each in reversed(below[1:])]
        outcomes = yield from _in_batches([*doomed, deletion], NoNodeError, NotEmptyError)
        outcome = outcomes[-1]
        if not isinstance(outcome, NotEmptyError):
            return None
    assert isinstance(outcome, NotEmptyError), outcome
    raise outcome


def run_rounds(rounds: Rounds, submit: Callable[[NewRequest, Any], None], owner: Owner) -> None:
    """Run an operation. The outcomes come on the loop; there each next round is submitted."""
    _Run(rounds, submit, owner).go_on(None)


def _ancestors(path: str) -> list[str]:
    """The paths of the znodes above `path`, the highest first, without the root."""
    above: list[str] = []
    while (path := parent_of(path)) != "/":
        above.append(path)
    return above[::-1]


def _list_tree(path: str) -> Generator[list[NewRequest], list[Outcome], list[str]]:
    """The paths of a znode and all below it, each after its parent; none if it is missing."""
    found: list[str] = []
    level = [path]
    while level:
        asks = [Query(GetChildren, each) for each in level]
        outcomes = yield from _in_batches(asks, NoNodeError)
        below: list[str] = []
        for parent, outcome in zip(level, outcomes, strict=True):
            if isinstance(outcome, GetChildrenReply):
                found.append(parent)
                below += [join(parent, name) for name in sorted(outcome.children)]
        level = below
    return found


def _in_batches(
    asks: Sequence[NewRequest], *expected: type[KeeperError]
) -> Generator[list[NewRequest], list[Outcome], list[Outcome]]:
    """As one round, but never too many at once, and none after an error that is not expected."""
    outcomes: list[Outcome] = []
    for start in range(0, len(asks), BATCH_MAX):
        portion = yield list(asks[start : start + BATCH_MAX])
        _raise_unexpected(portion, *expected)
        outcomes += portion
    return outcomes


def _succeeded(outcome: Outcome) -> SuccessReply:
    if isinstance(outcome, KeeperError):
        raise outcome
    return outcome


def _raise_unexpected(outcomes: list[Outcome], *expected: type[KeeperError]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, KeeperError) and not isinstance(outcome, expected):
            raise outcome


class _Run:
    """One operation under way; of each round it waits for the last outcome."""

    def __init__(
        self, rounds: Rounds, submit: Callable[[NewRequest, Any], None], owner: Owner
    ) -> None:
        self._rounds = rounds
        self._submit = submit
        self._owner = owner
        self._left = 0
        self._outcomes: list[Outcome | None] = []

    def go_on(self, outcomes: list[Any] | None) -> None:
        try:
            asks = self._rounds.send(outcomes)  # type: ignore[arg-type]
        except StopIteration as end:
            self._owner.succeed(end.value)
        except KeeperError as error:
            self._owner.fail(error)
        else:
            self._left = len(asks)
            self._outcomes = [None] * len(asks)
            for place, ask in enumerate(asks):
                self._submit(ask, _Part(self, place))

    def put(self, place: int, outcome: Outcome) -> None:
        self._outcomes[place] = outcome
        self._left -= 1
        if not self._left:
            self.go_on(self._outcomes)


class _Part:
    """The token of one request of a round."""

    __slots__ = ("_place", "_run")

    def __init__(self, run: _Run, place: int) -> None:
        self._run = run
        self._place = place

    def complete(self, answer: SuccessReply) -> None:
        self._run.put(self._place, answer)

    def fail(self, error: KeeperError) -> None:
        self._run.put(self._place, error)
