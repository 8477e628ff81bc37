"""The watches of one session over all its connections.

The server has one watch for all watchers of a kind and path, so the client asks it to remove the
watch only when no other watcher is left or on its way: `_intended` holds the persistent watchers
there will be once all submitted requests are answered. A one-shot watch whose watchers are gone
stays on the server and fires into nothing.

The client has received every watch event up to `_events_zxid`. It stands still from Connected until
the watches are set again: otherwise an event between the two would be lost for good if the
connection broke there.

ZooKeeper: `ClientCnxn.primeConnection`, `ZooKeeper.removeWatches`.
"""

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.effects import CallWatchers, SuccessReply
from raykeeper.client.core.outstanding import PendingRequest, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.client.core.watch_tables import KIND_OF_MODE, WatchTables
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EmptyReply, ErrorReply, WatcherEvent
from raykeeper.znodes.requests import SetWatches, WatchKind

PERSISTENT_KINDS = frozenset(KIND_OF_MODE.values())
ALL_KINDS = (WatchKind.DATA, WatchKind.CHILD, WatchKind.PERSISTENT, WatchKind.RECURSIVE)


class SessionWatches:
    """The watches of one session: requests, replies, events, reconnects."""

    def __init__(self, chroot: Chroot) -> None:
        self.tables = WatchTables()
        self._chroot = chroot
        self._events_zxid = ZERO
        self._xids: deque[int] = deque()  # of the SetWatches that are not answered
        self._transaction_events: list[tuple[WatcherEvent, list[object]]] = []
        self._intended: dict[tuple[WatchKind, str], dict[object, None]] = {}

    def on_submit(self, request: WatchAddition | WatchRemoval) -> WatchAddition | WatchRemoval:
        """Return a submitted request as it is to be sent."""
        if isinstance(request, WatchAddition):
            key = KIND_OF_MODE[request.mode], request.path
            self._intended.setdefault(key, {})[request.watcher] = None
            return request
        kinds: list[int] = []
        for kind in _kinds_of(request.kind):
            if request.watcher is None:
                self._intended.pop((kind, request.path), None)
                kinds.append(kind)
            elif kind in PERSISTENT_KINDS and self._drop_intended(
                kind, request.path, request.watcher
            ):
                kinds.append(kind)
        return replace(request, kinds=kinds)

    def on_reply(
        self,
        waiting: PendingRequest,
        item: SuccessReply | ErrorReply,
        code: int,
        state: ClientState,
    ) -> tuple[int, list[CallWatchers]]:
        """Take the reply to a request with a watcher; return the code for its caller, and calls."""
        request = waiting.watcher
        if isinstance(request, WatchRemoval):
            return (code, []) if code else self._removed(request, item.zxid, state)
        if code or waiting.token is None:
            if isinstance(request, WatchAddition):
                self._drop_intended(KIND_OF_MODE[request.mode], request.path, request.watcher)
        elif isinstance(request, WatchAddition):
            self.tables.add_persistent(
                request.watcher, request.path, request.mode, with_values=request.with_values
            )
        else:
            self.tables.add_one_shot(request, waiting.path, item)
        return code, []

    def on_event(self, fired: WatcherEvent, state: ClientState) -> list[CallWatchers]:
        """Take an event. The events of a transaction wait for the last of them.

        Only then it is known which event is each watcher's last: an event need not concern all.
        """
        watchers = self.tables.take(fired.kind, fired.path, only_once=fired.once)
        self._transaction_events.append((fired, watchers))
        if fired.more:
            return []
        together, self._transaction_events = self._transaction_events, []
        calls: list[CallWatchers] = []
        later: dict[object, None] = {}
        for event, concerned in reversed(together):
            for more in (False, True):
                group = [each for each in concerned if (each in later) is more]
                if group:
                    calls.append(self._call(event, group, state, more=more))
            later.update(dict.fromkeys(concerned))
        calls.reverse()
        return calls

    def set_watches(self, xids: Iterator[int], bytes_max: int) -> list[SetWatches]:
        """Return the requests that go first on a new connection."""
        requests = self.tables.set_watches(self._events_zxid, xids, bytes_max)
        self._xids = deque(request.xid for request in requests)
        return requests

    def is_set_watches_reply(self, item: SuccessReply | ErrorReply) -> bool:
        """Return whether `item` answers the oldest SetWatches, and take that off."""
        xids = self._xids
        if not isinstance(item, EmptyReply) or not xids or item.xid != xids[0]:
            return False
        xids.popleft()
        return True

    def on_received_up_to(self, zxid: Zxid) -> None:
        """The client has received all frames up to `zxid`."""
        if not self._xids:
            self._events_zxid = zxid

    def on_disconnected(self) -> None:
        """The connection is lost: nothing that was sent on it will be answered."""
        self._xids.clear()
        self._transaction_events.clear()

    def _call(
        self, fired: WatcherEvent, watchers: list[object], state: ClientState, *, more: bool
    ) -> CallWatchers:
        path = self._chroot.strip(fired.path)
        told = fired.kind, state, path, fired.zxid, more, fired.old, fired.new
        return CallWatchers(watchers, WatchedEvent(*told))

    def _removed(
        self, request: WatchRemoval, zxid: Zxid, state: ClientState
    ) -> tuple[int, list[CallWatchers]]:
        removed = self.tables.remove(request.path, request.watcher, _kinds_of(request.kind))
        path = self._chroot.strip(request.path)
        told = [
            CallWatchers(watchers, WatchedEvent(kind, state, path, zxid))
            for kind, watchers in removed.items()
        ]
        return (Code.OK if removed else Code.NO_WATCHER), told

    def _drop_intended(self, kind: WatchKind, path: str, watcher: object) -> bool:
        """Drop an intended watcher; return whether it was there and was the last one."""
        wanted = self._intended.get((kind, path), {})
        if watcher not in wanted:
            return False
        del wanted[watcher]
        if wanted:
            return False
        del self._intended[kind, path]
        return True


def _kinds_of(kind: WatchKind) -> tuple[WatchKind, ...]:
    return ALL_KINDS if kind is WatchKind.ANY else (kind,)
