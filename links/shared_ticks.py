"""Regular calls for many links, from few timers: one timer each costs more than an idle link.

Links that begin in the same `SLOTS`th of a period share a timer. So the calls of many links are
spread over the period, and no turn of the loop has all of them.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Final

SLOTS: Final = 32


class SharedTicks:
    """The timers of one loop whose links share them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._groups: dict[tuple[float, int], TickGroup] = {}

    def add(self, period_s: float, callback: Callable[[], None]) -> "TickGroup":
        """Call `callback` every `period_s`, the first time within that, until it is removed."""
        key = period_s, int(self._loop.time() / period_s * SLOTS) % SLOTS
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = TickGroup(self._loop, period_s, lambda: self._drop(key))
        group.callbacks[callback] = None
        return group

    def _drop(self, key: tuple[float, int]) -> None:
        del self._groups[key]


_of_loops: "weakref.WeakValueDictionary[asyncio.AbstractEventLoop, SharedTicks]"
_of_loops = weakref.WeakValueDictionary()  # an entry lives as long as a link uses it
_of_loops_lock = threading.Lock()  # each loop has a thread of its own


def ticks_of_running_loop() -> SharedTicks:
    """Return the timers that all links on the running loop share."""
    loop = asyncio.get_running_loop()
    with _of_loops_lock:
        ticks = _of_loops.get(loop)
        if ticks is None:
            ticks = _of_loops[loop] = SharedTicks(loop)
        return ticks


class TickGroup:
    """The callbacks of one timer, which runs while there are any."""

    __slots__ = ("_loop", "_on_empty", "_period_s", "_timer", "callbacks")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, period_s: float, on_empty: Callable[[], None]
    ) -> None:
        self.callbacks: dict[Callable[[], None], None] = {}
        self._loop = loop
        self._period_s = period_s
        self._on_empty = on_empty
        self._timer = loop.call_later(period_s, self._tick)

    def remove(self, callback: Callable[[], None]) -> None:
        """Call `callback` no more; removing it again does nothing."""
        if callback in self.callbacks:
            del self.callbacks[callback]
            if not self.callbacks:
                self._timer.cancel()
                self._on_empty()

    def _tick(self) -> None:
        # Not at fixed moments: after a stall of this process one call is made, not all of them.
        self._timer = self._loop.call_later(self._period_s, self._tick)
        for callback in list(self.callbacks):
            if callback in self.callbacks:  # no earlier one has removed it
                callback()
