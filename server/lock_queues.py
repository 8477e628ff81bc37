"""Who holds a lock and who waits for it, as the znodes of the recipes tell.

A contender is an ephemeral sequential child of the lock's path. Its name says what it contends for;
the rules are those of the recipes (`client/recipes/lock.py` and beside it), and the same for kazoo
and Curator:

| ours | kazoo | Curator | it holds when |
|---|---|---|---|
| `lock-`, `candidate-` | `…__lock__` | `_c_…-lock-`, `_c_…-latch-` | nobody is before it |
| `write-` | `…__lock__` | `_c_…-__WRIT__` | nobody is before it |
| `read-` | `…__rlock__` | `_c_…-__READ__` | no writer is before it |
| `permit-` | | | fewer are before it than the value of the parent says |

A simple lock and a lease are one znode that looks like any other, and those who wait for it leave
no znode at all. So they are shown only if their path is asked for; `watches` then tells who waits.
"""

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from raykeeper.server.admin_queries import (
    ROWS_MAX,
    ContenderRow,
    ListLocks,
    LockRow,
    LocksPage,
)
from raykeeper.znodes.acl import Permission
from raykeeper.znodes.children import view_of
from raykeeper.znodes.paths import SEQUENCE_DIGITS, name_start, parent_of
from raykeeper.znodes.state import State
from raykeeper.znodes.znode import Znode, is_allowed

VISITS_MAX: Final = 1_000
"""Znodes that one step looks at: about a millisecond."""
LOCKS_FOUND_MAX: Final = 20_000
"""Locks that one answer chooses from: to sort them takes some ten milliseconds."""
IDENTIFIER_BYTES_MAX: Final = 250

LOCK: Final = "lock"
READ_WRITE: Final = "read/write lock"
SEMAPHORE: Final = "semaphore"
ELECTION: Final = "election"
SIMPLE: Final = "simple lock"
LEASE: Final = "lease"


class Mode(Enum):
    """What a contender wants of the lock."""

    ALONE = ""
    WRITE = "write"
    READ = "read"
    PERMIT = "permit"


Role = tuple[str, Mode]
_OURS: Final[dict[str, Role]] = {
    "lock-": (LOCK, Mode.ALONE),
    "read-": (READ_WRITE, Mode.READ),
    "write-": (READ_WRITE, Mode.WRITE),
    "permit-": (SEMAPHORE, Mode.PERMIT),
    "candidate-": (ELECTION, Mode.ALONE),
}
_CURATORS: Final[dict[str, Role]] = {
    "lock-": (LOCK, Mode.ALONE),
    "latch-": (ELECTION, Mode.ALONE),
    "__READ__": (READ_WRITE, Mode.READ),
    "__WRIT__": (READ_WRITE, Mode.WRITE),
}
_KAZOOS: Final[dict[str, Role]] = {
    "lock": (LOCK, Mode.ALONE),
    "rlock": (LOCK, Mode.READ),
}
_PROTECTED: Final = "_c_"
_UUID_CHARS: Final = 36
_HEX_CHARS: Final = 32


def role_of(name: str) -> Role | None:
    """Return the kind of lock that a znode of this name contends for, and how; None if for none."""
    prefix, digits = name[:-SEQUENCE_DIGITS], name[-SEQUENCE_DIGITS:]
    if not (prefix and digits.isascii() and digits.isdecimal()):
        return None
    if prefix.startswith(_PROTECTED):
        start = len(_PROTECTED) + _UUID_CHARS + 1
        return _CURATORS.get(prefix[start:]) if prefix[start - 1 : start] == "-" else None
    if prefix[_HEX_CHARS : _HEX_CHARS + 2] == "__" and prefix.endswith("__"):
        return _KAZOOS.get(prefix[_HEX_CHARS + 2 : -2])
    return _OURS.get(prefix)


