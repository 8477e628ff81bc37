"""Quotas of subtrees: how many znodes, how many bytes of values.

The quota of /a is the value of /zookeeper/quota/a/zookeeper_limits, a znode like any other, so it
is written, read, watched and protected as one. The text is ZooKeeper's:
`count=5,bytes=100=;byteHardLimit=200;countHardLimit=9`, where -1 is no limit. The znode itself
counts, names do not. A write that would grow a subtree above a hard limit is refused, whichever
ancestor has the quota; above a soft limit it is only logged. "/" and the znodes of /zookeeper have
no quota.

Usage costs nothing without quotas. It is not replicated but follows from the replicated state: a
replica counts a subtree when it is first asked, and keeps count from then on. No request is served
before the replay over a fuzzy snapshot has ended, so a mixture of states is never counted. The
leader keeps its own count, of the state as it will be, from the first change below a quota. A first
count walks the subtree in one step, 0.7 ms for a thousand znodes: the price of a quota that is set
on a large subtree, and of the first write below it after an election.

ZooKeeper's command line also makes the znode zookeeper_stats beside the limits. As long as there
are limits, a read of it is answered with the usage of then, whatever was written there.

Owns: whatever is outstanding, no transaction takes a subtree above a hard limit.

ZooKeeper: `Quotas`, `StatsTrack`, `ZooKeeperServer.checkQuota` (which enforces the nearest quota
only, against what is applied: pipelined creations overshoot).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from raykeeper.zab.ids import Millis
from raykeeper.znodes.paths import QUOTA_PATH, parent_of
from raykeeper.znodes.znode import Znode

NO_LIMIT: Final = -1
SOFT_LIMIT_NOTICE_MS: Final = Millis(60_000)
"""Between two notes that one quota's soft limit is exceeded."""
_NEVER: Final = Millis(0)

QUOTA_PREFIX: Final = QUOTA_PATH + "/"
_LIMITS_NAME: Final = "/zookeeper_limits"
_STATS_NAME: Final = "/zookeeper_stats"
_pair = re.compile(rb"(count|bytes|countHardLimit|byteHardLimit)=(-1|\d{1,18})?=?").fullmatch
_separated = re.compile(rb"[,;]+").split


class QuotaLimits(Struct, frozen=True, array_like=True, gc=False):
    """The limits of one quota; -1 is no limit. The first two are soft."""

    znodes: int = NO_LIMIT
    bytes: int = NO_LIMIT
    hard_znodes: int = NO_LIMIT
    hard_bytes: int = NO_LIMIT


NO_LIMITS: Final = QuotaLimits()


class Usage(Struct, gc=False):
    """The number of znodes and bytes in a subtree, its root included."""

    znodes: int
    bytes: int


class SoftLimitExceeded(Struct, frozen=True):
    """A subtree that has grown above a soft limit, and its usage."""

    path: str
    znodes: int
    bytes: int


def limits_path(path: str) -> str:
    """Return the path of the znode that keeps the quota of the subtree at `path`."""
    return f"{QUOTA_PATH}{path}{_LIMITS_NAME}"


def stats_path(path: str) -> str:
    """Return the path of the znode that shows the usage of the subtree at `path`."""
    return f"{QUOTA_PATH}{path}{_STATS_NAME}"


def quota_subtree(path: str) -> str | None:
    """Return the subtree whose quota the znode at `path` keeps; None for any other znode."""
    if not path.startswith(QUOTA_PREFIX) or not path.endswith(_LIMITS_NAME):
        return None
    subtree = path[len(QUOTA_PATH) : -len(_LIMITS_NAME)]
    return subtree if _may_be_limited(subtree) else None


def is_valid_quota(path: str, value: bytes | None) -> bool:
    """Return whether `value` is allowed at `path`, which is below /zookeeper/quota."""
    if not path.endswith(_LIMITS_NAME):
        return True
    return quota_subtree(path) is not None and parse_limits(value or b"") is not None


def parse_limits(text: bytes) -> QuotaLimits | None:
    """Parse a quota's text; None when it is malformed. An empty text has no limits."""
    numbers: dict[bytes, int] = {}
    for part in _separated(text) if text else ():
        pair = _pair(part)
        if pair is None or pair[1] in numbers:
            return None
        numbers[pair[1]] = int(pair[2] or NO_LIMIT)
    keys = (b"count", b"bytes", b"countHardLimit", b"byteHardLimit")
    return QuotaLimits(*(numbers.get(key, NO_LIMIT) for key in keys))


def format_limits(limits: QuotaLimits) -> bytes:
    """Return the text of a quota. The part after "=;" is for readers that know hard limits."""
    hard = f"byteHardLimit={limits.hard_bytes};countHardLimit={limits.hard_znodes}"
    return f"count={limits.znodes},bytes={limits.bytes}=;{hard}".encode()


def format_usage(usage: Usage) -> bytes:
    """Return the text of a usage."""
    return f"count={usage.znodes},bytes={usage.bytes}".encode()


def count_subtree(znodes: Mapping[str, Znode], path: str) -> Usage:
    """Count what is in the subtree at `path`; one step for each znode of it."""
    usage = Usage(0, 0)
    if path not in znodes:
        return usage
    paths = [path]
    while paths:
        znode = znodes[paths.pop()]
        usage.znodes += 1
        usage.bytes += len(znode.value or b"")
        paths.extend(znode.children or ())
    return usage


