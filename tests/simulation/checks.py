"""What must always hold, judged from outside: by what was delivered, promised and answered.

Names of the properties are those of Zab.tla and of the ZooKeeper paper.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from raykeeper.client.outstanding import Ask, Query
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.zab.effects import Note, Role
from raykeeper.zab.ids import ZERO, DiskId, Epoch, ServerId, Zxid, show_zxid
from raykeeper.zab.window import follows
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.replies import ChildrenRead, DataRead, Done, EventType, StatRead, Written
from raykeeper.znodes.requests import SessionId, WriteOp
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import Created, SessionClosed, Txn
from tests.simulation.schedule import Schedule
from tests.simulation.trace import note_in_words

if TYPE_CHECKING:
    from tests.simulation.client import SimClient
    from tests.simulation.node import Node

_Answer = Written | DataRead | StatRead | ChildrenRead | Done


class _Session(Struct, eq=False):
    """What a client saw in one session."""

    name: str
    client: Any
    zxid: Zxid = ZERO
    ended: bool = False  # lost, closed or dead: its ephemerals may go
    watching: dict[tuple[str, str], Zxid] = {}  # kind and path of a set watch -> since


class Checks:
    """The history of one run. Every method raises AssertionError on a broken promise."""

    def __init__(self, schedule: Schedule) -> None:
        self.notes: dict[str, int] = {}
        self.committed: dict[Zxid, bytes] = {}
        self.order: list[Zxid] = []  # zxids of `committed`, in order
        self.acked = 0
        self._schedule = schedule
        self._digests: dict[Zxid, int] = {}
        self._leaders: dict[Epoch, ServerId] = {}
        self._delivered: dict[ServerId, Zxid] = {}
        self._epochs: dict[tuple[ServerId, DiskId], tuple[Epoch, Epoch]] = {}
        self._numbers: dict[tuple[SessionId, int], Zxid] = {}
        self._sequence: set[str] = set()
        self._truth = State()
        self._sessions: dict[tuple[str, int], _Session] = {}
        self._by_id: dict[SessionId, _Session] = {}

    # Servers.

    def started(self, node: "Node") -> None:
        """A process began on its disk."""
        self._say(f"server {node.server_id} starts, log to {_end(node)}")
        self._delivered[node.server_id] = ZERO

    def stopped(self, node: "Node") -> None:
        """A process was killed."""
        self._say(f"server {node.server_id} crashes")

    def note(self, node: "Node", note: Note) -> None:
        """A note of a server."""
        self.notes[note.name] = self.notes.get(note.name, 0) + 1
        if self._schedule.trace is not None:
            self._say(f"server {node.server_id}: {note_in_words(note)}")

    def stepped(self, node: "Node") -> None:
        """A server took a step: compare it with everything known."""
        server = node.server
        assert server is not None
        peer, history = server.peer, server.peer.history
        if peer.is_active and peer.role is Role.LEADER:
            known = self._leaders.setdefault(peer.epoch, node.server_id)
            assert known == node.server_id, f"Leadership: {known} and {node.server_id}"
        disk = (node.server_id, node.disk.disk)
        epochs = self._epochs.get(disk, (Epoch(0), Epoch(0)))
        assert epochs <= (history.accepted, history.current), "epochs only grow"
        self._epochs[disk] = (history.accepted, history.current)
        before = self._delivered[node.server_id]
        if history.delivered != before:
            self._on_delivered(node, before, history.delivered)

    def _on_delivered(self, node: "Node", before: Zxid, upto: Zxid) -> None:
        assert node.server is not None
        state = node.server.state
        for zxid, txn in node.logged.items():
            if before < zxid <= upto:
                self._deliver(zxid, txn)
        self._delivered[node.server_id] = upto
        if self._schedule.trace is not None:
            self._say(f"server {node.server_id} delivers up to {show_zxid(upto)}")
        assert state.zxid == upto, (state.zxid, upto)
        assert self.order and upto <= self.order[-1], "Integrity: delivered, never proposed"
        if state.zxid >= state.consistent_at and not node.is_flipped:
            digest = state.digest()
            known = self._digests.setdefault(upto, digest)
            assert known == digest, f"digests differ at {show_zxid(upto)}"

    def _deliver(self, zxid: Zxid, data: bytes) -> None:
        known = self.committed.get(zxid)
        if known is not None:
            assert known == data, f"Agreement: two transactions {show_zxid(zxid)}"
            return
        last = self.order[-1] if self.order else ZERO
        assert follows(zxid, last), f"PrefixConsistency: {show_zxid(zxid)} after {show_zxid(last)}"
        self.committed[zxid] = data
        self.order.append(zxid)
        txn = self._truth.apply(zxid, data)
        self._digests[zxid] = self._truth.digest()
        self._on_committed(zxid, txn)

    def _on_committed(self, zxid: Zxid, txn: Txn) -> None:
        if txn.number:
            key = (txn.session_id, txn.number)
            assert key not in self._numbers, f"done twice: write {key}"
            self._numbers[key] = zxid
        change = txn.change
        if isinstance(change, Created) and change.path.startswith("/n1/s-"):
            # Sequence numbers never repeat within one life of the parent.
            parent = self._truth.tree.znodes["/n1"]
            name = f"{parent.czxid}{change.path}"
            assert name not in self._sequence, f"sequence repeats: {change.path}"
            self._sequence.add(name)
        if isinstance(change, SessionClosed) and txn.number == 0:
            session = self._by_id.get(change.session_id)
            self._say(f"session {show_zxid(Zxid(change.session_id))} expires")
            # One whose process stands still cannot say so, nor do anything.
            assert session is None or session.ended or session.client.has_let_go, (
                f"session of {session.name} expired before its client let go"
            )

    # Clients.

    def client_started(self, client: "SimClient") -> None:
        """A session begins."""
        self._sessions[client.name, client.life] = _Session(client.name, client, watching={})
        self._say(f"client {client.name} begins")

    def client_lost(self, client: "SimClient") -> None:
        """The handle is LOST."""
        self._session(client).ended = True
        self._say(f"client {client.name} is LOST")

    def client_closed(self, client: "SimClient") -> None:
        """The handle was closed."""
        self._session(client).ended = True

    def client_died(self, client: "SimClient") -> None:
        """The process was killed (its life counter has gone on)."""
        self._sessions[client.name, client.life - 1].ended = True
        self._say(f"client {client.name} dies")

    def submitted(self, client: "SimClient", token: int, ask: Ask) -> None:
        """A request was made."""

    def completed(self, client: "SimClient", ask: Ask, answer: _Answer) -> None:
        """A request was answered."""
        session = self._session(client)
        assert client.core is not None
        self._by_id[client.core.session_id] = session
        self._advance(session, answer.zxid, is_read=not isinstance(answer, Written))
        if isinstance(answer, Written):
            self._on_written(client.core.session_id, answer)
        elif isinstance(answer, DataRead):
            self._on_read(session, "data", ask, answer.stat.mzxid, answer.zxid)
        elif isinstance(answer, ChildrenRead):
            self._on_read(session, "child", ask, answer.stat.pzxid, answer.zxid)

    def failed(self, client: "SimClient", ask: Ask, error: KeeperError) -> None:
        """A request failed."""
        assert error.definite or isinstance(ask, WriteOp), error

    def event(self, client: "SimClient", watchers: list[object], event: WatchedEvent) -> None:
        """A watch fired."""
        session = self._session(client)
        self._advance(session, event.zxid, is_read=False)
        if event.type is not EventType.CHILD:
            session.watching.pop(("data", event.path), None)
        if event.type in (EventType.CHILD, EventType.DELETED):
            session.watching.pop(("child", event.path), None)

    def _on_written(self, session_id: SessionId, answer: Written) -> None:
        data = self.committed.get(answer.zxid)
        assert data is not None, f"acked {show_zxid(answer.zxid)} was never delivered"
        assert self._numbers.get((session_id, answer.number)) == answer.zxid, answer
        self.acked += 1

    def _on_read(self, session: _Session, kind: str, ask: Ask, changed: Zxid, zxid: Zxid) -> None:
        """A client that watches learns of a change before it can read its effect."""
        assert isinstance(ask, Query)
        since = session.watching.get((kind, ask.path))
        assert since is None or changed <= since, (
            f"{session.name} read {ask.path} as of {show_zxid(changed)}, "
            f"watched since {show_zxid(since)}, and was told nothing"
        )
        if ask.watcher is not None and since is None:
            session.watching[kind, ask.path] = zxid

    def _advance(self, session: _Session, zxid: Zxid, is_read: bool) -> None:
        """Reads never go back. Events and outcomes name their cause, which may be older."""
        if is_read:
            assert zxid >= session.zxid, f"{session.name} went back"
        session.zxid = max(session.zxid, zxid)

    def _session(self, client: "SimClient") -> _Session:
        return self._sessions[client.name, client.life]

    # The end of a run.

    def converged(self, nodes: list["Node"]) -> bool:
        """Whether every server has delivered everything and holds the same state."""
        ends = set()
        for node in nodes:
            server = node.server
            if server is None or not server.peer.is_active:
                return False
            ends.add((server.state.zxid, server.peer.history.logged))
        return len(ends) == 1 and self.order[-1:] == [next(iter(ends))[0]]

    def finish(self, nodes: list["Node"]) -> None:
        """Compare the states at the end with the one made from the committed transactions."""
        for node in nodes:
            assert node.server is not None
            # The commit of an expiry may still be under way to some.
            state = node.server.state
            assert not node.is_flipped, f"nobody saw that the tree of {node.server_id} differs"
            assert state.digest() == self._digests[state.zxid], node.server_id

        for session in self._sessions.values():
            if not session.ended:
                for (kind, path), since in session.watching.items():
                    self._no_event_missed(session, kind, path, since)

    def _no_event_missed(self, session: _Session, kind: str, path: str, since: Zxid) -> None:
        znode = self._truth.tree.znodes.get(path)
        assert znode is not None, f"{session.name} was not told that {path} is gone"
        changed = znode.mzxid if kind == "data" else znode.pzxid
        assert changed <= since, f"{session.name} was not told of {path} at {show_zxid(changed)}"

    def _say(self, text: str) -> None:
        self._schedule.say(text)


def _end(node: "Node") -> str:
    log = node.disk.log
    return show_zxid(log[-1][0]) if log else "empty"
