"""Who believes to hold what: by its own clock and its own flags, at every moment of the world.

A process that stands still cannot look, but its clock goes on: what it would see counts.
"""

from typing import Any

from msgspec import Struct

from raykeeper.client.recipes.acquirable import Held
from raykeeper.zab.ids import ZERO, Zxid, format_zxid
from tests.harness.schedule import Schedule
from tests.simulation.recipes.process import Process


class Holder(Struct, frozen=True):
    """A process with what it was given."""

    process: Process
    held: Held[Any]
    whole: Any
    """What it is a part of, and lost and released with; else the same."""

    @property
    def believes(self) -> bool:
        """Whether it would say that it holds it, if it looked now."""
        if self.process.is_killed or self.held.is_released or self.whole.is_released:
            return False
        with self.process.seen_from_outside():
            return not self.whole.lost.is_set()

    @property
    def is_past(self) -> bool:
        """Whether nobody will ever look again."""
        process = self.process
        is_released = self.held.is_released or self.whole.is_released
        return process.is_killed or is_released or (process.is_over and not self.believes)

    def __str__(self) -> str:
        return f"{self.process.name} with {format_zxid(self.held.token)}"


class Holders:
    """Those who were given the same thing, of which there is one, or there are a few."""

    def __init__(self, schedule: Schedule, what: str, room: int = 1) -> None:
        self.room = room
        self._schedule = schedule
        self._what = what
        self._holders: list[Holder] = []
        self._last: Zxid = ZERO

    @property
    def is_held(self) -> bool:
        """Whether anybody may believe so."""
        return bool(self._holders)

    def got(
        self, process: Process, held: Held[Any], *, in_order: bool = True, whole: Any = None
    ) -> bool:
        """A script was given it; whether it was not lost before.

        `in_order`: with a newer token than everybody before.
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
        """Who would say, if it looked now, that it holds it."""
        return [holder for holder in self._holders if holder.believes]

    def look(self) -> None:
        """Whether there are too many."""
        if not self._holders:
            return
        if any(holder.is_past for holder in self._holders):
            self._holders = [holder for holder in self._holders if not holder.is_past]
        if len(self._holders) > self.room:
            believing = self.believing()
            assert len(believing) <= self.room, (
                f"Exclusion: {self._what} is held by " + " and by ".join(map(str, believing))
            )
