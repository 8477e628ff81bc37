"""Links in virtual time: FIFO, at most once, broken by the first loss, cut one way or both."""

from collections.abc import Callable, Hashable

from tests.simulation.schedule import Schedule

DEADLINE_MS = 900
"""How long an end needs to learn that its link is broken, at most."""


class SimLink:
    """A link between two ends. Each end has handlers for frames and for the end of the link."""

    def __init__(self, network: "Network", ends: tuple[Hashable, Hashable]) -> None:
        self.ends = ends
        self.is_open = True
        self._network = network
        self._frames: dict[Hashable, Callable[[bytes], None]] = {}
        self._closed: dict[Hashable, Callable[[], None]] = {}
        self._arrival: dict[Hashable, int] = {}  # of the last frame to each end: FIFO

    def attach(
        self, end: Hashable, frames: Callable[[bytes], None], closed: Callable[[], None]
    ) -> None:
        """`closed` is called once, unless this end closes the link itself."""
        self._frames[end] = frames
        self._closed[end] = closed

    def send(self, sender: Hashable, data: bytes) -> None:
        """Send a frame from one end to the other."""
        if not self.is_open:
            return
        network = self._network
        receiver = self.ends[1] if sender == self.ends[0] else self.ends[0]
        if network.is_cut(sender, receiver):
            self.break_up()
            return
        schedule = network.schedule
        at = schedule.now + network.delay()
        at = max(at, self._arrival.get(receiver, 0))
        self._arrival[receiver] = at
        schedule.after(at - schedule.now, lambda: self._arrive(sender, receiver, data))

    def close(self, end: Hashable) -> None:
        """This end closes; the other one learns it."""
        self._closed.pop(end, None)
        self._frames.pop(end, None)
        self.break_up()

    def break_up(self) -> None:
        """The link is broken; each end learns it in its own time."""
        if not self.is_open:
            return
        self.is_open = False
        schedule = self._network.schedule
        for end in self.ends:
            delay = schedule.random.randint(0, DEADLINE_MS)
            schedule.after(delay, lambda end=end: self._tell(end))

    def _arrive(self, sender: Hashable, receiver: Hashable, data: bytes) -> None:
        # What was sent before the break may still arrive: the ends learn of it at other times.
        if self._network.is_cut(sender, receiver):
            self.break_up()
            return
        handler = self._frames.get(receiver)
        if handler is not None and self.is_open:
            handler(data)

    def _tell(self, end: Hashable) -> None:
        self._frames.pop(end, None)
        handler = self._closed.pop(end, None)
        if handler is not None:
            handler()


class Network:
    """Which ends can reach which, and how fast."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.delay_ms_max = 3
        self.links: list[SimLink] = []
        self._cuts: set[tuple[Hashable, Hashable]] = set()

    def delay(self) -> int:
        """Of one frame; now and then one is slow."""
        random = self.schedule.random
        return random.randint(0, self.delay_ms_max * (10 if random.random() < 0.02 else 1))

    def is_cut(self, sender: Hashable, receiver: Hashable) -> bool:
        """Whether frames in this direction are lost."""
        return (sender, receiver) in self._cuts

    def connect(self, one: Hashable, other: Hashable) -> SimLink | None:
        """A new link, None when either direction is cut."""
        if self.is_cut(one, other) or self.is_cut(other, one):
            return None
        link = SimLink(self, (one, other))
        self.links = [known for known in self.links if known.is_open]
        self.links.append(link)
        return link

    def cut(self, sender: Hashable, receiver: Hashable) -> None:
        """Lose every frame in this direction."""
        self._cuts.add((sender, receiver))

    def mend(self, sender: Hashable, receiver: Hashable) -> None:
        """End one cut."""
        self._cuts.discard((sender, receiver))

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    def break_some(self) -> None:
        """Break one open link."""
        links = [link for link in self.links if link.is_open]
        if links:
            self.schedule.random.choice(links).break_up()