class LockQueues:
    """The answer to one `ListLocks`."""

    def __init__(self, state_of: Callable[[], State], query: ListLocks) -> None:
        """`state_of` returns the present state, which a received snapshot may have replaced."""
        self._state_of = state_of
        self._query = query
        self._visits = 0

    def answer(self) -> Generator[None, None, LocksPage]:
        """Look for queues among the ephemerals, then at each queue, in steps."""
        query = self._query
        found, is_all = yield from self._find()
        single = self._single() if not any(path == query.path for path, _ in found) else None
        wanted = sorted(key for key in found if key > query.after)
        rows = [single] if single is not None and not query.after[0] else []
        contenders = len(rows)
        looked_at = 0
        for path, kind in wanted:
            if len(rows) >= min(query.rows_max, ROWS_MAX) or contenders >= ROWS_MAX:
                break
            looked_at += 1
            row = yield from self._look(path, kind)
            if row is not None:
                rows.append(row)
                contenders += len(row.contenders)
        is_there = query.path in self._state_of().tree.znodes
        return LocksPage(rows, len(wanted) - looked_at, is_all, is_there or bool(found))

    def _find(self) -> Generator[None, None, tuple[dict[tuple[str, str], None], bool]]:
        """Return path and kind of the locks, and whether they are all."""
        found: dict[tuple[str, str], None] = {}
        below = self._query.path.rstrip("/") + "/"
        for owner in list(self._state_of().tree.ephemerals):
            for shard in view_of(self._state_of().tree.ephemerals.get(owner)):
                for path in shard:
                    if self._is_step_over():
                        yield
                    role = role_of(path[path.rfind("/") + 1 :]) if path.startswith(below) else None
                    if role is None:
                        continue
                    found[parent_of(path), role[0]] = None
                    if len(found) > LOCKS_FOUND_MAX:
                        return found, False
        return found, True

    def _look(self, path: str, kind: str) -> Generator[None, None, LockRow | None]:
        """Return a lock; None if its contenders are gone by now."""
        queue = _Queue(max(1, min(self._query.contenders_max, ROWS_MAX)))
        for place in self._places(path, kind):
            if place is None:
                yield
            else:
                queue.add(place)
        permits = self._permits_of(path) if kind == SEMAPHORE else None
        if permits is not None:
            holders = min(permits, queue.total)
        elif queue.first_writer is None:
            holders = queue.total  # readers, all of them
        elif queue.lowest == queue.first_writer:
            holders = 1
        else:
            holders = 0
            for place in self._places(path, kind):
                if place is None:
                    yield
                else:
                    holders += place.number < queue.first_writer
        znodes = self._state_of().tree.znodes
        rows = [
            _contender_row(each.path, znode, each.mode.value, holds=index < holders)
            for index, each in enumerate(queue.first())
            if (znode := znodes.get(each.path)) is not None
        ]
        waiting = max(0, queue.total - holders)
        return LockRow(path, kind, permits, holders, waiting, rows) if rows else None

    def _places(self, path: str, kind: str) -> Iterator["_Place | None"]:
        """Yield the contenders in any order, and None whenever the step is over."""
        znodes = self._state_of().tree.znodes
        parent = znodes.get(path)
        start = name_start(path)
        for shard in view_of(None if parent is None else parent.children):
            for child in shard:
                if self._is_step_over():
                    yield None
                    znodes = self._state_of().tree.znodes
                role = role_of(child[start:])
                if role is not None and role[0] == kind:
                    znode = znodes.get(child)
                    if znode is not None and znode.ephemeral_owner:
                        yield _Place(int(child[-SEQUENCE_DIGITS:]), child, role[1])

    def _permits_of(self, path: str) -> int:
        """Return the number of permits; 0 if the znode of the semaphore does not tell it."""
        parent = self._state_of().tree.znodes.get(path)
        value = b"" if parent is None else parent.value or b""
        return int(value) if value.isdigit() and len(value) < SEQUENCE_DIGITS else 0

    def _single(self) -> LockRow | None:
        """Return the znode whose path was asked for, if it could be a simple lock or a lease."""
        path = self._query.path
        znode = self._state_of().tree.znodes.get(path)
        ttl_ms = 0 if znode is None or znode.attributes is None else znode.attributes.ttl_ms
        if znode is None or not (znode.ephemeral_owner or ttl_ms > 0):
            return None
        kind = SIMPLE if znode.ephemeral_owner else LEASE
        return LockRow(path, kind, None, 1, 0, [_contender_row(path, znode, "", holds=True)])

    def _is_step_over(self) -> bool:
        self._visits += 1
        return self._visits % VISITS_MAX == 0


class _Place(NamedTuple):
    """A contender's place in its queue. Places are compared by number and path."""

    number: int
    path: str
    mode: Mode


class _Queue:
    """The first places of a queue, and what is counted of all."""

    def __init__(self, kept_max: int) -> None:
        self.total = 0
        self.lowest: int | None = None
        self.first_writer: int | None = None
        self._kept_max = kept_max
        self._kept: list[tuple[int, _Place]] = []

    def add(self, place: _Place) -> None:
        """Count a place; keep it if it is one of the first."""
        number = place.number
        self.total += 1
        if self.lowest is None or number < self.lowest:
            self.lowest = number
        is_writer = place.mode is not Mode.READ
        if is_writer and (self.first_writer is None or number < self.first_writer):
            self.first_writer = number
        heappush(self._kept, (-number, place))  # the last one is first in the heap
        if len(self._kept) > self._kept_max:
            heappop(self._kept)

    def first(self) -> list[_Place]:
        """Return the first places, in order."""
        return [place for _, place in sorted(self._kept, reverse=True)]


def _contender_row(path: str, znode: Znode, mode: str, *, holds: bool) -> ContenderRow:
    identifier = None
    if is_allowed(znode.attributes, (), Permission.READ):
        identifier = (znode.value or b"")[:IDENTIFIER_BYTES_MAX].decode(errors="replace")
    return ContenderRow(
        name=path[path.rfind("/") + 1 :],
        holds=holds,
        mode=mode,
        session_id=znode.ephemeral_owner,
        since_ms=znode.ctime,
        token=znode.czxid,
        identifier=identifier,
    )
