"""The steps that the operations of a history take on each znode, in the order of each session.

Linearizability is local: a history is linearizable when the operations on each znode are. An
answer that tells something about another znode is a step of that one too: a child is created only
under an existing parent, and an error can tell that the parent was missing.

Only answers and their times count. A zxid gives no order, because it may be what is wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from msgspec import Struct

from raykeeper.chaos.checks.history import (
    History,
    MultiCall,
    Ok,
    Operation,
    Read,
    ReadKind,
    Refused,
    Session,
)
from raykeeper.znodes.errors import Code
from raykeeper.znodes.op_preparer import next_version
from raykeeper.znodes.paths import SEQUENCE_DIGITS, SYSTEM_PATHS, parent_of
from raykeeper.znodes.requests import ANY_VERSION, CloseSession, Create, CreateMode, Delete, SetData


class Znode(NamedTuple):
    """A znode as the steps see it. `owner` is the index of a session in the history, or None."""

    value: bytes
    version: int
    owner: int | None = None


class Impossible:
    """The type of `IMPOSSIBLE`: the step cannot be taken."""


IMPOSSIBLE: Final = Impossible()
RuleResult = Znode | Impossible | None
"""The znode after a step; None when it does not exist."""


class PresentRule(Struct, frozen=True):
    """The znode exists and agrees with every field that is not None."""

    is_change: ClassVar[bool] = False
    value: bytes | None = None
    version: int | None = None
    not_version: int | None = None
    is_ephemeral: bool | None = None
    owners: tuple[int, ...] | None = None
    """The sessions that may own it."""

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return the same znode."""
        if (
            znode is None
            or (self.value is not None and self.value != znode.value)
            or (self.version is not None and self.version != znode.version)
            or (self.not_version is not None and self.not_version == znode.version)
            or (self.is_ephemeral is not None and self.is_ephemeral != (znode.owner is not None))
            or (self.owners is not None and znode.owner not in self.owners)
        ):
            return IMPOSSIBLE
        return znode


class CreateRule(Struct, frozen=True):
    """Makes the znode; `result` is what the answer says of it."""

    is_change: ClassVar[bool] = True
    value: bytes
    owner: int | None
    result: PresentRule

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return the new znode; impossible if one exists."""
        if znode is not None:
            return IMPOSSIBLE
        return self.result.apply(Znode(self.value, 0, self.owner))


class SetRule(Struct, frozen=True):
    """Replaces the value at version `at`, or at any; `result` is what the answer says then."""

    is_change: ClassVar[bool] = True
    value: bytes
    at: int
    result: PresentRule

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return the znode with the new value and its next version."""
        if znode is None or (self.at != znode.version and self.at != ANY_VERSION):
            return IMPOSSIBLE
        return self.result.apply(Znode(self.value, next_version(znode.version), znode.owner))


class DeleteRule(Struct, frozen=True):
    """Delete the znode at version `at`, or at any version."""

    is_change: ClassVar[bool] = True
    at: int

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return None: the znode is gone."""
        if znode is None or (self.at != znode.version and self.at != ANY_VERSION):
            return IMPOSSIBLE
        return None


class SessionEndRule(Struct, frozen=True):
    """The session `owner` ends: its ephemeral znode is deleted, any other znode stays."""

    is_change: ClassVar[bool] = True
    owner: int

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return the znode, or None if the session owned it."""
        return None if znode is not None and znode.owner == self.owner else znode


class AbsentRule(Struct, frozen=True):
    """The znode does not exist."""

    is_change: ClassVar[bool] = False

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return None; impossible if the znode exists."""
        return None if znode is None else IMPOSSIBLE


class RuleSequence(Struct, frozen=True):
    """Several rules as one step; each applies to the result of the one before."""

    rules: list["Rule"]
    is_change: bool

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return the result of the last rule."""
        after: RuleResult = znode
        for rule in self.rules:
            if isinstance(after, Impossible):
                break
            after = rule.apply(after)
        return after


class ImpossibleRule(Struct, frozen=True):
    """An answer that the operation can never get."""

    is_change: ClassVar[bool] = False

    def apply(self, znode: Znode | None) -> RuleResult:
        """Return `IMPOSSIBLE`."""
        return IMPOSSIBLE


Rule = (
    CreateRule
    | SetRule
    | DeleteRule
    | SessionEndRule
    | AbsentRule
    | PresentRule
    | ImpossibleRule
    | RuleSequence
)
_OWNED: Final = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL)
_NUMBERED: Final = (
    CreateMode.SEQUENTIAL,
    CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL,
    CreateMode.TTL_SEQUENTIAL,
)
_MISSING: Final = AbsentRule()
_NEVER: Final = ImpossibleRule()
_FOUND: Final = PresentRule()
_PARENT: Final = PresentRule(is_ephemeral=False)
_EPHEMERAL: Final = PresentRule(is_ephemeral=True)


class Step(Struct, frozen=True):
    """One step of a session on a znode, taken at some time from `called` to `returned`.

    A step that is not required may also never be taken. `returned` None: at any later time.
    """

    rule: Rule
    called: int
    returned: int | None
    is_required: bool
    text: str | Operation

    def __str__(self) -> str:
        return str(self.text)


