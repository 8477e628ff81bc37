"""A double barrier: all begin together, and all end together, round after round.

    barrier = client.double_barrier("/barriers/step", size=4)
    barrier.enter(timeout_s=60)         # until all four have entered
    compute()
    barrier.leave()                     # until all four have left

    PATH/round              one round: gathering at version 0, open at version 1
    PATH/round/p-NUMBER     a participant inside, ephemeral
    PATH/left-ROUND/...     those who have left, ephemeral; only if a crash aborts

The last participant to enter opens the round in the same transaction, with the number of children
as a condition; the last one to leave ends it in the same way. All participants watch only the round
itself: one event tells them that all have come, one that all have left. If the participants inside
die, the servers delete the round, which notifies the others too: it has a TTL, for a container
would stay for a grace (`container_grace_s`).

`on_crash` chooses what happens when a participant dies, and must be the same for all:

    abort       A participant that waits, in `enter` or in `leave`, gets BrokenBarrierError. It does
                not matter why somebody goes before all have come, or left: a participant that gives
                up counts as dead.
    continue    The dead participant's place is free for another one while the round gathers;
                nobody waits for it in an open round.

The invariants of this file: `enter` returns only after `size` participants were inside at once, and
`leave` only after all of them were outside or dead. Rounds never mix, because each round has a
znode of its own, whose czxid is a condition of every change to it, and none begins while another
one has somebody inside.

Paper: section 2.4, "Double Barrier", and Table 3. kazoo: `DoubleBarrier`. Curator:
`DistributedDoubleBarrier`. In both, the others wait for ever if a participant dies.

The file is long because entering and leaving share the conditions of one round.
"""

from typing import Any, Literal

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import EventType
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    BarrierFullError,
    BrokenBarrierError,
    LostError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RayKeeperError,
    RecipeError,
)
from raykeeper.client.recipes.background_recipe import FlowMutex
from raykeeper.client.recipes.compare_and_set import checkpoint
from raykeeper.client.recipes.lock import sequence_number, sort_queue
from raykeeper.client.recipes.primitives import (
    ATTEMPTS_MAX,
    best_effort_cleanup,
    checked_identifier,
    checked_root,
    ensure_parent,
    get_children,
    get_or_none,
    identifier_of,
    is_same,
    pending_watches,
    remove_watch,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.client.session_objects import SessionObject
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Check,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    GetChildren,
    Multi,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)
from raykeeper.znodes.stat import Stat

SIZE_MAX = 500
"""The bound of a round's participants: one transaction must be able to delete them all."""
PREFIX = "p-"
GATHERING, OPEN = 0, 1
_OVER = b"over"
_TTL_MS = 1
"""A round and its marks go when they have no children any more; they are created with the first."""

OnCrash = Literal["abort", "continue"]


class Entered(SessionObject):
    """The entry of one participant into a round."""

    _instead = "pass its `round` on"

    def __init__(
        self, barrier: "DoubleBarrier[Any]", member_path: str, number: Zxid, changed: Event
    ) -> None:
        """Use `DoubleBarrier.enter`."""
        self.round = number
        """The same for all participants of the round, and larger than that of any round before."""
        self._member_path = member_path
        """The znode of this participant."""
        self._changed = changed
        """For the barrier: the event that the round's watch sets."""
        self._barrier = barrier

    def _repr_parts(self) -> tuple[str, ...]:
        state = "inside" if self._barrier._entered is self else "left"
        return self._barrier.path, f"round {self.round}", state

    def _release(self) -> Flow[None]:
        """Withdraw as a crash would, since nobody waits for the round any more."""
        yield from self._barrier._entering.hold(self._barrier._withdraw(self))


