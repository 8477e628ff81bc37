"""The requests and answers of a client in one session."""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from raykeeper.chaos.checks.history import Operation
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientId
from raykeeper.zab.ids import ZERO, ServerId, Zxid
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.requests import SessionId, WatchMode, WriteOp
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import MultiResults
from tests.simulation.checks.truth import Trigger, Truth

if TYPE_CHECKING:
    from tests.simulation.checks.byte_connections import ByteConnection


class Core(Protocol):
    """The parts of a client's core that the checks look at."""

    session_id: SessionId
    client_id: ClientId
    last_zxid: Zxid
    _server: ServerId


class Client(Protocol):
    """The parts of a simulated client that the checks look at."""

    @property
    def life(self) -> int:
        """Return the number of its present session."""
        ...

    @property
    def core(self) -> Core | None:
        """Return its core, None while there is no process."""
        ...

    @property
    def lets_go_at(self) -> int:
        """Return when, in the world's time, its session may be over by its own clock."""
        ...

    @property
    def has_let_go(self) -> bool:
        """Return whether its session may be over by its own clock."""
        ...

    @property
    def speaks_jute(self) -> bool:
        """Return whether it speaks ZooKeeper's protocol."""
        ...

    @property
    def heard_sent_at(self) -> int:
        """Return when the newest bytes were sent that a client of that protocol has read."""
        ...


class PendingRequest(Struct, eq=False):
    """One request. `number` is that of a write; 0 for a read, or a write that got none."""

    ask: NewRequest
    number: int
    committed: Zxid
    """The newest transaction that anybody had delivered when it was asked."""
    delays: tuple[int, int] = (0, 0)
    """How often, until then, a read had to wait for another connection, or for a leader."""
    operation: Operation | None = None
    done_at: int = 0
    """When the write of a client of ZooKeeper's protocol was delivered first, if it was."""


class Told(Struct, frozen=True):
    """The answer that the client of a write must get: the outcome of its transaction."""

    zxid: Zxid
    code: int
    path: str
    stat: Stat | None
    results: MultiResults | None = None


class PendingWatch(Struct, eq=False):
    """The watch on one path, in one of the two tables. `tokens` are its watchers.

    `due` is the first trigger of the watch, once that has happened.
    """

    since: Zxid
    tokens: dict[object, None]
    is_missing: bool
    """It was set on a znode that was not there."""
    due: Trigger | None = None


class PersistentWatchState(Struct, eq=False):
    """A persistent watch: `at` is its next place in the sequence of all events."""

    at: int
    wants_values: bool


class SessionView(Struct, eq=False):
    """One session of a client; `life` is its number."""

    name: str
    life: int
    client: Client
    session_id: SessionId = SessionId(0)
    pending: deque[PendingRequest] = deque()
    writes: list[WriteOp] = []
    """By number, from 1 on, less one."""
    denied: set[int] = set()
    """Numbers of which the client was told that they surely had no effect."""
    zxid: Zxid = ZERO
    """The newest state that was shown."""
    read: Zxid = ZERO
    """The newest state that was read without a delay."""
    watching: dict[tuple[str, bool], PendingWatch] = {}
    """By path, and whether in the table of children."""
    due: dict[tuple[str, bool], PendingWatch] = {}
    """Those of `watching` that have something to tell."""
    following: dict[tuple[object, str, WatchMode], PersistentWatchState] = {}
    """The persistent watches, by watcher, path and mode."""
    torn: dict[object, Zxid] = {}
    """Watchers that were told of a part of a transaction, and wait for the rest."""
    whole: dict[object, Zxid] = {}
    """Of which transaction a watcher has been told everything."""
    is_settled: bool = False
    """It was answered on its connection, so its watches are set there."""
    operations: list[Operation] = []
    late: list[Operation] = []
    """Reads that had to wait, and may show what their client wrote after them."""
    unknown: list[PendingRequest] = []
    """Requests that may have had an effect."""
    done_at: list[int] = []
    """By number of the write, less one: when it was delivered first."""
    synced_at: int = 0
    """When a sync was asked for that the next request follows; 0 when it was another request."""
    last_success: int = 0
    ended_at: int | None = None
    is_answered: bool = False
    """Something succeeded in it."""
    takes: ClientId | None = None
    """The session that it is to take over from another client."""
    former: "SessionView | None" = None
    """Of whom it took it over."""
    fenced_after: int | None = None
    """The newest write of the session when another client took it over."""
    was_connected: bool = False
    """Its client was told that it has it: to know the one that it is to take over is not enough."""
    is_read_only: bool = False
    """A server without a leader serves it."""
    was_read_only: bool = False
    has_closed: bool = False
    """The client asked for the end."""
    is_over: bool = False
    """The client knows of the end, wants it, or is dead."""
    is_dead: bool = False
    """The process of its client was killed."""
    connection: "ByteConnection | None" = None
    """The newest one of a client of ZooKeeper's protocol."""

    @property
    def speaks_jute(self) -> bool:
        """Return whether its client speaks ZooKeeper's protocol."""
        return self.client.speaks_jute

    def __str__(self) -> str:
        return f"{self.name}.{self.life}"

    def known_as(self, truth: Truth, zxid: Zxid) -> Identities:
        """Return the identities by which ACLs know the session as of `zxid`.

        A server without a leader uses its own state, which may not have the session.
        """
        if not self.is_read_only:
            return truth.known_as(self.session_id, zxid)
        session_id = known_session(self)
        session = truth.sessions.get(session_id)
        if session is None or session_id > zxid:
            return ()
        has_ended = session.closed_at is not None and session.closed_at <= zxid
        return () if has_ended else session.known_as(zxid)


def new_session_view(name: str, life: int, client: Client) -> SessionView:
    """Return the view of a session that begins."""
    return SessionView(
        name, life, client, pending=deque(), writes=[], denied=set(), watching={}, due={},
        following={}, torn={}, whole={}, operations=[], late=[], unknown=[], done_at=[],
    )  # fmt: skip


def takes_over(seen: SessionView, former: SessionView, last_number: int) -> None:
    """Hand the session over to `seen`; everything done in it before still counts."""
    seen.former = former
    former.fenced_after = last_number
    seen.writes = former.writes[:last_number]
    seen.done_at = former.done_at[:last_number]


def known_session(seen: SessionView | None) -> SessionId:
    """Return the id of the session that a client was told, 0 for none."""
    if seen is None or seen.client.life != seen.life or seen.client.core is None:
        return SessionId(0)
    return seen.client.core.session_id


def counts_on(seen: SessionView, session_id: SessionId) -> bool:
    """Return whether its client takes the session for its own."""
    return known_session(seen) == session_id and seen.was_connected
