"""A tree received from the leader takes the place of ours.

Rules Z5 and Z7. The received tree is fuzzy: it is a real state only once everything up to its
`consistent_at` is applied. It may also be older than ours, when the leader has not learned yet how
much of its log is committed; then it counts once it has caught up with what our clients saw.
Until then nobody is answered; then every local watch is evaluated as on a reconnect, before any
reply from the new state.
"""

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.context import ServerContext
from raykeeper.server.snapshot_streams import SnapshotStreams
from raykeeper.zab.effects import (
    AdoptSnapshot,
    CheckSnapshot,
    DiscardSnapshot,
    Effect,
    ReceiveChunk,
    ReceiveSnapshot,
    TraceEvent,
    VoteGranted,
)
from raykeeper.zab.ids import FOUNDING_DISK, Zxid, format_zxid
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotLoader
from raykeeper.znodes.state import State
from raykeeper.znodes.watch_replay import WatchReplay


class SnapshotInstall:
    """The tree on its way in, beside the one that is served."""

    def __init__(
        self, context: ServerContext, connections: ClientRequests, streams: SnapshotStreams
    ) -> None:
        self._context = context
        self._connections = connections
        self._streams = streams
        self._loader: SnapshotLoader | None = None
        self._built_state: State | None = None  # complete; the disk is told at NEWLEADER
        self._served_zxid: Zxid | None = None

    @property
    def is_consistent(self) -> bool:
        """Whether the tree is a real state, and none that clients would see go back."""
        return self._served_zxid is None

    def on_disk_effect(self, effect: Effect) -> None:
        """Load what the disk is told to receive."""
        if isinstance(effect, ReceiveSnapshot):
            self._loader = SnapshotLoader()
        elif isinstance(effect, DiscardSnapshot):
            self._loader = self._built_state = None
        elif isinstance(effect, ReceiveChunk):
            assert self._loader is not None, effect
            try:
                self._loader.load(effect.data)
            except SnapshotFormatError as error:
                self._reject_leader(error)

    def build_state(self, effect: CheckSnapshot) -> None:
        """Every chunk is here: build the tree, before the disk gives up what it has."""
        loader, self._loader = self._loader, None
        assert loader is not None, effect
        try:
            self._built_state = loader.finish(effect.zxid, effect.consistent_at)
        except SnapshotFormatError as error:
            self._reject_leader(error)

    def install(self, effect: AdoptSnapshot) -> None:
        """The snapshot is installed on the disk: serve from it, once it is a real state."""
        assert self._built_state is not None, effect
        context = self._context
        if self._served_zxid is None:
            self._served_zxid = context.state.zxid
        context.state, self._built_state = self._built_state, None
        context.peer.settings.members.adopt(context.state.voters)
        context.out.append(
            TraceEvent(server_trace_events.SNAPSHOT_INSTALLED, format_zxid(effect.zxid))
        )
        self._streams.on_state_replaced()
        self.finish_if_consistent()

    def finish_if_consistent(self) -> None:
        """Transactions were applied: perhaps the tree is a real state now."""
        state, since = self._context.state, self._served_zxid
        if since is None or state.zxid < max(state.consistent_at, since):
            return
        self._served_zxid = None
        settings = self._context.peer.settings
        settings.members.adopt(state.voters)
        if settings.has_vote and settings.disk != FOUNDING_DISK:
            # Perhaps again: the state may hold the second word on a vote we have by the first.
            self._context.out.append(VoteGranted())
        context = self._context
        context.change_log.reset(state.zxid)
        context.observe_tree(state)
        missed = WatchReplay(state, context.change_log, self._connections.identities_of)
        for number, event in missed.events_from_state(context.watches, since):
            self._connections.send_watcher_event(number, event)
        self._connections.on_state_replaced()

    def _reject_leader(self, error: SnapshotFormatError) -> None:
        peer = self._context.peer
        assert peer.leader is not None, "a snapshot is received by a follower"
        peer.reject(peer.leader, str(error), self._context.now.mono)
