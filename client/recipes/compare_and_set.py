"""Compare and set: replace the value of a znode if nobody else did so since it was seen.

The invariant of this file: a client replaces only a value that it has read. The mzxid identifies
that value: no two values of any znode share one, so neither a version that wraps nor a znode that
was deleted and created again passes for what was read. An attempt that comes too late returns in
the same request what is there now, so each attempt is one request.

An attempt fails only because another one succeeded. So all together get on, however many they are;
a single one may be unlucky, and gives up after ATTEMPTS_MAX.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from raykeeper.client.core.flows import Event, Flow, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import BadVersionError, NodeExistsError, NoNodeError
from raykeeper.client.recipes.primitives import create, ensure_parent, is_unchanged, transact
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    Create,
    GetData,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)
from raykeeper.znodes.stat import Stat

ATTEMPTS_MAX: Final = 1000
"""How often others may be quicker before a change gives up."""


class ObservedValue(Struct, frozen=True):
    """The result of a read at a path: a value, or no znode."""

    value: bytes | None = None
    stat: Stat | None = None

    def unchanged_compare(self, path: str) -> Compare:
        """Return the condition that this is still there."""
        if self.stat is None:
            return Compare(path, CompareField.EXISTS, Relation.EQUAL, 0)
        return is_unchanged(path, self.stat.mzxid)

    def differs_from(self, other: "ObservedValue") -> bool:
        """Return whether it is another value, even an equal one, or a znode in place of none."""
        if self.stat is None or other.stat is None:
            return self.stat is not other.stat
        return self.stat.mzxid != other.stat.mzxid

    def write_ops(self, path: str, value: bytes) -> list[TxnOp]:
        """Return what writes `value` under that condition; the last of the results is the Stat."""
        if self.stat is None:
            return [Create(path, value, 0), ReadStat(path)]
        return [SetData(path, value, ANY_VERSION)]


MISSING: Final = ObservedValue()


def read_current(path: str, *, linearizable: bool = False) -> Flow[ObservedValue]:
    """Read what is there."""
    try:
        value, stat = yield Query(GetData, path, None, linearizable)
    except NoNodeError:
        return MISSING
    return ObservedValue(value, stat)


def compare_and_set(
    path: str, value: bytes, observed: ObservedValue
) -> Flow[tuple[bool, ObservedValue]]:
    """Try once to replace what was read; return whether it did, and what is there now."""
    try:
        is_done, results = yield from transact(
            observed.write_ops(path, value), [observed.unchanged_compare(path)], [ReadData(path)]
        )
    except NoNodeError:
        if observed.stat is None:
            yield from ensure_parent(parent_of(path))
        return False, MISSING
    return is_done, ObservedValue(value, results[-1]) if is_done else ObservedValue(*results[0])


def set_or_create(path: str, value: bytes) -> Flow[ObservedValue]:
    """Replace the value, whatever it is, or create the znode."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return ObservedValue(value, (yield SetData(path, value, ANY_VERSION)))
        except NoNodeError:
            pass
        try:
            _, stat = yield from create(path, value)
        except NodeExistsError:
            yield from checkpoint()  # somebody was quicker
        else:
            return ObservedValue(value, stat)
    raise contention_error(path)


def read_modify_write(
    path: str, new_value: Callable[[ObservedValue], bytes], observed: ObservedValue
) -> Flow[ObservedValue]:
    """Replace the value by what `new_value` makes of it, and return the new one.

    Args:
        path: Of the znode, which is created if it is missing.
        new_value: Of recipes; it runs inside the flow, once for each attempt.
        observed: What is likely to be there.

    Raises:
        BadVersionError: others were quicker again and again; nothing was changed.
    """
    for _ in range(ATTEMPTS_MAX):
        is_done, now = yield from compare_and_set(path, new_value(observed), observed)
        if is_done:
            return now
        observed = now
        yield from checkpoint()
    raise contention_error(path)


def contention_error(path: str) -> BadVersionError:
    """Return the error of a change that came too late again and again."""
    return BadVersionError(path, f"others changed it {ATTEMPTS_MAX} times in between")


def checkpoint() -> Flow[None]:
    """Go on at once, unless the caller has given up: for loops of requests.

    Raises:
        Cancelled: the caller has given up.
    """
    event = Event()
    event.set()
    yield Wait((event,))
