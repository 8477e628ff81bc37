"""Quotas: no subtree grows above a hard limit, at any time. Usage is counted anew each time."""

import re
from collections.abc import Iterator, Mapping

from raykeeper.znodes.quotas import QuotaLimits
from tests.simulation.checks.truth import PastZnode, TrueZnode, parent

_QUOTA, _LIMITS = "/zookeeper/quota", "/zookeeper_limits"
_text = re.compile(
    rb"count=(-?\d+),bytes=(-?\d+)=;byteHardLimit=(-?\d+);countHardLimit=(-?\d+)"
).fullmatch


def is_acceptable(path: str, value: bytes) -> bool:
    """Return whether a value may be stored at `path`; only the limits of a quota are special."""
    is_quota = path.startswith(_QUOTA + "/") and path.endswith(_LIMITS)
    return not is_quota or _text(value) is not None


def are_exceeded(znodes: Mapping[str, TrueZnode], path: str, count: int, size: int) -> bool:
    """Return whether this increase at `path` exceeds a hard limit of a subtree around it."""
    for subtree, text in _quotas_above(znodes, path):
        limits = limits_in(text)
        znodes_now, bytes_now = usage(znodes, subtree)
        if count > 0 and 0 <= limits.hard_znodes < znodes_now + count:
            return True
        if size > 0 and 0 <= limits.hard_bytes < bytes_now + size:
            return True
    return False


def limits_path(subtree: str) -> str:
    """Return the path of the znode that holds the quota of a subtree."""
    return _QUOTA + subtree + _LIMITS


def limits_in(text: bytes) -> QuotaLimits:
    """Parse the value of that znode."""
    match = _text(text)
    assert match is not None, text
    soft_count, soft_bytes, hard_bytes, hard_count = map(int, match.groups())
    return QuotaLimits(soft_count, soft_bytes, hard_count, hard_bytes)


def usage(znodes: Mapping[str, TrueZnode | PastZnode], subtree: str) -> tuple[int, int]:
    """Return how many znodes a subtree has, its root included, and the bytes of their values."""
    below = [path for path in znodes if path == subtree or path.startswith(subtree + "/")]
    return len(below), sum(len(znodes[path].value or b"") for path in below)


def _quotas_above(znodes: Mapping[str, TrueZnode], path: str) -> Iterator[tuple[str, bytes]]:
    while path != "/":
        kept = znodes.get(limits_path(path))
        if kept is not None:
            yield path, kept.value or b""
        path = parent(path)