Steps = dict[int, list[Step]]
"""By the index of a session in the history: its steps on one znode, in their order. A step that
has no place in the order of its session is alone under a negative number."""


def initial_znodes(given: Mapping[str, Znode]) -> dict[str, Znode]:
    """Return the znodes before the first operation."""
    return dict.fromkeys(SYSTEM_PATHS, Znode(b"", 0)) | dict(given)


def steps_by_znode(history: History, *, reads_in_order: bool) -> dict[str, Steps]:
    """Return the steps on each znode.

    A read that is sent again on another connection, or waits while its server has no leader, may
    show later writes of its own client. Unless `reads_in_order` rules that out, such a read has
    no place in the order of its session.
    """
    sessions = list(history.sessions.values())
    rules = _RuleFactory(sessions)
    found: dict[str, Steps] = {}
    ends: list[tuple[int, _SessionEnd]] = []
    sequential: list[tuple[int, int, Step, str]] = []
    strays = 0
    for place, session in enumerate(sessions):
        end = _SessionEnd.of(session)
        ends.append((place, end))
        latest = _latest_moments(session, end.until)
        for index, operation in enumerate(session.operations):
            key, until = place, latest[index]
            if not reads_in_order and _is_overtaken_read(session.operations, index):
                strays += 1
                key, until = -strays, operation.returned
            for path, rule in rules.of(operation, place):
                called = operation.called
                is_required = operation.result is not None
                if until is not None and until < called:
                    if not is_required:
                        continue  # called after the end of the session
                    until = called
                step = Step(rule, called, until, is_required, operation)
                if _is_unnamed_sequential(operation):
                    sequential.append((place, operation.number, step, path))
                else:
                    found.setdefault(path, {}).setdefault(key, []).append(step)
    for place, number, step, prefix in sequential:
        for path in [p for p in found if _continues(p, prefix)]:
            _insert(found[path].setdefault(place, []), step, number)
    for place, end in ends:
        for steps in found.values():
            mine = steps.get(place, ())
            if any(_makes_own(s.rule, place) for s in mine):
                steps[place].append(end.step(place, sessions[place]))
    return found


def _makes_own(rule: Rule, place: int) -> bool:
    """Return whether the rule creates an ephemeral znode of the session at index `place`."""
    if type(rule) is RuleSequence:
        return any(_makes_own(each, place) for each in rule.rules)
    return type(rule) is CreateRule and rule.owner == place


def _is_overtaken_read(operations: list[Operation], index: int) -> bool:
    """Return whether a read was still unanswered when its session sent the next request."""
    operation = operations[index]
    return (
        type(operation.call) is Read
        and operation.returned is not None
        and index + 1 < len(operations)
        and operations[index + 1].called <= operation.returned
    )


class _SessionEnd(Struct):
    """The earliest and the latest time at which a session ends. `is_certain`: it does end."""

    since: int
    until: int | None
    is_certain: bool

    @staticmethod
    def of(session: Session) -> "_SessionEnd":
        """Derive it from the close, from a recorded end, or else from the last answer."""
        since = [session.ended.since] if session.ended else []
        until = [session.ended.until] if session.ended and session.ended.until is not None else []
        for operation in session.operations:
            if type(operation.call) is CloseSession:
                since.append(operation.called)
                if type(operation.result) is Ok and operation.returned is not None:
                    until.append(operation.returned)
        if not since:
            since = [op.called for op in session.operations if type(op.result) is Ok][-1:]
        return _SessionEnd(min(since, default=0), min(until, default=None), bool(until))

    def step(self, place: int, session: Session) -> Step:
        """Return the end as the last step of the session."""
        until = "?" if self.until is None else self.until
        text = f"[{self.since}, {until}] {session.client}.{session.life} the session ends"
        return Step(SessionEndRule(place), self.since, self.until, self.is_certain, text)


def _latest_moments(session: Session, end: int | None) -> list[int | None]:
    """Return for each operation the latest time at which it can take effect.

    The operations of a client take effect in its order and before the end of its session: so none
    takes effect after its own answer, nor after the answer to a later one.
    """
    latest: list[int | None] = []
    until = end
    for operation in reversed(session.operations):
        if operation.returned is not None and _is_executed(operation):
            until = operation.returned if until is None else min(until, operation.returned)
        latest.append(until)
    latest.reverse()
    return latest


_STATE_CODES: Final = frozenset(
    {
        Code.NO_NODE,
        Code.NODE_EXISTS,
        Code.BAD_VERSION,
        Code.NOT_EMPTY,
        Code.NO_CHILDREN_FOR_EPHEMERALS,
    }
)


def _is_executed(operation: Operation) -> bool:
    """Return whether the ensemble answered the operation, and not the client library alone."""
    result = operation.result
    return isinstance(result, Ok) or (isinstance(result, Refused) and result.code in _STATE_CODES)


