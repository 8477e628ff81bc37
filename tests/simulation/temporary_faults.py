"""Faults that last for a while and end by themselves; other faults and reactions consist of them.

After the end of all faults nothing begins or ends here: `Faults.end` has ended everything.
"""

from collections.abc import Callable, Iterable

from tests.harness.schedule import Schedule
from tests.simulation.client import SimClient
from tests.simulation.network import End, Network
from tests.simulation.node import Node


class TemporaryFaults:
    """Injects single faults that last for `lasts_ms`."""

    def __init__(self, schedule: Schedule, network: Network) -> None:
        self.is_over = False
        self._schedule = schedule
        self._network = network

    def later(self, lasts_ms: int, action: Callable[[], object]) -> None:
        """Call `action`, which ends a fault, later, unless all faults have ended by then."""
        self._schedule.after(lasts_ms, lambda: None if self.is_over else action())

    # Processes of servers.

    def crash(self, node: Node, lasts_ms: int) -> None:
        """Crash a server, unless it is down already."""
        if node.is_up and not self.is_over:
            node.crash()
            self._schedule.after(lasts_ms, node.start)

    def freeze(self, node: Node, lasts_ms: int) -> bool:
        """Freeze a server (SIGSTOP), if it runs."""
        if not node.is_answering:
            return False
        node.freeze()
        life = node.incarnation
        self.later(lasts_ms, lambda: node.thaw() if node.incarnation == life else None)
        return True

    def slow_tracker(self, node: Node, lasts_ms: int, by_ms: int) -> None:
        """Let each way of a call to the session tracker take up to `by_ms` longer."""
        tracker = node.tracker
        tracker.slow_ms = by_ms
        self.later(lasts_ms, lambda: setattr(tracker, "slow_ms", 0))

    # Links.

    def separate(self, lasts_ms: int, one: list[End], other: list[End]) -> bool:
        """Cut both ways between two groups of ends."""
        pairs = {(a, b): None for a in one for b in other if a != b}
        return self.drop_frames(lasts_ms, list(pairs | {(b, a): None for a, b in pairs}))

    def drop_frames(self, lasts_ms: int, directions: list[tuple[End, End]]) -> bool:
        """Lose every frame from the first to the second end of each pair."""
        directions = [pair for pair in directions if pair[0] != pair[1]]
        for sender, receiver in directions:
            self._network.cut(sender, receiver)

        def mend() -> None:
            for sender, receiver in directions:
                self._network.mend(sender, receiver)

        self.later(lasts_ms, mend)
        return bool(directions)

    def slow(self, lasts_ms: int, what: tuple[End, End | None], times: int) -> bool:
        """Slow a link, or all links of one end, down by the factor `times`."""
        slow = self._network.slow
        slow[what] = times
        self.later(lasts_ms, lambda: slow.pop(what, None))
        return True

    def delay_notice(self, lasts_ms: int, ends: list[End]) -> None:
        """Let these ends learn of a broken link as late as possible."""
        numb = self._network.late_to_notice
        numb.update(dict.fromkeys(ends))
        for end in ends:
            self.later(lasts_ms, lambda end=end: numb.pop(end, None))

    def refuse_links(self, lasts_ms: int, end: End) -> None:
        """Refuse new links between this server and others."""
        shut = self._network.refuses_links
        shut[end] = None
        self.later(lasts_ms, lambda: shut.pop(end, None))

    def hold(self, lasts_ms: int, sender: End, receiver: End) -> None:
        """Delay all frames in this direction until the time is over; they keep their order."""
        held, until = self._network.held_until, self._schedule.now + lasts_ms
        held[sender, receiver] = until
        self.later(lasts_ms, lambda: held.pop((sender, receiver), None))


def ends_of(parts: Iterable[Node | SimClient]) -> list[End]:
    """Return the ends of servers or clients."""
    return [part.end for part in parts]
