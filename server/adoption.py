"""A tree received from the leader takes the place of ours.

Rules Z5 and Z7. The received tree is fuzzy: it is a real state only once everything up to its
`consistent_at` is applied. It may also be older than ours, when the leader has not learned yet how
much of its log is committed; then it counts once it has caught up with what our clients saw.
Until then nobody is answered; then every local watch is evaluated as on a reconnect, before any
reply from the new state.
"""

from raykeeper.server import server_notes as notes
from raykeeper.server.connections import Connections
from raykeeper.server.server_context import ServerContext
from raykeeper.server.tree_streams import TreeStreams
from raykeeper.zab.effects import (
    AdoptSnapshot,
    CheckSnapshot,
    DiscardSnapshot,
    Effect,
    Note,
    ReceiveChunk,
    ReceiveSnapshot,
    VoteGranted,
)
from raykeeper.zab.ids import FOUNDING, Zxid, show_zxid
from raykeeper.znodes.missed import Missed
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotLoader
from raykeeper.znodes.state import State


class Adoption:
    """The tree on its way in, beside the one that is served."""

    def __init__(
        self, context: ServerContext, connections: Connections, streams: TreeStreams
    ) -> None:
        self._context = context
        self._connections = connections
        self._streams = streams
        self._loader: SnapshotLoader | None = None
        self._tree: State | None = None  # complete; the disk is told at NEWLEADER
        self._since: Zxid | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the tree is a real state, and none that clients would see go back."""
        return self._since is None

    def observe(self, effect: Effect) -> None:
        """Load what the disk is told to receive."""
        if isinstance(effect, ReceiveSnapshot):
            self._loader = SnapshotLoader()
        elif isinstance(effect, DiscardSnapshot):
            self._loader = self._tree = None
        elif isinstance(effect, ReceiveChunk):
            assert self._loader is not None, effect
            try:
                self._loader.load(effect.data)
            except SnapshotFormatError as error:
                self._reject_leader(error)

    def check(self, effect: CheckSnapshot) -> None:
        """Every chunk is here: build the tree, before the disk gives up what it has."""
        loader, self._loader = self._loader, None
        assert loader is not None, effect
        try:
            self._tree = loader.finish(effect.zxid, effect.consistent_at)
        except SnapshotFormatError as error:
            self._reject_leader(error)

    def adopt(self, effect: AdoptSnapshot) -> None:
        """The snapshot is installed on the disk: serve from it, once it is a real state."""
        assert self._tree is not None, effect
        context = self._context
        if self._since is None:
            self._since = context.state.zxid
        context.state, self._tree = self._tree, None
        context.peer.settings.members.adopt(context.state.voters)
        context.out.append(Note(notes.SNAPSHOT_ADOPTED, show_zxid(effect.zxid)))
        self._streams.tree_replaced()
        self.settle()

    def settle(self) -> None:
        """Transactions were applied: perhaps the tree is a real state now."""
        state, since = self._context.state, self._since
        if since is None or state.zxid < max(state.consistent_at, since):
            return
        self._since = None
        settings = self._context.peer.settings
        settings.members.adopt(state.voters)
        if settings.votes and settings.disk != FOUNDING:
            # Perhaps again: the state may hold the second word on a vote we have by the first.
            self._context.out.append(VoteGranted())
        context = self._context
        context.history.restart(state.zxid)
        context.follow(state)
        missed = Missed(state, context.history, self._connections.identities_of)
        for number, event in missed.by_state(context.watches, since):
            self._connections.fired(number, event)
        self._connections.adopted()

    def _reject_leader(self, error: SnapshotFormatError) -> None:
        peer = self._context.peer
        assert peer.leader is not None, "a snapshot is received by a follower"
        peer.reject(peer.leader, str(error), self._context.now.mono)