class DoubleBarrier(PortableRecipe[K]):
    """One participant of the rounds at a path."""

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        size: int,
        identifier: bytes | None = None,
        on_crash: OnCrash = "abort",
    ) -> None:
        """Use `Client.double_barrier`. `identifier` is the value of the participant's znode."""
        super().__init__(client)
        self.path = checked_root(path)
        if type(size) is not int or not 1 <= size <= SIZE_MAX:
            raise BadArgumentsError(path, f"size must be 1 to {SIZE_MAX}, not {size!r}")
        if on_crash not in ("abort", "continue"):
            raise BadArgumentsError(path, f'on_crash is "abort" or "continue", not {on_crash!r}')
        self.size = size
        self._aborts = on_crash == "abort"
        self._identifier = checked_identifier(identifier)
        self._parameters = f"{size} {on_crash}".encode()
        self._round = join(path, "round")
        self._entered: Entered | None = None
        self._entering = FlowMutex()

    def _repr_parts(self) -> tuple[str, ...]:
        return self.path, f"size {self.size}", "outside" if self._entered is None else "inside"

    def _stays(self) -> str:
        """See `PortableRecipe`."""
        return "" if self._entered is None else f"this participant has entered {self.path}"

    @operation
    def enter(self, timeout_s: float | None = None) -> Flow[Entered]:
        """Wait until all have entered.

        Raises:
            WaitTimeoutError: not all came; nothing is left behind.
            BrokenBarrierError: somebody left before all had come, and `on_crash` is "abort".
            BarrierFullError: all participants of this round have come already.
            RecipeError: this participant has entered already.
            BadArgumentsError: others have entered with another size or `on_crash`.
        """
        yield timeout_after(timeout_s, f"not all {self.size} entered {self.path}")
        return (yield from self._enter())

    @operation
    def leave(self, timeout_s: float | None = None) -> Flow[None]:
        """Leave, and wait until all have left. Even after an error this participant has left.

        Raises:
            WaitTimeoutError: not all left in time.
            BrokenBarrierError: somebody died before leaving, and `on_crash` is "abort".
            LostError: somebody deleted the znode of this participant.
            RecipeError: this participant has not entered.
        """
        yield timeout_after(timeout_s, f"not all {self.size} left {self.path}")
        yield from self._leave()

    @operation
    def cross(self, timeout_s: float | None = None) -> Flow[None]:
        """Enter and leave: a round in which nothing is done inside.

        Raises:
            WaitTimeoutError: not all entered and left in time.
            RecipeError: as for `enter` and `leave`.
        """
        yield timeout_after(timeout_s, f"not all {self.size} crossed {self.path}")
        yield from self._enter()
        yield from self._leave()

    def _withdraw(self, entered: Entered, near: dict[str, Event] | None = None) -> Flow[None]:
        """Withdraw as a crash would, as far as possible: the caller has an error to raise.

        First of all the participant's znode goes, unless all have come: it must not count twice.
        """
        if self._entered is entered:
            self._entered = None
        own: str = entered._member_path
        gathering: list[Compare] = self._is_round(entered.round, GATHERING)
        is_empty = self._participants_compare(Relation.EQUAL, 0)
        deletions: list[Multi | str] = [
            Multi(gathering, [Delete(own, ANY_VERSION)], []),
            Multi([*gathering, is_empty], [Delete(self._round, ANY_VERSION)], []),
            self._mark_path(entered),
        ]
        watches = [(self._round, entered._changed), *pending_watches(near or {})]
        yield from best_effort_cleanup(deletions, watches)
        try:
            if not self._aborts:
                yield from self._leave_without_mark(entered)
            else:
                is_inside = own.rpartition("/")[2] in (yield from get_children(self._round))
                yield from self._break_round(entered.round, None if is_inside else GATHERING)
        except RayKeeperError:
            pass  # the participant's znode is gone, or goes with the session

    # Entering.

    def _enter(self) -> Flow[Entered]:
        yield from self._entering.wait()  # one that was given up is counted until it is withdrawn
        if self._entered is not None:
            raise RecipeError(f"this participant has entered {self.path} already")
        return (yield from self._entering.hold(self._enter_round()))

    def _enter_round(self) -> Flow[Entered]:
        while True:
            entered, names = yield from self._join()
            if not (self._aborts and _has_anyone_left(names) and len(names) == 1):
                break
            yield from self._break_round(entered.round)  # all who came before have left again
        near: dict[str, Event] = {}
        try:
            yield from self._watch_until_open(entered, names, near)
            yield from checkpoint()  # else whoever enters next would find this one inside
        except (Cancelled, RayKeeperError):
            yield from self._withdraw(entered, near)
            raise
        yield from best_effort_cleanup([], pending_watches(near))
        self._entered = entered
        return entered

    def _join(self) -> Flow[tuple[Entered, list[str]]]:
        """Create the participant's znode; with the last one, open the round.

        Return the entry, and the names of the participants unless the round is open.
        """
        is_last = [
            Compare(self._round, CompareField.VALUE, Relation.EQUAL, self._parameters),
            Compare(self._round, CompareField.VERSION, Relation.EQUAL, GATHERING),
            self._participants_compare(Relation.EQUAL, self.size - 1),
        ]
        flags = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL
        sit = Create(
            join(self._round, PREFIX), identifier_of(self._client, self._identifier), flags, None, 0
        )
        stat = ReadStat(self._round)
        begin: list[TxnOp] = [sit, stat, SetData(self._round, self._parameters, GATHERING)]
        wait: list[TxnOp] = [sit, stat, Check(self._round, GATHERING), ReadChildren(self._round)]
        make = Create(self._round, self._parameters, CreateMode.TTL, None, _TTL_MS)
        is_alone: bool = self.size == 1
        is_missing = False
        for _ in range(ATTEMPTS_MAX):
            try:
                if is_missing:
                    _, results = yield from transact([make, *(begin if is_alone else wait)])
                    is_open, results = is_alone, results[1:]
                else:
                    is_open, results = yield from transact(begin, is_last, wait)
            except NoNodeError:
                if is_missing:
                    yield from ensure_parent(self.path)
                is_missing = True
            except NodeExistsError:
                is_missing = False
            except BadVersionError:
                raise BarrierFullError(
                    f"all {self.size} have entered {self.path}, and not all have left"
                ) from None
            else:
                entered = Entered(self, results[0], results[1].czxid, Event())
                return entered, [] if is_open else sort_queue(results[3], PREFIX)
        raise NoNodeError(self._round, "somebody deletes it again and again")

    def _watch_until_open(
        self, entered: Entered, names: list[str], near: dict[str, Event]
    ) -> Flow[None]:
        """Wait until the round is open. Afterwards its watch is set, for the end of the round.

        `near` gets the watch of the participant that came right before, if there is one.
        """
        changed = Event()
        has_gone = self._aborts and _has_anyone_left(names)
        while True:
            if self._aborts and names and not has_gone and (not near or changed.is_set()):
                watched, names = yield from self._watch_predecessor(entered, names, changed)
                near.clear()
                if watched is not None:
                    near[watched] = changed
                has_gone = watched is None
            # Read after setting the watch: the read shows who left before the watch was set.
            stat = yield from self._read_round(entered)
            if stat.version > GATHERING:
                return
            has_gone = has_gone or (self._aborts and stat.cversion > stat.num_children)
            if has_gone:
                yield from self._break_round(entered.round, GATHERING)
            else:
                yield Wait((entered._changed, changed))

    def _read_round(self, entered: Entered) -> Flow[Stat]:
        """Read the round, and watch it; return its Stat.

        Its version tells whether all have come. Its cversion counts all that came and all that
        left.

        Raises:
            BrokenBarrierError: the round is over.
            BadArgumentsError: the participants of the round named another size or `on_crash`.
        """
        entered._changed.drain()
        found = yield from get_or_none(self._round, entered._changed)
        if found is None or found[1].czxid != entered.round:
            raise BrokenBarrierError(f"somebody left {self.path} before all had come")
        if found[0] != self._parameters:
            raise BadArgumentsError(self.path, f"the others named {found[0].decode()!r}")
        return found[1]

    def _watch_predecessor(
        self, entered: Entered, names: list[str], near: Event
    ) -> Flow[tuple[str | None, list[str]]]:
        """Watch the participant that came right before; the first one watches all others.

        Return the watched path, None if a participant has left, and the names of the participants.
        """
        own = names.index(entered._member_path.rpartition("/")[2])
        if own == 0:
            near.drain()
            names = sort_queue((yield from get_children(self._round, near)), PREFIX)
            return (self._round if names else None), names
        if near.is_set():
            return None, names
        neighbour = join(self._round, names[own - 1])
        try:
            yield Query(GetChildren, neighbour, near)  # fires only when it is deleted
        except NoNodeError:
            return None, names
        return neighbour, names

    # Leaving.

    def _leave(self) -> Flow[None]:
        entered, self._entered = self._entered, None
        if entered is None:
            raise RecipeError(f"this participant has not entered {self.path}")
        try:
            is_last = yield from (
                self._leave_with_mark(entered)
                if self._aborts
                else self._leave_without_mark(entered)
            )
            while not is_last and not (yield from self._is_over(entered)):
                yield Wait((entered._changed,))
        except (Cancelled, RayKeeperError):
            yield from self._withdraw(entered)
            raise
        if self._aborts and not is_last:
            # One transaction for both: a separate read that is repeated after a lost connection
            # would come after the deletion, and the znode that it reads goes with the last mark.
            ops: list[TxnOp] = [
                ReadData(self._left_path(entered)),
                Delete(self._mark_path(entered), ANY_VERSION),
            ]
            try:
                _, results = yield from transact(ops)
            except NoNodeError:
                raise self._broken_error() from None
            if results[0][0] != _OVER:
                raise self._broken_error()

    def _is_over(self, entered: Entered) -> Flow[bool]:
        """Return whether the round has ended; it is read only if its watch has fired."""
        if not entered._changed.is_set():
            return False
        if any(event.type is EventType.DELETED for event in entered._changed.drain()):
            return True
        found = yield from get_or_none(self._round, entered._changed)
        if found is not None and found[1].czxid != entered.round:
            yield from remove_watch(self._round, entered._changed)
            return True
        return found is None

    def _leave_with_mark(self, entered: Entered) -> Flow[bool]:
        """Replace the participant's znode by a mark, so that a crash shows as a missing mark.

        Return whether this participant was the last, which ends the round.

        Raises:
            BrokenBarrierError: a mark is missing, or somebody deleted the znode before.
        """
        left, others = self._left_path(entered), self.size - 1
        mark = Create(self._mark_path(entered), b"", CreateMode.EPHEMERAL)
        marks: list[TxnOp] = [mark, ReadStat(self._round), ReadStat(left)]
        also = marks
        at_end: list[TxnOp] = [SetData(left, _OVER, ANY_VERSION)]
        if_all = [Compare(left, CompareField.NUM_CHILDREN, Relation.EQUAL, others)]
        if not others:
            at_end, if_all = [], []
        for _ in range(ATTEMPTS_MAX):
            try:
                ended, results = yield from self._delete_own(entered, also, at_end, if_all)
            except LostError:
                yield from self._break_round(entered.round)
                raise self._broken_error() from None
            except NoNodeError:
                # Create it together with the first mark: alone it would stay if we died in between.
                also = [Create(left, b"", CreateMode.TTL, None, _TTL_MS), *marks]
            except NodeExistsError:
                also = marks
            else:
                if not ended and results[-2].num_children + results[-1].num_children <= others:
                    yield from self._break_round(entered.round)
                return ended
        raise NoNodeError(left, "somebody deletes it again and again")

    def _leave_without_mark(self, entered: Entered) -> Flow[bool]:
        """Delete the participant's znode; return whether it was the last, which ends the round.

        Raises:
            LostError: somebody deleted it before.
        """
        return (yield from self._delete_own(entered, [], [], []))[0]

    def _delete_own(
        self,
        entered: Entered,
        also: list[TxnOp],
        at_end: list[TxnOp],
        if_all: list[Compare],
    ) -> Flow[tuple[bool, list[Any]]]:
        """Delete the participant's znode; return whether it was the last, and the results if not.

        Args:
            entered: The entry. Znodes of another round have the same names, so each transaction
                has the condition that the round is this one.
            also: Further operations while others are still inside.
            at_end: Further operations when nobody else is inside.
            if_all: Further conditions for the end.

        Raises:
            LostError: somebody deleted the znode, or the conditions for the end do not hold.
            NoNodeError, NodeExistsError: an operation of `also` failed with it.
        """
        is_it: list[Compare] = self._is_round(entered.round)
        seat: TxnOp = Delete(entered._member_path, ANY_VERSION)
        alone: list[Compare] = [*is_it, self._participants_compare(Relation.EQUAL, 1), *if_all]
        end: list[TxnOp] = [seat, Delete(self._round, ANY_VERSION), *at_end]
        with_others: list[Compare] = [*is_it, self._participants_compare(Relation.GREATER, 1)]
        try:
            is_done, results = yield from transact([seat, *also], with_others)
            if is_done:
                return False, results
            is_done, _ = yield from transact(end, alone)
        except NoNodeError as error:
            is_done = False
            if error.failed:
                raise
        if not is_done:
            raise LostError(f"somebody deleted {entered._member_path}")
        return True, []

    def _break_round(self, number: Zxid, phase: int | None = None) -> Flow[None]:
        """End the round for all, unless it is over, or in a phase other than `phase`.

        Raises:
            KeeperError: a request failed.
        """
        is_it = self._is_round(number, phase)
        for _ in range(ATTEMPTS_MAX):
            names = yield from get_children(self._round)
            ops: list[TxnOp] = [Delete(join(self._round, name), ANY_VERSION) for name in names]
            try:
                yield from transact([*ops, Delete(self._round, ANY_VERSION)], is_it)
            except (NoNodeError, NotEmptyError):
                continue  # somebody came or went in between
            return

    def _is_round(self, number: Zxid, phase: int | None = None) -> list[Compare]:
        is_it = [is_same(self._round, number)]
        if phase is not None:
            is_it.append(Compare(self._round, CompareField.VERSION, Relation.EQUAL, phase))
        return is_it

    def _participants_compare(self, relation: Relation, count: int) -> Compare:
        return Compare(self._round, CompareField.NUM_CHILDREN, relation, count)

    def _left_path(self, entered: Entered) -> str:
        return join(self.path, f"left-{entered.round:x}")

    def _mark_path(self, entered: Entered) -> str:
        return join(self._left_path(entered), entered._member_path.rpartition("/")[2])

    def _broken_error(self) -> BrokenBarrierError:
        return BrokenBarrierError(f"a participant of {self.path} died before it left")


def _has_anyone_left(names: list[str]) -> bool:
    """Return whether any participant has left again."""
    return bool(names) and sequence_number(names[-1]) + 1 > len(names)
