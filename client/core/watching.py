"""What is watched for one client, over all its connections: what is asked, answered and missed.

The server has one watch for all watchers of a kind and path, so it may remove one only when no
other watcher is left, nor on its way to it: `_wanted` is who watches by the time that everything
submitted has been carried out. A one-shot watch that nobody waits for any more is left to fire
into nothing; a persistent one is not.

Up to `_events_zxid` every watch event was received. It stands still from Connected until the
watches are set again: else an event between the two would be lost for good if the connection broke
there.

ZooKeeper: `ClientCnxn.primeConnection`, `ZooKeeper.removeWatches`.
"""

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.effects import Answer, FireWatch
from raykeeper.client.core.outstanding import Unwatch, Waiting, Watch
from raykeeper.client.core.states import ClientState
from raykeeper.client.core.watched_event import WatchedEvent
from raykeeper.client.core.watchers import KIND_OF_MODE, Watchers
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import Done, ReadFailed, WatchFired
from raykeeper.znodes.requests import SetWatches, WatchKind

LASTING = frozenset(KIND_OF_MODE.values())
EACH = (WatchKind.DATA, WatchKind.CHILD, WatchKind.PERSISTENT, WatchKind.RECURSIVE)


class Watching:
    """The watches of one session."""

    def __init__(self, chroot: Chroot) -> None:
        self.watchers = Watchers()
        self._chroot = chroot
        self._events_zxid = ZERO
        self._xids: deque[int] = deque()  # of the SetWatches that are not answered
        self._together: list[tuple[WatchFired, list[object]]] = []
        self._wanted: dict[tuple[WatchKind, str], dict[object, None]] = {}

    def submitted(self, ask: Watch | Unwatch) -> Watch | Unwatch:
        """A request as it is to be sent."""
        if isinstance(ask, Watch):
            key = KIND_OF_MODE[ask.mode], ask.path
            self._wanted.setdefault(key, {})[ask.watcher] = None
            return ask
        kinds: list[int] = []
        for kind in _each(ask.kind):
            if ask.watcher is None:
                self._wanted.pop((kind, ask.path), None)
                kinds.append(kind)
            elif kind in LASTING and self._is_last(kind, ask.path, ask.watcher):
                kinds.append(kind)
        return replace(ask, kinds=kinds)

    def answered(
        self, waiting: Waiting, item: Answer | ReadFailed, code: int, state: ClientState
    ) -> tuple[int, list[FireWatch]]:
        """A request that is about watches has its answer, with `code`; the code for its owner."""
        ask = waiting.watcher
        if isinstance(ask, Unwatch):
            return (code, []) if code else self._removed(ask, item.zxid, state)
        if code or waiting.token is None:
            if isinstance(ask, Watch):
                self._is_last(KIND_OF_MODE[ask.mode], ask.path, ask.watcher)
        elif isinstance(ask, Watch):
            self.watchers.add_lasting(ask.watcher, ask.path, ask.mode, with_values=ask.with_values)
        else:
            self.watchers.add(ask, waiting.path, item)
        return code, []

    def fired(self, fired: WatchFired, state: ClientState) -> list[FireWatch]:
        """An event has come. Those of one transaction wait for the last of them.

        Only then is known which is the last one for each watcher: not every one concerns all.
        """
        watchers = self.watchers.take(fired.kind, fired.path, only_once=fired.once)
        self._together.append((fired, watchers))
        if fired.more:
            return []
        together, self._together = self._together, []
        calls: list[FireWatch] = []
        later: dict[object, None] = {}
        for event, concerned in reversed(together):
            for more in (False, True):
                group = [each for each in concerned if (each in later) is more]
                if group:
                    calls.append(self._call(event, group, state, more=more))
            later.update(dict.fromkeys(concerned))
        calls.reverse()
        return calls

    def set_again(self, xids: Iterator[int], bytes_max: int) -> list[SetWatches]:
        """What must be sent first on a new connection."""
        requests = self.watchers.set_again(self._events_zxid, xids, bytes_max)
        self._xids = deque(request.xid for request in requests)
        return requests

    def is_set(self, item: Answer | ReadFailed) -> bool:
        """Whether this answers the oldest SetWatches, which go first on a connection."""
        xids = self._xids
        if not isinstance(item, Done) or not xids or item.xid != xids[0]:
            return False
        xids.popleft()
        return True

    def seen(self, zxid: Zxid) -> None:
        """Everything of the frames up to `zxid` was received."""
        if not self._xids:
            self._events_zxid = zxid

    def disconnected(self) -> None:
        """What was sent on this connection is not answered any more."""
        self._xids.clear()
        self._together.clear()

    def _call(
        self, fired: WatchFired, watchers: list[object], state: ClientState, *, more: bool
    ) -> FireWatch:
        path = self._chroot.shown(fired.path)
        told = fired.kind, state, path, fired.zxid, more, fired.old, fired.new
        return FireWatch(watchers, WatchedEvent(*told))

    def _removed(self, ask: Unwatch, zxid: Zxid, state: ClientState) -> tuple[int, list[FireWatch]]:
        removed = self.watchers.remove(ask.path, ask.watcher, _each(ask.kind))
        path = self._chroot.shown(ask.path)
        told = [
            FireWatch(watchers, WatchedEvent(kind, state, path, zxid))
            for kind, watchers in removed.items()
        ]
        return (Code.OK if removed else Code.NO_WATCHER), told

    def _is_last(self, kind: WatchKind, path: str, watcher: object) -> bool:
        """Want it no more; whether it was wanted, and nobody else wants such a watch."""
        wanted = self._wanted.get((kind, path), {})
        if watcher not in wanted:
            return False
        del wanted[watcher]
        if wanted:
            return False
        del self._wanted[kind, path]
        return True


def _each(kind: WatchKind) -> tuple[WatchKind, ...]:
    return EACH if kind is WatchKind.ANY else (kind,)
