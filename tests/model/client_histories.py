"""Random histories of clients that are linearizable by construction, and a judge by brute force.

A naive keeper executes the operations of a few sessions one by one; around the moment of each, its
call and its answer are drawn. Some answers are lost.
"""

import copy
from random import Random

from raykeeper.chaos.checks.history import (
    Call,
    Called,
    History,
    Ok,
    Operation,
    Read,
    ReadKind,
    Record,
    Refused,
    Result,
    Returned,
    Session,
    SessionBegan,
    SessionEnded,
)
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import CloseSession, Create, Delete, SessionId, SetData
from raykeeper.znodes.stat import Stat
from tests.model.naive_keeper import NO_NODE, NaiveKeeper


def answer(keeper: NaiveKeeper, zxid: int, session_id: int, call: Call) -> Result:
    """Execute one call on the naive keeper."""
    if isinstance(call, Read):
        if call.path not in keeper.nodes:
            return Ok() if call.kind is ReadKind.EXISTS else Refused(NO_NODE)
        stat = _stat(keeper.stat(call.path))
        value = keeper.nodes[call.path].value if call.kind is ReadKind.GET else None
        return Ok(value=value, stat=stat)
    result = keeper.write(zxid, zxid, session_id, zxid, 0, call)
    if result.code:
        return Refused(result.code)
    return Ok(Zxid(zxid), result.path, stat=_stat(result.stat) if result.stat else None)


def _stat(fields: tuple[int, ...]) -> Stat:
    czxid, mzxid, ctime, mtime, *middle, pzxid = fields
    version, cversion, aversion, owner, length, count = middle
    return Stat(
        Zxid(czxid), Zxid(mzxid), Millis(ctime), Millis(mtime),
        version, cversion, aversion, owner, length, count, Zxid(pzxid),
    )  # fmt: skip


def draw_call(random: Random, paths: list[str], token: int) -> Call:
    """Any operation that is part of an order."""
    path, value = random.choice(paths), b"%d" % token
    match random.randrange(7):
        case 0 | 1:
            return Create(path, value, random.choice([0, 0, 1]))
        case 2:
            return Delete(path, random.choice([-1, -1, 0, 1]))
        case 3 | 4:
            return SetData(path, value, random.choice([-1, -1, 0, 1]))
        case 5:
            return Read(path, ReadKind.EXISTS, is_synced=True)
        case _:
            return Read(path, ReadKind.GET, is_synced=True)


class _Life:
    """One session under way. Calls and answers keep to its order."""

    def __init__(
        self, random: Random, client: str, life: int, at: int, session_id: int, overlap: int
    ) -> None:
        self.records: list[Record] = []
        self.client = client
        self.life = life
        self.session_id = SessionId(session_id)
        self.number = 0
        self.is_over = False
        self._random = random
        self._called = self._returned = at
        self._overlap = overlap
        self._is_silent = False
        self.records.append(SessionBegan(client, life, at, self.session_id))

    def execute(self, keeper: NaiveKeeper, at: int, call: Call, lost: float) -> None:
        """Execute a call at a moment, and draw when it was sent and when it was answered."""
        random = self._random
        self.number += 1
        self._called = max(self._called, at - random.randint(0, self._overlap))
        self.records.append(Called(self.client, self.life, self.number, self._called, call))
        if random.random() < lost:
            # From the first lost answer on the client hears nothing more.
            self._is_silent = True
        if self._is_silent and random.random() < 0.5:
            # Nor does what it sends take effect, once one did not: the order is kept.
            self.is_over = True
        if self.is_over:
            return
        result = answer(keeper, at, self.session_id, call)
        if isinstance(call, CloseSession):
            self.is_over = True
        if not self._is_silent:
            self._returned = max(self._returned, at + random.randint(0, self._overlap))
            returned = Returned(self.client, self.life, self.number, self._returned, result)
            self.records.append(returned)

    def expire(self, keeper: NaiveKeeper, at: int) -> None:
        """The session ends by itself."""
        self.is_over = True
        keeper.close(at, self.session_id)
        until = self._random.choice([None, at + self._random.randint(0, self._overlap)])
        since = at - self._random.randint(0, self._overlap)
        self.records.append(SessionEnded(self.client, self.life, since, until))


