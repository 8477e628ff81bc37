"""The history of a run: what clients requested, what they were answered, and when.

A client makes a record before it sends a request and another one when the answer arrives. So the
history holds every request that may have had an effect, and a request without an answer has an
unknown outcome. All times are of one clock that the clients share, in any unit.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.errors import Code, KeeperError
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import CloseSession, Create, Delete, SessionId, SetData
from raykeeper.znodes.stat import Stat

BEGIN: Final = "begin"
END: Final = "end"
"""The clients that make the znodes of a round before the load, and read them after it."""


class HistoryError(RayKeeperError):
    """Raised when a file holds no history, or records contradict each other; names the record.

    The caller should look at the program that wrote the file.
    """


class ReadKind(StrEnum):
    """The part of a znode that a read returns."""

    GET = "get"
    EXISTS = "exists"
    CHILDREN = "children"


class Read(Struct, frozen=True, array_like=True, tag=5):
    """A read. `is_synced`: it was sent together with a sync before it, so it is linearizable."""

    path: str
    kind: ReadKind
    is_synced: bool = False
    is_watched: bool = False


class MultiCall(Struct, frozen=True, array_like=True, tag=6):
    """A transaction of several operations; its `calls` are known once it is answered."""

    calls: list[Create | SetData | Delete | Read]


Call = Create | SetData | Delete | CloseSession | Read | MultiCall


class Ok(Struct, frozen=True, array_like=True, tag=1):
    """The operation succeeded. A field that the answer does not tell keeps its default.

    `path` is that of the created znode, `zxid` that of the transaction or of the state read.
    """

    zxid: Zxid = ZERO
    path: str = ""
    value: bytes | None = None
    stat: Stat | None = None
    children: list[str] | None = None
    parts: "list[Ok] | None" = None
    """The result of each call of a transaction."""


class Refused(Struct, frozen=True, array_like=True, tag=2):
    """The operation certainly had no effect, for the reason `code`."""

    code: int


class Unknown(Struct, frozen=True, array_like=True, tag=3):
    """The client gave up; the operation may have had an effect, or may have one later."""

    code: int


Result = Ok | Refused | Unknown


class SessionBegan(Struct, frozen=True, tag="began"):
    """A client begins its session number `life`, counted from 1. `session_id` 0: not yet known."""

    client: str
    life: int
    at: int
    session_id: SessionId = SessionId(0)


class SessionEnded(Struct, frozen=True, tag="ended"):
    """A session that was not closed is over for its client, or was found to be over.

    It ends for the ensemble between `since` and `until`; None: perhaps later, perhaps never.
    """

    client: str
    life: int
    since: int
    until: int | None = None


class Called(Struct, frozen=True, tag="called"):
    """A client is about to send a request; `number` is its place in the session, from 1."""

    client: str
    life: int
    number: int
    at: int
    call: Call


class Returned(Struct, frozen=True, tag="returned"):
    """The answer to request `number` has arrived."""

    client: str
    life: int
    number: int
    at: int
    result: Result


class Fired(Struct, frozen=True, tag="fired"):
    """A watch fired."""

    client: str
    life: int
    at: int
    kind: EventType
    path: str
    zxid: Zxid


Record = SessionBegan | SessionEnded | Called | Returned | Fired


class Operation(Struct):
    """One request with its answer. `returned` is None when the outcome is unknown."""

    client: str
    life: int
    number: int
    called: int
    call: Call
    returned: int | None = None
    result: Ok | Refused | None = None
    unknown: Unknown | None = None
    """Why the client gave up, if it did and told so."""

    @property
    def ok(self) -> Ok | None:
        """The result, if the client was told that the operation succeeded."""
        return self.result if isinstance(self.result, Ok) else None

    @property
    def stat(self) -> Stat | None:
        """The Stat in the answer."""
        return None if self.ok is None else self.ok.stat

    @property
    def path(self) -> str:
        """The path that the operation names, or that the answer to a creation tells; may be ""."""
        created = "" if self.ok is None else self.ok.path
        path: str = created or getattr(self.call, "path", "")
        return path

    def creates(self, flag: int) -> bool:
        """Return whether the operation creates a znode with this flag of `CreateMode`."""
        return isinstance(self.call, Create) and bool(self.call.flags & flag)

    def parts(self) -> Iterator["Operation"]:
        """Yield the operation, or one for each call of a transaction that succeeded."""
        if not isinstance(self.call, MultiCall):
            yield self
        elif isinstance(self.result, Ok):
            for call, result in zip(self.call.calls, self.result.parts or [], strict=True):
                yield replace(self, call=call, result=result)

    def __str__(self) -> str:
        until = "?" if self.returned is None else self.returned
        asked = show_call(self.call)
        result = self.result or self.unknown
        return f"[{self.called}, {until}] {self.client}.{self.life} #{self.number} {asked} -> " + (
            "unknown" if result is None else show_result(result)
        )


class Session(Struct):
    """One session: its operations in the order of submission, and its end."""

    client: str
    life: int
    session_id: SessionId = SessionId(0)
    operations: list[Operation] = []
    fired: list[Fired] = []
    ended: SessionEnded | None = None


class History:
    """All that the clients saw. Records of one client must be added in its own order."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.sessions: dict[tuple[str, int], Session] = {}
        for record in records:
            self.add(record)

    @property
    def operations(self) -> Iterator[Operation]:
        """Iterate over all operations, session by session."""
        for session in self.sessions.values():
            yield from session.operations

    @property
    def parts(self) -> Iterator[Operation]:
        """Iterate over all operations, and over each call of a transaction instead of the whole."""
        for operation in self.operations:
            yield from operation.parts()

    def deleted_paths(self) -> frozenset[str]:
        """Return the paths at which a znode may have been deleted."""
        return frozenset(
            part.call.path
            for part in self.parts
            if isinstance(part.call, Delete) and not isinstance(part.result, Refused)
        )

    def add(self, record: Record) -> None:
        """Add the next record of a client.

        Raises:
            HistoryError: the record contradicts earlier ones; the history is unchanged.
        """
        session = self.sessions.get((record.client, record.life))
        if session is None:
            session = Session(record.client, record.life, operations=[], fired=[])
            self.sessions[record.client, record.life] = session
        if type(record) is Called:
            operations = session.operations
            if record.number != len(operations) + 1:
                raise HistoryError(f"the next request is number {len(operations) + 1}: {record}")
            operations.append(
                Operation(record.client, record.life, record.number, record.at, record.call)
            )
        elif type(record) is Returned:
            self._returned(session, record)
        elif type(record) is Fired:
            session.fired.append(record)
        elif type(record) is SessionBegan:
            session.session_id = record.session_id or session.session_id
        else:
            assert type(record) is SessionEnded, record
            session.ended = record

    def _returned(self, session: Session, record: Returned) -> None:
        if not 0 < record.number <= len(session.operations):
            raise HistoryError(f"an answer without its request: {record}")
        operation = session.operations[record.number - 1]
        if operation.returned is not None or record.at < operation.called:
            raise HistoryError(f"too early, or a second answer to {operation}: {record}")
        if isinstance(record.result, Unknown):
            operation.unknown = record.result
        else:
            operation.returned = record.at
            operation.result = record.result


