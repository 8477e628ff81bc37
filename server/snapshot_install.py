"""Installs a state received from the leader in the place of the server's own.

Rules Z5 and Z7. The received state is fuzzy: it is consistent only once everything up to its
`consistent_at` is applied. It may also be older than the state that it replaces, when the leader
has not learned yet how much of its log is committed. Then it counts once it has caught up with what
clients of this server saw. Until then no client is answered. After that every local watch is
evaluated as on a reconnect, before any reply from the new state.
"""

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.context import ServerContext
from raykeeper.server.snapshot_streams import SnapshotStreams
from raykeeper.zab.effects import (
    AdoptSnapshot,
    CheckSnapshot,
    DiscardSnapshot,
    ReceiveChunk,
    ReceiveSnapshot,
)
from raykeeper.zab.feature_levels import FeatureLevel, level_problem
from raykeeper.zab.ids import Zxid, format_zxid
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotLoader
from raykeeper.znodes.state import State
from raykeeper.znodes.watch_replay import WatchReplay


class SnapshotInstall:
    """The state that is being received, and whether the served one is consistent."""

    def __init__(
        self, context: ServerContext, clients: ClientRequests, streams: SnapshotStreams
    ) -> None:
        self._context = context
        self._clients = clients
        self._streams = streams
        self._loader: SnapshotLoader | None = None
        self._built_state: State | None = None  # complete; the disk installs it at NEWLEADER
        self._served_zxid: Zxid | None = None

    @property
    def is_consistent(self) -> bool:
        """Whether the state is consistent and not older than what clients here saw."""
        return self._served_zxid is None

    @property
    def built_level(self) -> FeatureLevel:
        """The feature level of the received state, which the disk is about to install."""
        assert self._built_state is not None, "installed without a check"
        return self._built_state.level

    def on_disk_effect(self, effect: ReceiveSnapshot | ReceiveChunk | DiscardSnapshot) -> None:
        """Load the snapshot that the disk is told to receive."""
        if isinstance(effect, ReceiveSnapshot):
            self._loader = SnapshotLoader()
        elif isinstance(effect, DiscardSnapshot):
            self._loader = self._built_state = None
        else:
            assert self._loader is not None, effect
            try:
                self._loader.load(effect.data)
            except SnapshotFormatError as error:
                self._reject_leader(error)

    def build_state(self, effect: CheckSnapshot) -> None:
        """Build the state from all chunks, before the disk replaces what it has."""
        loader, self._loader = self._loader, None
        assert loader is not None, effect
        try:
            state = loader.finish(effect.zxid, effect.consistent_at)
            state.newest_level = self._context.peer.settings.levels.newest
            if problem := level_problem(state.level, state.newest_level):
                raise SnapshotFormatError(f"the snapshot requires {problem}")
            self._built_state = state
        except SnapshotFormatError as error:
            self._reject_leader(error)

    def install(self, effect: AdoptSnapshot) -> None:
        """Replace the state, as the disk has done; serve from it once it is consistent."""
        assert self._built_state is not None, effect
        context = self._context
        if self._served_zxid is None:
            self._served_zxid = context.state.zxid
        context.state, self._built_state = self._built_state, None
        context.trace(trace_events.SNAPSHOT_INSTALLED, format_zxid(effect.zxid))
        self._streams.on_state_replaced()
        self.finish_if_consistent()

    def finish_if_consistent(self) -> None:
        """Serve the received state if the transactions applied so far make it consistent."""
        context, since = self._context, self._served_zxid
        state = context.state
        if since is None or state.zxid < state.consistent_at:
            return
        members = context.peer.settings.members
        members.adopt(state.member_list(members.founding))
        if state.zxid < since:
            return
        self._served_zxid = None
        context.repeat_vote_granted()
        context.change_log.reset(state.zxid)
        context.observe_tree(state)
        replay = WatchReplay(state, context.change_log, self._clients.identities_of)
        for number, event in replay.events_from_state(context.watches, since):
            self._clients.send_watcher_event(number, event)
        self._clients.on_state_replaced()

    def _reject_leader(self, error: SnapshotFormatError) -> None:
        peer = self._context.peer
        assert peer.leader is not None, "only a learner receives a snapshot"
        peer.reject(peer.leader, str(error), self._context.now.mono)