class Quotas:
    """The quotas of a tree, and the usage of each quota that was asked for."""

    def __init__(self, znodes: Mapping[str, Znode]) -> None:
        self._znodes = znodes
        self.limits: dict[str, QuotaLimits] = {}
        """By the path of the subtree."""
        self.stats: dict[str, str] = {}
        """The same subtrees, by the path of the znode that shows their usage."""
        self._usage: dict[str, Usage] = {}

    def changed(self, path: str, was: bytes | None, value: bytes | None) -> None:
        """Note that the tree has another value at `path`; None is no znode."""
        subtree = quota_subtree(path)
        if subtree is not None:
            if value is None:
                del self.limits[subtree]
                del self.stats[stats_path(subtree)]
                self._usage.pop(subtree, None)
            else:
                self.limits[subtree] = parse_limits(value) or NO_LIMITS
                self.stats[stats_path(subtree)] = subtree
        for above in _self_and_ancestors(path) if self._usage else ():
            usage = self._usage.get(above)
            if usage is not None:
                usage.znodes += (value is not None) - (was is not None)
                usage.bytes += len(value or b"") - len(was or b"")

    def usage_of(self, subtree: str) -> Usage:
        """Return what is in the subtree of a quota."""
        usage = self._usage.get(subtree)
        if usage is None:
            usage = self._usage[subtree] = count_subtree(self._znodes, subtree)
        return usage


class OutstandingQuotas:
    """The quotas as they will be when every outstanding transaction is applied.

    Between `begin` and `commit` or `rollback` changes are a draft, as in the future tree.
    """

    def __init__(self, quotas: Quotas, usage_of: Callable[[str], Usage]) -> None:
        """Start from `quotas`; `usage_of` counts a subtree as it will be before the change."""
        self._usage_of = usage_of
        self.limits = dict(quotas.limits)
        self._usage: dict[str, Usage] = {}
        self._noted: dict[str, Millis] = {}
        self._notes: list[SoftLimitExceeded] = []
        self._undo: list[tuple[dict[str, Any], str, object]] | None = None
        self._notes_before = 0

    def exceeds(self, path: str, znodes: int, size: int) -> bool:
        """Return whether adding this much at `path` breaks a hard limit."""
        for subtree, limits in self._above(path):
            usage = self._usage_at(subtree)
            if znodes > 0 and 0 <= limits.hard_znodes < usage.znodes + znodes:
                return True
            if size > 0 and 0 <= limits.hard_bytes < usage.bytes + size:
                return True
        return False

    def changed(
        self, path: str, was: bytes | None, value: bytes | None, time_ms: Millis = _NEVER
    ) -> None:
        """Note that the value at `path` will change; None is no znode."""
        znodes = (value is not None) - (was is not None)
        size = len(value or b"") - len(was or b"")
        for subtree, limits in self._above(path):
            old = self._usage_at(subtree)
            usage = Usage(old.znodes + znodes, old.bytes + size)
            self._put(self._usage, subtree, usage)
            if (znodes > 0 and 0 <= limits.znodes < usage.znodes) or (
                size > 0 and 0 <= limits.bytes < usage.bytes
            ):
                self._note(time_ms, SoftLimitExceeded(subtree, usage.znodes, usage.bytes))
        limited = quota_subtree(path)
        if limited is not None:
            self._put(self.limits, limited, None if value is None else parse_limits(value))
            if value is None:
                self._put(self._usage, limited, None)
                self._put(self._noted, limited, None)

    def drain_exceeded(self) -> list[SoftLimitExceeded]:
        """Return the soft limits exceeded since the last call, each at most once a minute."""
        notes, self._notes = self._notes, []
        return notes

    def begin(self) -> None:
        """Begin a draft: `rollback` undoes every later change."""
        self._undo = []
        self._notes_before = len(self._notes)

    def commit(self) -> None:
        """Keep every change since `begin`."""
        self._undo = None

    def rollback(self) -> None:
        """Undo every change since `begin`."""
        undo, self._undo = self._undo, None
        for table, key, old in reversed(undo or ()):
            _set(table, key, old)
        del self._notes[self._notes_before :]

    def _above(self, path: str) -> Iterator[tuple[str, QuotaLimits]]:
        for subtree in _self_and_ancestors(path):
            limits = self.limits.get(subtree)
            if limits is not None:
                yield subtree, limits

    def _usage_at(self, subtree: str) -> Usage:
        usage = self._usage.get(subtree)
        if usage is None:
            usage = self._usage_of(subtree)
            self._put(self._usage, subtree, usage)
        return usage

    def _put(self, table: dict[str, Any], key: str, value: object) -> None:
        if self._undo is not None:
            self._undo.append((table, key, table.get(key)))
        _set(table, key, value)

    def _note(self, time_ms: Millis, note: SoftLimitExceeded) -> None:
        last = self._noted.get(note.path)
        if last is None or time_ms - last >= SOFT_LIMIT_NOTICE_MS:
            self._put(self._noted, note.path, time_ms)
            self._notes.append(note)


def _set(table: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _self_and_ancestors(path: str) -> Iterator[str]:
    """Yield the path and its ancestors, without the root."""
    while path != "/":
        yield path
        path = parent_of(path)


def _may_be_limited(subtree: str) -> bool:
    return subtree != "" and subtree != "/zookeeper" and not subtree.startswith("/zookeeper/")
