"""A shared integer.

    served = client.counter("/counters/served")
    served.add(3)               # the new value
    served.increment()
    served.get()

Each change is a compare and set (compare_and_set.py), so every change counts once, whoever else
counts: the values that `add` returns are those of one line of additions. The value is decimal text,
so kazoo's Counter of integers can share it; an empty value is the default. The bound: DIGITS_MAX.

kazoo: `Counter`. Curator: `SharedCount`, `DistributedAtomicLong`.
"""

import re
from typing import Final

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import BadArgumentsError, InvalidValueError
from raykeeper.client.recipes.compare_and_set import (
    ATTEMPTS_MAX,
    MISSING,
    ObservedValue,
    checkpoint,
    compare_and_set,
    contention_error,
    read_current,
    read_modify_write,
    set_or_create,
)
from raykeeper.client.recipes.primitives import checked_root
from raykeeper.client.recipes.recipe import Blocking, FlowRunner, K, PortableRecipe, operation

DIGITS_MAX: Final = 1000
"""Digits of the value. No count needs as many, and each value is read and written whole."""
_LIMIT: Final = 10**DIGITS_MAX
_TEXT: Final = re.compile(rb"[+-]?[0-9]{1,%d}" % DIGITS_MAX)


class Counter(PortableRecipe[K]):
    """An integer at a path. Safe to share between threads, or tasks.

    Every operation but `set` raises InvalidValueError if the znode holds no integer. A change
    raises BadVersionError, and changes nothing, if others change the value each time meanwhile.
    """

    def __init__(self, client: FlowRunner, path: str, default: int = 0) -> None:
        """Use `Client.counter`; `default` is the value while there is no such znode."""
        super().__init__(client)
        self.path = checked_root(path)
        self._default = _checked_number(self.path, "default", default)
        self._seen = MISSING  # likely still there; a mistake costs one more request

    @property
    def value(self: "Counter[Blocking]") -> int:
        """The value, as `get()` returns it; kazoo has it too. Not of an `AsyncClient`.

        Raises:
            TypeError: the counter is of an `AsyncClient`.
        """
        if self._client._is_awaited:
            raise TypeError("this Counter is of an AsyncClient: use `await counter.get()`")
        return self.get()

    @operation
    def get(self) -> Flow[int]:
        """Return the value, which is never older than what this client has seen."""
        seen = yield from read_current(self.path)
        number = self._number(seen)
        self._seen = seen
        return number

    @operation
    def set(self, value: int) -> Flow[None]:
        """Replace the value, whatever it is.

        Raises:
            BadArgumentsError: the value is no integer, or too long.
        """
        text = _encode(_checked_number(self.path, "value", value))
        self._seen = yield from set_or_create(self.path, text)

    @operation
    def add(self, delta: int) -> Flow[int]:
        """Add `delta` to the value, atomically, and return the new value.

        Args:
            delta: How much; it may be negative.

        Raises:
            BadArgumentsError: `delta` is no integer, or the sum is too long.
        """
        return (yield from self._add(delta))

    @operation
    def increment(self) -> Flow[int]:
        """Add one, atomically, and return the new value.

        Raises:
            BadArgumentsError: the sum is too long.
        """
        return (yield from self._add(1))

    @operation
    def compare_and_set(self, expected: int, value: int) -> Flow[bool]:
        """Replace the value if it is `expected`; return whether it was.

        Raises:
            BadArgumentsError: one of them is no integer, or too long.
        """
        wanted = _checked_number(self.path, "expected", expected)
        text = _encode(_checked_number(self.path, "value", value))
        seen = self._seen
        if seen is MISSING or self._number(seen) != wanted:
            seen = yield from read_current(self.path, linearizable=True)
        for _ in range(ATTEMPTS_MAX):
            if self._number(seen) != wanted:
                return False
            is_done, seen = yield from compare_and_set(self.path, text, seen)
            if is_done:
                self._seen = seen
                return True
            yield from checkpoint()
        raise contention_error(self.path)

    def _add(self, delta: int) -> Flow[int]:
        added = _checked_number(self.path, "delta", delta)

        def sum_of(seen: ObservedValue) -> bytes:
            return _encode(_checked_number(self.path, "the sum", self._number(seen) + added))

        seen = self._seen
        if seen is MISSING or not -_LIMIT < self._number(seen) + added < _LIMIT:
            seen = yield from read_current(self.path, linearizable=True)
        self._seen = now = yield from read_modify_write(self.path, sum_of, seen)
        return self._number(now)

    def _number(self, seen: ObservedValue) -> int:
        value = seen.value
        if not value:
            return self._default
        if _TEXT.fullmatch(value) is None:
            raise InvalidValueError(f"{self.path} holds no integer: {value[:40]!r}")
        return int(value)


def _checked_number(path: str, name: str, number: object) -> int:
    if type(number) is not int:
        raise BadArgumentsError(path, f"{name} must be an int, not {type(number).__name__}")
    if not -_LIMIT < number < _LIMIT:
        raise BadArgumentsError(path, f"{name} has more than {DIGITS_MAX} digits")
    return number


def _encode(number: int) -> bytes:
    return b"%d" % number
