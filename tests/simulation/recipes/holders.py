"""Which processes believe to hold something, by their own clocks and flags, at every moment.

A frozen process cannot look, but its clock goes on: the state that it would see counts.
"""

from typing import Any

from msgspec import Struct

from raykeeper.client.recipes.acquirable import Held
from raykeeper.zab.ids import ZERO, Zxid, format_zxid
from tests.harness.schedule import Schedule
from tests.simulation.recipes.process import Process


class Holder(Struct, frozen=True):
    """A process and what it acquired."""

    process: Process
    held: Held[Any]
    whole: Any
    """The whole of which `held` is a part, lost and released with it; else `held` itself."""

    @property
    def believes(self) -> bool:
        """Return whether the process would say that it holds it, if it looked now."""
        if self.process.is_killed or self.held.is_released or self.whole.is_released:
            return False
        with self.process.seen_from_outside():
            return not self.whole.lost.is_set()

    @property
    def is_past(self) -> bool:
        """Return whether the process will never look again."""
        process = self.process
        is_released = self.held.is_released or self.whole.is_released
        return process.is_killed or is_released or (process.is_over and not self.believes)

    def __str__(self) -> str:
        return f"{self.process.name} with {format_zxid(self.held.token)}"


class Holders:
    """The holders of the same thing, of which one or a few may exist at a time."""

    def __init__(self, schedule: Schedule, what: str, room: int = 1) -> None:
        self.room = room
        self._schedule = schedule
        self._what = what
        self._holders: list[Holder] = []
        self._last: Zxid = ZERO

    @property
    def is_held(self) -> bool:
        """Return whether any process may believe to hold it."""
        return bool(self._holders)

    def got(
        self, process: Process, held: Held[Any], *, in_order: bool = True, whole: Any = None
    ) -> bool:
        """Record an acquisition; return whether it was not lost before.

        `in_order`: the token must be newer than all earlier ones.
        """
        holder = Holder(process, held, whole if whole is not None else held)
        if self._schedule.trace is not None:
            self._schedule.say(f"client {process.member.name} holds {self._what}: {holder}")
        if not holder.believes:
            return False
        if in_order:
            assert held.token > self._last, (
                f"TokenOrder: {holder} has {self._what}, after {format_zxid(self._last)}"
            )
            self._last = held.token
        self._holders.append(holder)
        self.look()
        return True

    def believing(self) -> list[Holder]:
        """Return the holders that would say, if they looked now, that they hold it."""
        return [holder for holder in self._holders if holder.believes]

    def look(self) -> None:
        """Check that there are not too many holders."""
        if not self._holders:
            return
        if any(holder.is_past for holder in self._holders):
            self._holders = [holder for holder in self._holders if not holder.is_past]
        if len(self._holders) > self.room:
            believing = self.believing()
            assert len(believing) <= self.room, (
                f"Exclusion: {self._what} is held by " + " and by ".join(map(str, believing))
            )
