"""Links in virtual time: FIFO, at most once, broken by the first loss, cut one way or both.

Each link has its own random stream, so its delays stay the same when another link is removed.
Links carry bytes; the servers and clients at their ends do the handshake. The links of
tests/harness/zab_world.py are those of Zab alone: they carry messages and have no handshake.
"""

from collections.abc import Callable
from random import Random

from tests.harness.schedule import Schedule

DEADLINE_MS = 900
"""How long an end needs to learn that its link is broken, at most."""
SLOW_TIMES = 10
"""How much longer than others a frame may take now and then."""

End = tuple[str, int]
"""A server or a client: what it is, and its number."""


def server_end(server_id: int) -> End:
    """Return the end of a server."""
    return "server", server_id


def client_end(number: int) -> End:
    """Return the end of a client."""
    return "client", number


class SimLink:
    """A link between two ends. Each end has handlers for frames and for the end of the link."""

    def __init__(self, network: "Network", ends: tuple[End, End], random: Random) -> None:
        self.ends = ends
        self.is_open = True
        self._network = network
        self._random = random
        self._frames: dict[End, Callable[[bytes], None]] = {}
        self._closed: dict[End, Callable[[], None]] = {}
        self._left: dict[End, Callable[[int], None]] = {}
        self._stopped_receiving: dict[
            End, None
        ] = {}  # ends that missed a frame: no later one follows
        self._arrival: dict[End, int] = {}  # of the last frame to each end: FIFO

    def attach(
        self,
        end: End,
        frames: Callable[[bytes], None],
        closed: Callable[[], None],
        left: Callable[[int], None] | None = None,
    ) -> None:
        """Set the handlers of an end. `closed` is called once, unless this end closes the link.

        `left` is called with the number of bytes that the other end has taken.
        """
        self._frames[end] = frames
        self._closed[end] = closed
        if left is not None:
            self._left[end] = left

    def send(self, sender: End, data: bytes) -> None:
        """Send a frame from one end to the other."""
        if not self.is_open:
            return
        network = self._network
        receiver = self.ends[1] if sender == self.ends[0] else self.ends[0]
        if (sender, receiver) in network.cuts:
            self.break_up()
            return
        random, schedule = self._random, network.schedule
        # Sometimes a frame is slow.
        delay = int(random.random() * (network.delay_ms_max + 1))
        if random.random() < 0.02:
            delay *= SLOW_TIMES
        if network.slow:
            delay *= network.slowness(sender, receiver)
        at = max(schedule.now + delay, self._arrival.get(receiver, 0))
        if network.held_until:
            at = max(at, network.held_until.get((sender, receiver), 0))
        self._arrival[receiver] = at
        schedule.after(at - schedule.now, lambda: self._arrive(sender, receiver, data))

    def close(self, end: End) -> None:
        """Close the link at this end; the other end learns it."""
        self._closed.pop(end, None)
        self._frames.pop(end, None)
        self._left.pop(end, None)
        self.break_up()

    def break_up(self) -> None:
        """Break the link; each end learns it after a delay of its own."""
        if not self.is_open:
            return
        self.is_open = False
        network = self._network
        network.links.pop(self, None)
        numb = [end for end in self.ends if end in network.late_to_notice]
        for end in self.ends:
            delay = self._random.randint(0, 20 if numb else network.notice_ms_max)
            if end in numb:
                delay = DEADLINE_MS
            network.schedule.after(delay, lambda end=end: self._tell(end))

    def _arrive(self, sender: End, receiver: End, data: bytes) -> None:
        # Frames sent before the break still arrive: the ends learn of the break later.
        if (sender, receiver) in self._network.cuts:
            self._stopped_receiving[receiver] = None
            self.break_up()
            return
        handler = self._frames.get(receiver)
        if handler is not None and receiver not in self._stopped_receiving:
            if sender in self._left:
                self._left[sender](len(data))
            handler(data)

    def _tell(self, end: End) -> None:
        self._frames.pop(end, None)
        self._left.pop(end, None)
        handler = self._closed.pop(end, None)
        if handler is not None:
            handler()


class Network:
    """The links between all ends, their cuts and their delays."""

    def __init__(
        self, schedule: Schedule, delay_ms_max: int, notice_ms_max: int = DEADLINE_MS
    ) -> None:
        self.schedule = schedule
        self.delay_ms_max = delay_ms_max
        self.notice_ms_max = notice_ms_max
        """The longest time until an end learns that its link is broken, by default."""
        self.links: dict[SimLink, None] = {}
        """The open links, oldest first."""
        self.cuts: dict[tuple[End, End], int] = {}
        """Directions in which every frame is lost, and how many faults cut each."""
        self.slow: dict[tuple[End, End | None], int] = {}
        """Slowdown factors, between two ends or on all links of one end."""
        self.late_to_notice: dict[End, None] = {}
        """Ends that learn of a broken link as late as possible; the other end learns it at once."""
        self.refuses_links: dict[End, None] = {}
        """Servers to which no other server gets a new link."""
        self.held_until: dict[tuple[End, End], int] = {}
        """Directions in which no frame arrives before the given moment."""
        self._streams: dict[tuple[End, End], Random] = {}

    def connect(self, one: End, other: End) -> SimLink | None:
        """Open a link; None if either direction is cut."""
        if (one, other) in self.cuts or (other, one) in self.cuts:
            return None
        if (
            self.refuses_links
            and one[0] == other[0]
            and (one in self.refuses_links or other in self.refuses_links)
        ):
            return None
        random = self._streams.get((one, other))
        if random is None:
            random = self.schedule.stream(f"network.{one}.{other}")
            self._streams[one, other] = random
        link = self._open((one, other), random)
        self.links[link] = None
        return link

    def _open(self, ends: tuple[End, End], random: Random) -> SimLink:
        return SimLink(self, ends, random)

    def open_links(self, end: End) -> list[SimLink]:
        """Return the open links of one end."""
        return [link for link in self.links if end in link.ends]

    def cut(self, sender: End, receiver: End) -> None:
        """Lose every frame in this direction."""
        self.cuts[sender, receiver] = self.cuts.get((sender, receiver), 0) + 1

    def mend(self, sender: End, receiver: End) -> None:
        """End one cut."""
        left = self.cuts.pop((sender, receiver), 0) - 1
        if left > 0:
            self.cuts[sender, receiver] = left

    def slowness(self, sender: End, receiver: End) -> int:
        """Return the slowdown factor of a direction."""
        slow = self.slow
        factor = slow.get((sender, receiver)) or slow.get((receiver, sender), 1)
        return max(factor, slow.get((sender, None), 1), slow.get((receiver, None), 1))

    def heal(self) -> None:
        """End all cuts, slowdowns and other restrictions."""
        self.cuts.clear()
        self.slow.clear()
        self.late_to_notice.clear()
        self.refuses_links.clear()
        self.held_until.clear()