def _is_unnamed_sequential(operation: Operation) -> bool:
    call = operation.call
    return type(call) is Create and call.flags in _NUMBERED and not operation.result


def _continues(path: str, prefix: str) -> bool:
    """Return whether a sequential creation with `prefix` may have created `path`."""
    number = path[len(prefix) :]
    return path.startswith(prefix) and len(number) >= SEQUENCE_DIGITS and number.isdecimal()


def _insert(steps: list[Step], step: Step, number: int) -> None:
    """Insert a step at its place in the order of its session."""
    index = len(steps)
    while index and _number(steps[index - 1]) > number:
        index -= 1
    steps.insert(index, step)


def _number(step: Step) -> int:
    assert isinstance(step.text, Operation), step
    return step.text.number


class _RuleFactory:
    """Translates an operation into a rule for each znode that its answer tells about."""

    def __init__(self, sessions: list[Session]) -> None:
        self._places: dict[int, tuple[int, ...]] = {}
        for place, session in enumerate(sessions):
            if key := int(session.session_id):
                self._places[key] = (*self._places.get(key, ()), place)
        self._unnamed = tuple(p for p, session in enumerate(sessions) if not session.session_id)

    def of(self, operation: Operation, place: int) -> Iterable[tuple[str, Rule]]:
        """Return the rules by path; `place` is the index of the session."""
        call = operation.call
        match call:
            case Create():
                return self._of_create(operation.result, call, place)
            case SetData() | Delete():
                return self._of_change(operation.result, call)
            case Read():
                if call.is_synced and operation.result is not None:
                    return self._of_read(operation.result, call)
            case MultiCall():
                if isinstance(operation.result, Ok):
                    return self._of_all(operation, place)
        return ()

    def _of_all(self, operation: Operation, place: int) -> Iterator[tuple[str, Rule]]:
        rules: dict[str, list[Rule]] = {}
        for part in operation.parts():
            for path, rule in self.of(part, place):
                rules.setdefault(path, []).append(rule)
        for path, mine in rules.items():
            is_change = any(rule.is_change for rule in mine)
            yield path, mine[0] if len(mine) == 1 else RuleSequence(mine, is_change)

    def _of_create(
        self, result: Ok | Refused | None, call: Create, place: int
    ) -> Iterator[tuple[str, Rule]]:
        path, parent = call.path, parent_of(call.path)
        is_sequential = call.flags in _NUMBERED
        owner = place if call.flags in _OWNED else None
        if result is None:
            yield path, CreateRule(call.value or b"", owner, _FOUND)
        elif isinstance(result, Ok):
            made = result.path or path
            yield made, CreateRule(call.value or b"", owner, self._told(result))
            if made != path and not (is_sequential and _continues(made, path)):
                yield made, _NEVER
            if parent not in SYSTEM_PATHS:
                yield parent, _PARENT
        elif result.code == Code.NO_NODE:
            # Without a parent the znode does not exist either.
            yield parent, _MISSING
            if not is_sequential:
                yield path, _MISSING
        elif result.code == Code.NO_CHILDREN_FOR_EPHEMERALS:
            yield parent, _EPHEMERAL
        elif result.code == Code.NODE_EXISTS:
            if not is_sequential:
                yield path, _FOUND
        elif result.code in _STATE_CODES:
            yield path, _NEVER

    def _of_change(
        self, result: Ok | Refused | None, call: SetData | Delete
    ) -> Iterator[tuple[str, Rule]]:
        path, at = call.path, call.version
        if result is None or isinstance(result, Ok):
            if isinstance(call, Delete):
                yield path, DeleteRule(at)
            else:
                yield path, SetRule(call.value or b"", at, self._told(result) if result else _FOUND)
        elif result.code == Code.NO_NODE:
            yield path, _MISSING
        elif result.code == Code.BAD_VERSION and at != ANY_VERSION:
            yield path, PresentRule(not_version=at)
        elif result.code == Code.NOT_EMPTY and isinstance(call, Delete):
            # The server checks children after the version. A parent is never ephemeral.
            version = None if at == ANY_VERSION else at
            yield path, PresentRule(version=version, is_ephemeral=False)
        elif result.code in _STATE_CODES:
            yield path, _NEVER

    def _of_read(self, result: Ok | Refused, call: Read) -> Iterator[tuple[str, Rule]]:
        path, is_exists = call.path, call.kind is ReadKind.EXISTS
        if isinstance(result, Ok):
            # Without a Stat, `exists` means a missing znode, and any other read an existing one.
            is_missing = is_exists and result.stat is None
            yield path, _MISSING if is_missing else self._told(result)
        elif result.code == Code.NO_NODE and not is_exists:
            yield path, _MISSING
        elif result.code in _STATE_CODES:
            yield path, _NEVER

    def _told(self, result: Ok) -> PresentRule:
        stat = result.stat
        if stat is None:
            return PresentRule(result.value)
        owner = stat.ephemeral_owner
        owners = (*self._places.get(owner, ()), *self._unnamed) if owner else None
        return PresentRule(result.value, stat.version, is_ephemeral=bool(owner), owners=owners)
