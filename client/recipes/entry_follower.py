"""A part of the tree that is followed: read once, then kept current by one watch with values.

Whoever needs all entries at a certain depth below a root has them here, as they are now: members
of a group, instances of services, owners of partitions. The invariant of this file: after
`catch_up` the entries are those of the newest event that was received, and no older one is missing.
An event is of no use if what was read since is newer, which the zxids tell; where an event comes
without a value, or a server knows the past no more (RESYNC), the znodes are read.

Curator: `CuratorCache`, without polling.
"""

from typing import Any, NamedTuple

from raykeeper.client.core.flows import Event, Flow, Gather
from raykeeper.client.core.outstanding import Query, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import EventType, WatchedEvent
from raykeeper.client.errors import KeeperError, NoAuthError, NoNodeError
from raykeeper.client.recipes.primitives import get_children
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import GetChildren, GetData, WatchKind, WatchMode
from raykeeper.znodes.stat import Stat


class Entry(NamedTuple):
    """One znode."""

    value: bytes
    stat: Stat


class EntryFollower:
    """The znodes `depth` levels below `root`; those that may not be read are left out."""

    def __init__(self, root: str, depth: int) -> None:
        self.root = root
        self.entries: dict[str, Entry] = {}
        """By their path below the root, without a slash in front."""
        self.changed = Event()
        """Rings when there is something to catch up with."""
        self._depth = depth

    def start(self) -> Flow[None]:
        """Set the watch, and read what is there.

        Raises:
            KeeperError: what a request failed with; `stop` all the same.
        """
        yield WatchAddition(self.root, WatchMode.RECURSIVE, True, self.changed)
        yield from self._read_all()
        yield from self.catch_up()

    def catch_up(self) -> Flow[None]:
        """Apply what has happened.

        Raises:
            KeeperError: what a read failed with.
        """
        while self.changed.is_set():
            unknown: dict[str, None] = {}
            for event in self.changed.drain():
                if event.type in (EventType.RESYNC, EventType.PERSISTENT_WATCH_REMOVED):
                    yield WatchAddition(self.root, WatchMode.RECURSIVE, True, self.changed)
                    yield from self._read_all()
                    unknown.clear()  # the events that follow may be older than what was read
                else:
                    self._apply(event, unknown)
            yield from self._read(list(unknown))

    def stop(self) -> Flow[None]:
        """Follow it no more."""
        yield Gather([WatchRemoval(self.root, WatchKind.RECURSIVE, self.changed)])

    def _apply(self, event: WatchedEvent, unknown: dict[str, None]) -> None:
        name = event.path[len(self.root) + 1 :]
        if name.count("/") + 1 != self._depth or not name:
            return
        entry = self.entries.get(name)
        if event.type is EventType.DELETED:
            if entry is not None and entry.stat.czxid < event.zxid:
                del self.entries[name]
        elif event.new is None or event.new.value is None:
            unknown[name] = None
        elif entry is None or entry.stat.mzxid < event.new.stat.mzxid:
            self.entries[name] = Entry(event.new.value, event.new.stat)

    def _read_all(self) -> Flow[None]:
        self.entries = {}
        names = yield from get_children(self.root)
        for _ in range(self._depth - 1):
            lists = yield Gather([Query(GetChildren, join(self.root, name)) for name in names])
            names = [
                f"{name}/{child}"
                for name, below in zip(names, lists, strict=True)
                for child in readable_or_none(below) or ()
            ]
        yield from self._read(names)

    def _read(self, names: list[str]) -> Flow[None]:
        found = yield Gather([Query(GetData, join(self.root, name)) for name in names])
        for name, each in zip(names, found, strict=True):
            if (read := readable_or_none(each)) is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = Entry(*read)


def readable_or_none(outcome: Any) -> Any:
    """What one of several reads says; None if the znode is gone, or not for us.

    Raises:
        KeeperError: any other error, such as the end of the session, which says nothing about it.
    """
    if isinstance(outcome, NoNodeError | NoAuthError):
        return None
    if isinstance(outcome, KeeperError):
        raise outcome
    return outcome
