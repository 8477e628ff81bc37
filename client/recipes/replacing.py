"""Compare and set: replace the value of a znode if nobody else did so since it was seen.

The invariant of this file: a value is replaced only by somebody who has seen it. What was seen is
known by its mzxid, which no two values of any znode share, so neither a version that wraps nor a
znode that was deleted and created again passes for the one that was seen. Whoever comes too late
is told in the same request what is there now, so each attempt is one request.

Whoever loses, loses to somebody who succeeded. So all together get on, however many they are; one
alone may be unlucky, and gives up after ATTEMPTS_MAX.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import BadVersionError, NodeExistsError, NoNodeError
from raykeeper.client.flows import Bell, Flow, Wait
from raykeeper.client.recipes.steps import create, ensure, transact
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


class Seen(Struct, frozen=True):
    """What was at a path: a value, or no znode."""

    value: bytes | None = None
    stat: Stat | None = None

    def condition(self, path: str) -> Compare:
        """That it still is so."""
        if self.stat is None:
            return Compare(path, CompareField.EXISTS, Relation.EQUAL, 0)
        return Compare(path, CompareField.MZXID, Relation.EQUAL, self.stat.mzxid)

    def is_other(self, other: "Seen") -> bool:
        """Whether it is another value, even if it reads the same, or a znode in place of none."""
        if self.stat is None or other.stat is None:
            return self.stat is not other.stat
        return self.stat.mzxid != other.stat.mzxid

    def replacement(self, path: str, value: bytes) -> list[TxnOp]:
        """What puts `value` there under that condition, and tells the Stat at last."""
        if self.stat is None:
            return [Create(path, value, 0, None, 0), ReadStat(path)]
        return [SetData(path, value, ANY_VERSION)]


MISSING: Final = Seen()


def see(path: str, *, linearizable: bool = False) -> Flow[Seen]:
    """What is there.

    Raises:
        KeeperError: what the read failed with.
    """
    try:
        value, stat = yield Query(GetData, path, None, linearizable)
    except NoNodeError:
        return MISSING
    return Seen(value, stat)


def replace(path: str, value: bytes, seen: Seen) -> Flow[tuple[bool, Seen]]:
    """One attempt to replace what was seen; whether it did, and what is there now.

    Raises:
        KeeperError: what the write failed with.
    """
    try:
        is_done, results = yield from transact(
            seen.replacement(path, value), [seen.condition(path)], [ReadData(path)]
        )
    except NoNodeError:
        if seen.stat is None:
            yield from ensure(parent_of(path))
        return False, MISSING
    return is_done, Seen(value, results[-1]) if is_done else Seen(*results[0])


def put(path: str, value: bytes) -> Flow[Seen]:
    """Replace whatever is there, or create the znode.

    Raises:
        KeeperError: what a write failed with.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            return Seen(value, (yield SetData(path, value, ANY_VERSION)))
        except NoNodeError:
            pass
        try:
            _, stat = yield from create(path, value)
        except NodeExistsError:
            yield from still_wanted()  # somebody was quicker
        else:
            return Seen(value, stat)
    raise too_contended(path)


def change(path: str, new_value: Callable[[Seen], bytes], seen: Seen) -> Flow[Seen]:
    """Replace what is there by what `new_value` makes of it. What is there now is returned.

    Args:
        path: Of the znode, which is created if it is missing.
        new_value: Of recipes; it runs inside the flow, once for each attempt.
        seen: What is likely to be there.

    Raises:
        BadVersionError: others were quicker again and again; nothing was changed.
        KeeperError: what a request failed with.
    """
    for _ in range(ATTEMPTS_MAX):
        is_done, now = yield from replace(path, new_value(seen), seen)
        if is_done:
            return now
        seen = now
        yield from still_wanted()
    raise too_contended(path)


def too_contended(path: str) -> BadVersionError:
    """The error of who lost too often."""
    return BadVersionError(path, f"others changed it {ATTEMPTS_MAX} times in between")


def still_wanted() -> Flow[None]:
    """Go on at once, unless the caller has given up: what repeats requests asks in between.

    Raises:
        Abandoned: it has.
    """
    bell = Bell()
    bell.ring()
    yield Wait((bell,))