def result_of_error(error: KeeperError) -> Refused | Unknown:
    """Return the result that a client learns from `error`."""
    return Refused(error.code) if error.definite else Unknown(error.code)


def show_call(call: Call) -> str:
    """Format a request for a person."""
    match call:
        case Create():
            mode = {0: "", 1: " ephemeral", 2: " sequential", 3: " ephemeral sequential"}
            return f"create{mode.get(call.flags, '')} {call.path} {_show(call.value or b'')}"
        case SetData():
            return f"set {call.path} {_show(call.value or b'')} at version {call.version}"
        case Delete():
            return f"delete {call.path} at version {call.version}"
        case Read():
            return f"{'synced ' if call.is_synced else ''}{call.kind} {call.path}"
        case MultiCall():
            return " and ".join(map(show_call, call.calls))
        case _:
            return "close"


def show_result(result: Result) -> str:
    """Format an answer for a person."""
    if isinstance(result, Ok):
        parts = [result.path] if result.path else []
        if result.value is not None:
            parts.append(_show(result.value))
        if result.stat is not None:
            parts.append(f"version {result.stat.version}")
            if result.stat.ephemeral_owner:
                parts.append(f"owner {result.stat.ephemeral_owner:#x}")
        if result.children is not None:
            parts.append(f"children {sorted(result.children)}")
        parts += map(show_result, result.parts or ())
        return "ok" + "".join(f" {part}" for part in parts)
    name = Code(result.code).name if result.code in set(Code) else str(result.code)
    return name if isinstance(result, Refused) else f"unknown ({name})"


def _show(value: bytes) -> str:
    return repr(value if len(value) <= 40 else value[:40] + b"...")[1:]
