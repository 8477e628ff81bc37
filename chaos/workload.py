"""The next request of a client of the load: a mix of all kinds, drawn from a seed.

    <root>/r/<k>     registers: every client creates, sets, deletes and reads them
    <root>/q/n-      sequential znodes, some of them ephemeral; their creator deletes some
    <root>/e/<k>     ephemeral znodes: a few paths that all clients compete for, like locks

Invariant: no value is written twice, so a value tells which request wrote it.
"""

from random import Random
from typing import Final

from raykeeper.chaos.checks.history import Call, Ok, Read, ReadKind
from raykeeper.znodes.requests import ANY_VERSION, Create, CreateMode, Delete, SetData

REGISTERS: Final = 10
LOCKS: Final = 4
_OWN_MAX: Final = 8
"""Sequential znodes that a client keeps; beyond them it deletes one for each it creates."""
_WEIGHTS: Final = {
    "create": 10,
    "set": 20,
    "delete": 4,
    "get": 18,
    "synced_get": 18,
    "watched_get": 8,
    "append": 10,
    "acquire": 4,
    "release": 2,
    "look": 6,
    "list": 2,
}


def folders(root: str) -> list[str]:
    """Return the znodes that must exist before the load starts, parents first."""
    return [root, *(f"{root}/{name}" for name in "rqe")]


class Workload:
    """Draws the requests of one session."""

    def __init__(self, root: str, name: str, seed: str) -> None:
        """`name` is part of every value, so it must belong to this session alone."""
        self._root = root
        self._name = name
        self._random = Random(seed)
        self._count = 0
        self._versions: dict[str, int] = {}
        self._own: list[str] = []

    def next(self) -> Call:
        """Return the next request."""
        (kind,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        call: Call = getattr(self, f"_{kind}")()
        return call

    def done(self, call: Call, result: Ok) -> None:
        """Remember paths and versions from an answer for later requests."""
        if isinstance(call, Create) and call.flags & CreateMode.SEQUENTIAL:
            self._own.append(result.path)
        elif isinstance(call, SetData | Read) and result.stat is not None:
            self._versions[call.path] = result.stat.version

    def _create(self) -> Call:
        return Create(self._register(), self._value(), 0)

    def _set(self) -> Call:
        path = self._register()
        return SetData(path, self._value(), self._version(path))

    def _delete(self) -> Call:
        path = self._register()
        return Delete(path, self._version(path))

    def _get(self) -> Call:
        return Read(self._register(), ReadKind.GET)

    def _synced_get(self) -> Call:
        return Read(self._register(), ReadKind.GET, is_synced=True)

    def _watched_get(self) -> Call:
        return Read(self._register(), ReadKind.GET, is_watched=True)

    def _append(self) -> Call:
        if len(self._own) > _OWN_MAX:
            return Delete(self._own.pop(self._random.randrange(_OWN_MAX)), ANY_VERSION)
        ephemeral = CreateMode.EPHEMERAL if self._random.random() < 0.3 else 0
        return Create(f"{self._root}/q/n-", self._value(), CreateMode.SEQUENTIAL | ephemeral)

    def _acquire(self) -> Call:
        return Create(self._lock(), self._value(), CreateMode.EPHEMERAL)

    def _release(self) -> Call:
        return Delete(self._lock(), ANY_VERSION)

    def _look(self) -> Call:
        is_synced = self._random.random() < 0.7
        return Read(self._lock(), ReadKind.EXISTS, is_synced, is_watched=True)

    def _list(self) -> Call:
        return Read(f"{self._root}/e", ReadKind.CHILDREN, is_watched=True)

    def _register(self) -> str:
        return f"{self._root}/r/{self._random.randrange(REGISTERS)}"

    def _lock(self) -> str:
        return f"{self._root}/e/{self._random.randrange(LOCKS)}"

    def _version(self, path: str) -> int:
        """Return, each half the time, the version seen last, which may be outdated, or any."""
        return self._versions.get(path, 0) if self._random.random() < 0.5 else ANY_VERSION

    def _value(self) -> bytes:
        self._count += 1
        return f"{self._name}/{self._count}".encode()