def draw_history(
    random: Random, paths: list[str], operations: int, overlap: int, lost: float = 0.1
) -> History:
    """A linearizable history of a few sessions."""
    keeper = NaiveKeeper()
    lives = [_Life(random, name, 1, 0, 1_000 + i, overlap) for i, name in enumerate("abc")]
    for life in lives:
        keeper.open(0, life.session_id, 1)
    over: list[_Life] = []
    for token in range(operations):
        at = 10 * (token + 1)
        place = random.randrange(len(lives))
        life = lives[place]
        if life.is_over:
            over.append(life)
            life = _Life(random, life.client, life.life + 1, at, 1_000 + token + 3, overlap)
            keeper.open(at, life.session_id, 1)
            lives[place] = life
        kind = random.random()
        if kind < 0.03:
            life.execute(keeper, at, CloseSession(), lost)
        elif kind < 0.06:
            life.expire(keeper, at)
        else:
            life.execute(keeper, at, draw_call(random, paths, token), lost)
    return History(record for life in [*over, *lives] for record in life.records)


def is_linearizable(history: History) -> bool:
    """By trying every order on the naive keeper; for a handful of operations."""
    sessions = list(history.sessions.values())
    keeper = NaiveKeeper()
    for session in sessions:
        keeper.open(0, session.session_id, 1)
    return _search(keeper, sessions, [0] * len(sessions), 1, set())


def _search(
    keeper: NaiveKeeper,
    sessions: list[Session],
    next_: list[int],
    zxid: int,
    seen: set[tuple[object, ...]],
) -> bool:
    znodes = [(path, n.value, n.version, n.owner) for path, n in sorted(keeper.nodes.items())]
    here = (tuple(next_), tuple(sorted(keeper.sessions)), tuple(znodes))
    if here in seen:
        return False
    seen.add(here)
    remaining = [session.operations[n:] for session, n in zip(sessions, next_, strict=True)]
    required = [op for ops in remaining for op in ops if op.result is not None]
    ends = [
        s.ended.until
        for s in sessions
        if s.ended and s.ended.until is not None and s.session_id in keeper.sessions
    ]
    if not required and not ends:
        return True
    # Nothing may come after what has returned before it was called.
    latest = min([op.returned or 0 for op in required] + ends)
    for place, session in enumerate(sessions):
        is_open = session.session_id in keeper.sessions
        for skipped, operation in enumerate(remaining[place]):
            if is_open and operation.called <= latest:
                after = copy.deepcopy(keeper)
                result = answer(after, zxid, session.session_id, operation.call)
                if _agree(operation, result):
                    moved = [n + (skipped + 1) * (p == place) for p, n in enumerate(next_)]
                    if _search(after, sessions, moved, zxid + 1, seen):
                        return True
            if operation.result is not None:
                break
        if is_open and _may_end_at(session, latest):
            after = copy.deepcopy(keeper)
            after.close(zxid, session.session_id)
            if _search(after, sessions, next_, zxid + 1, seen):
                return True
    return False


def _may_end_at(session: Session, at: int) -> bool:
    """Whether a session that nobody closed may be over: at any time after its last success."""
    if session.ended:
        return session.ended.since <= at
    calls = session.operations
    is_closed = any(isinstance(op.call, CloseSession) for op in calls)
    good = [op.called for op in calls if isinstance(op.result, Ok)]
    return not is_closed and max(good, default=0) <= at


def _agree(operation: Operation, result: Result) -> bool:
    """Whether the answer told is the one that this order gives, zxids and times apart."""
    told = operation.result
    if told is None:
        return True
    return _visible(told) == _visible(result)


def _visible(result: Result) -> tuple[object, ...]:
    if not isinstance(result, Ok):
        return (result.code,)
    stat = result.stat
    shown = (stat.version, stat.ephemeral_owner) if stat is not None else None
    return (result.path, result.value, shown)
