"""The part of the blocking client that is about watches that stay, and the removal of watches.
What they promise: client/core/session_watches.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future

from raykeeper.client.core.watched_event import WatchedEvent
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.session import Session
from raykeeper.znodes.requests import WatchKind

WatchCallback = Callable[[WatchedEvent], object]


class BlockingWatches(ABC):
    """The methods of `Client` for watches that are not set by a read."""

    @abstractmethod
    def _open_session(self) -> Session:
        """The session of the handle."""

    def add_watch(
        self, path: str, watch: WatchCallback, *, recursive: bool = False, with_values: bool = False
    ) -> None:
        """Have `watch` called with every event of a znode, which may be missing, from now on.

        Nothing is missed while there is no connection: all events of that time follow, in order.
        When no server knows them any more, an event of type RESYNC says so: read again.

        Args:
            path: Of the znode.
            watch: Called until it is removed; the same one for one path counts once.
            recursive: Of all znodes below too. Then no event tells that children have changed, as
                each child has its own.
            with_values: Tell the value and Stat before and after, see WatchedEvent.

        Raises:
            BadArgumentsError: an argument is not acceptable, or there are too many watches.
            KeeperError: as for every call.
        """
        refuse_running_loop("add_watch")
        self._open_session().wait(
            self.add_watch_async(path, watch, recursive=recursive, with_values=with_values)
        )

    def add_watch_async(
        self, path: str, watch: WatchCallback, *, recursive: bool = False, with_values: bool = False
    ) -> Future[None]:
        """`add_watch` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.add_watch(path, watch, recursive, with_values))

    def remove_watches(
        self, path: str, watch: WatchCallback | None = None, kind: WatchKind = WatchKind.ANY
    ) -> None:
        """Remove the watches of a kind from `path`: that of `watch` alone, or all (None).

        Each is told so by a last event, of one of the types …_WATCH_REMOVED.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            NoWatcherError: there is none.
            KeeperError: as for every call.
        """
        refuse_running_loop("remove_watches")
        live = self._open_session()
        live.call(live.requests.remove_watches(path, watch, kind))

    def remove_watches_async(
        self, path: str, watch: WatchCallback | None = None, kind: WatchKind = WatchKind.ANY
    ) -> Future[None]:
        """`remove_watches` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.remove_watches(path, watch, kind))
