"""Programs: what a few sessions send, step by step. A seed decides all of it.

Sessions work one after the other, so that the order of all writes is the order of the steps; one
session may send several requests in one segment. Paths are relative to a root that each run has for
itself, except those behind `ABSOLUTE`.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec import Struct

from raykeeper.jute.fields import FIELDS, Field, Record
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    AddWatchRequest,
    AuthPacket,
    CheckVersionRequest,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    PathRequest,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
    WatchesRequest,
)
from raykeeper.znodes.acl import OPEN_ACL, READ_ONLY_ACL, Acl, Permission, digest_id
from raykeeper.znodes.paths import SYSTEM_PATHS

SESSIONS: Final = 3
NO_OPCODE: Final = 99


class Garbled(Record, frozen=True):
    """Bytes where the body of a request should be."""

    data: bytes


FIELDS[Garbled] = Field(
    0,
    lambda archive: Garbled(archive.read_bytes(archive.remaining)),
    lambda archive, body: archive.data.extend(body.data),
)


class Ask(Struct, frozen=True, tag=True):
    """A session sends requests in one segment, and waits for their replies."""

    session: int
    requests: tuple[tuple[int, Record], ...]


class Open(Struct, frozen=True, tag=True):
    """A new session. An old client has no last field, `read_only`."""

    session: int
    timeout_ms: int
    read_only: bool | None


class Drop(Struct, frozen=True, tag=True):
    """The connection of a session breaks."""

    session: int


class Return(Struct, frozen=True, tag=True):
    """A session comes on a new connection, by its id and password.

    It sets those watches again that have not fired. Its present connection is closed by the server.
    `is_wrong`: with another password, after its connection has broken.
    """

    session: int
    is_wrong: bool = False


Step = Ask | Open | Drop | Return


class Program(Struct, frozen=True):
    """Steps of `SESSIONS` sessions."""

    seed: int
    steps: tuple[Step, ...]


_PATHS: Final = ("/a", "/b", "/a/c", "/a/d", "/a/c/e")
_ODD_PATHS: Final = (
    *("/", "/a/", "/a//c", "/a/.", "/..", "/a/\x01", "/a\x7f", "/\ud7ff", "/a/\ufffd"),
    *("/emoji\U0001f600", "/é", "/ ", "/zookeeper", "no-slash"),
)
ABSOLUTE: Final = "^"
"""Before a path that is not below the root of a run."""
_FIXED: Final = tuple(ABSOLUTE + path for path in SYSTEM_PATHS)
_PASSWORDS: Final = (b"ann:secret", b"bob:pw", b"bob:other", b"no-colon", b"", b"\xff:pw")
_READABLE_ACLS: Final[tuple[list[Acl] | None, ...]] = (
    list(READ_ONLY_ACL),
    [
        Acl(Permission.READ | Permission.CREATE, "world", "anyone"),
        Acl(Permission.ALL, "digest", digest_id("bob", "pw")),
    ],
    [Acl(Permission.ALL & ~Permission.ADMIN, "world", "anyone")],
    [*OPEN_ACL, *OPEN_ACL],
    [*READ_ONLY_ACL, Acl(Permission.ALL, "auth", "ignored"), *READ_ONLY_ACL],
    [],
    None,
    [Acl(Permission.ALL, "world", "nobody")],
    [Acl(Permission.ALL, "digest", "no-hash")],
    [Acl(Permission.ALL, "nothing", "x")],
    [Acl(Permission.ALL, "ip", "not-an-address")],
)
"""Lists that let everybody read, or that are refused."""
_HIDING_ACLS: Final[tuple[list[Acl] | None, ...]] = (
    [Acl(Permission.ALL, "auth", "")],
    [Acl(Permission.ALL, "digest", digest_id("ann", "secret"))],
    [Acl(Permission.ALL & ~Permission.READ, "world", "anyone")],
    [Acl(Permission.ALL, "ip", "127.0.0.1")],
    [Acl(Permission.ALL, "ip", "10.0.0.0/8")],
    [Acl(0, "world", "anyone")],
)
_ANY_MODE: Final = (0, 1, 2, 3, 4, 5, 6, 7, -1)
_ODD_MODES: Final[Mapping[int, Sequence[int]]] = {
    OpCode.CREATE: _ANY_MODE,
    OpCode.CREATE2: _ANY_MODE,
    # Of modes that have no children, or a number, ZooKeeper makes containers all the same.
    OpCode.CREATE_CONTAINER: (0, 4, 5, 6, 7, -1),
    # A TTL below 0 with a mode that has none ends its process.
    OpCode.CREATE_TTL: (5, 6, 7, -1),
}
"""The flags that a creation may have beside those that clients send, by its opcode."""
_ODD_MODES_OF_OPERATIONS: Final = {**_ODD_MODES, OpCode.CREATE_TTL: _ANY_MODE}
_GARBLED: Final = (
    *((opcode, b"\0\0\0\x09/a") for opcode in (OpCode.CREATE, OpCode.EXISTS, OpCode.GET_ACL)),
    *((opcode, b"\0") for opcode in (OpCode.SET_WATCHES2, OpCode.ADD_WATCH, OpCode.SYNC)),
    (OpCode.SET_DATA, b"\0\0\0\x02/a\xff\xff\xff\xf0"),
    *((opcode, b"\0\0\0\x0d") for opcode in (OpCode.MULTI, OpCode.MULTI_READ)),
    *((OpCode.MULTI, bytes((0, 0, 0, kind)) + bytes(40)) for kind in (0, 7, 14, 20)),
)
"""Requests whose bodies end too early, or have operations that no multi has."""
_STANDARD, _PERSISTENT, _RECURSIVE = "standard", "persistent", "recursive"


class _Drawing:
    """Draws one program."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        # A watch whose event is hidden stays here, and is used up by ZooKeeper. So a program has
        # watches, or znodes that not everybody may read.
        self.hides = self.rng.random() < 0.3
        self.acl_choices = _READABLE_ACLS + _HIDING_ACLS if self.hides else _READABLE_ACLS
        self.steps: list[Step] = []
        self.lives: dict[int, None] = {}
        self.connected: dict[int, None] = {}
        self.watches: dict[tuple[int, str], str] = {}
        """How a session watches a path. ZooKeeper 3.8 knows one mode of each path only."""

    def draw(self) -> tuple[Step, ...]:
        for session in range(SESSIONS):
            self.open(session)
        if self.rng.random() < 0.9:
            made = tuple(
                (OpCode.CREATE, CreateRequest(path, self.data(), self.acls(), 0))
                for path in _PATHS[: self.rng.randint(3, len(_PATHS))]
            )
            self.steps.append(Ask(0, made))
        for _ in range(self.rng.randrange(8, 40)):
            self.step(self.rng.randrange(SESSIONS))
        return tuple(self.steps)

    def step(self, session: int) -> None:
        rng = self.rng
        if session not in self.lives:
            if rng.random() < 0.3:
                self.steps.append(Return(session))  # it has ended
            self.open(session)
        elif session not in self.connected:
            self.come_back(session)
        elif rng.random() < 0.05:
            self.steps.append(Drop(session))
            del self.connected[session]
            if rng.random() < 0.7:
                self.change_what_is_watched(session)
                self.come_back(session)
        elif rng.random() < 0.02:
            self.come_back(session)
        else:
            self.ask(session)

    def open(self, session: int) -> None:
        timeout_ms = self.rng.choice((70_000, 90_000, 1, 0, 3_600_000))
        read_only = self.rng.choice((None, False, False, False, True))
        self.steps.append(Open(session, timeout_ms, read_only))
        self.lives[session] = self.connected[session] = None
        self.watches = {key: mode for key, mode in self.watches.items() if key[0] != session}

    def come_back(self, session: int) -> None:
        if self.rng.random() < 0.1:
            self.steps.append(Return(session, is_wrong=True))
            self.connected.pop(session, None)
            return
        self.steps.append(Return(session))
        self.connected[session] = None

    def change_what_is_watched(self, session: int) -> None:
        """Let another session change what this one watches."""
        other = (session + 1) % SESSIONS
        paths = [path for owner, path in self.watches if owner == session]
        if paths and other in self.connected:
            path = self.rng.choice(paths)
            changes: tuple[tuple[int, Record], ...] = (
                (OpCode.SET_DATA, SetDataRequest(path, b"missed", -1)),
                (OpCode.DELETE, DeleteRequest(path, -1)),
                (OpCode.CREATE, CreateRequest(path, b"", list(OPEN_ACL), 0)),
            )
            is_recreated = self.rng.random() < 0.3
            self.steps.append(Ask(other, changes if is_recreated else (self.rng.choice(changes),)))

    def ask(self, session: int) -> None:
        if session not in self.connected:
            return
        rng = self.rng
        chance = rng.random()
        if chance < 0.05:
            self.steps.append(Ask(session, (self.alone(session),)))
            return
        requests = [self.request(session)]
        # To requests behind a setACL that is not answered, ZooKeeper applies the ACL before it.
        while rng.random() < 0.25 and requests[-1][0] != OpCode.SET_ACL:
            requests.append(self.request(session))
        if chance < 0.08:
            requests.append((OpCode.CLOSE_SESSION, EmptyRequest()))
            del self.lives[session]
            del self.connected[session]
        self.steps.append(Ask(session, tuple(requests)))

    def alone(self, session: int) -> tuple[int, Record]:
        """Return a request that ZooKeeper, or this server, answers out of the order."""
        rng = self.rng
        if rng.random() < 0.2:
            return OpCode.PING, EmptyRequest()
        if rng.random() < 0.7:
            return OpCode.AUTH, AuthPacket(0, "digest", rng.choice(_PASSWORDS))
        del self.connected[session]
        return rng.choice(
            ((NO_OPCODE, EmptyRequest()), (OpCode.AUTH, AuthPacket(0, "nothing", b"x")))
        )

    def request(self, session: int) -> tuple[int, Record]:
        if self.hides and self.rng.random() < 0.1:
            return OpCode.GET_ACL, PathRequest(self.path())
        if self.rng.random() < 0.01:
            opcode, data = self.rng.choice(_GARBLED)
            return opcode, Garbled(data)
        (kind,) = self.rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        return kind(self, session)

    # Parts of requests.

    def path(self) -> str:
        rng = self.rng
        if rng.random() < 0.04:
            return rng.choice(_ODD_PATHS)
        path = rng.choice(_PATHS)
        if rng.random() < 0.1:
            path += f"/s-{rng.randrange(3):010d}"
        return path

    def data(self) -> bytes | None:
        return self.rng.choice((None, b"", b"v", b"value", bytes(300)))

    def version(self) -> int:
        return self.rng.choice((-1, -1, -1, 0, 0, 1, 2, -2, 7))

    def acls(self) -> list[Acl] | None:
        chance = 0.4 if self.hides else 0.15
        return self.rng.choice(self.acl_choices) if self.rng.random() < chance else list(OPEN_ACL)

    def create(self, odd_modes: Mapping[int, Sequence[int]]) -> tuple[int, Record]:
        rng = self.rng
        opcode, flags = rng.choice(
            (
                *((OpCode.CREATE, 0), (OpCode.CREATE2, 0)) * 4,
                *((OpCode.CREATE, 1), (OpCode.CREATE, 2), (OpCode.CREATE2, 3)),
                *((OpCode.CREATE_CONTAINER, 4), (OpCode.CREATE_TTL, 5), (OpCode.CREATE_TTL, 6)),
            )
        )
        if rng.random() < 0.04:
            flags = rng.choice(odd_modes[opcode])
        path = self.path()
        if flags in (2, 3, 6) and rng.random() < 0.9:
            path += "/s-"
        if opcode == OpCode.CREATE_TTL:
            ttl = rng.choice((600_000, 600_000, 0, (1 << 40) - 1, 1 << 40, -1))
            return opcode, CreateTTLRequest(path, self.data(), self.acls(), flags, ttl)
        return opcode, CreateRequest(path, self.data(), self.acls(), flags)

    def operation(self) -> tuple[int, Record]:
        kind = self.rng.randrange(5)
        if kind <= 1:
            return self.create(_ODD_MODES_OF_OPERATIONS)
        if kind == 2:
            return OpCode.DELETE, DeleteRequest(self.path(), self.version())
        if kind == 3:
            return OpCode.SET_DATA, SetDataRequest(self.path(), self.data(), self.version())
        return OpCode.CHECK, CheckVersionRequest(self.path(), self.version())

    def watch(self, session: int, path: str) -> bool:
        """Return whether a read leaves a watch."""
        if self.hides or self.rng.random() < 0.3:
            return False
        return self.watch_mode(session, path, _STANDARD) == _STANDARD

    def watch_mode(self, session: int, path: str, wanted: str) -> str:
        return self.watches.setdefault((session, path), wanted)


def _create(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    return drawing.create(_ODD_MODES)


def _delete(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    path = drawing.rng.choice(_FIXED) if drawing.rng.random() < 0.02 else drawing.path()
    return OpCode.DELETE, DeleteRequest(path, drawing.version())


def _set_data(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    return OpCode.SET_DATA, SetDataRequest(drawing.path(), drawing.data(), drawing.version())


def _set_acl(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    acls = drawing.rng.choice(drawing.acl_choices)
    return OpCode.SET_ACL, SetACLRequest(drawing.path(), acls, drawing.version())


def _multi(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    ops = [Operation(*drawing.operation()) for _ in range(drawing.rng.randrange(5))]
    return OpCode.MULTI, MultiRequest(ops)


def _multi_read(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    return OpCode.MULTI_READ, MultiRequest(
        [
            Operation(
                drawing.rng.choice((OpCode.GET_DATA, OpCode.GET_CHILDREN)),
                PathWatchRequest(drawing.path(), False),
            )
            for _ in range(drawing.rng.randrange(4))
        ]
    )


def _read(drawing: _Drawing, session: int) -> tuple[int, Record]:
    opcode = drawing.rng.choice(
        (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
    )
    path = drawing.path()
    return opcode, PathWatchRequest(path, drawing.watch(session, path))


def _by_path(drawing: _Drawing, _session: int) -> tuple[int, Record]:
    opcode = drawing.rng.choice(
        (
            *(OpCode.GET_ACL, OpCode.GET_ACL, OpCode.SYNC),
            *(OpCode.GET_EPHEMERALS, OpCode.GET_ALL_CHILDREN_NUMBER),
        )
    )
    if opcode == OpCode.SYNC:
        # ZooKeeper returns surrogates in an encoding of its own.
        return opcode, PathRequest(drawing.rng.choice(_PATHS))
    return opcode, PathRequest(drawing.path())


def _add_watch(drawing: _Drawing, session: int) -> tuple[int, Record]:
    path = drawing.rng.choice(_PATHS)
    wanted = drawing.rng.choice((_PERSISTENT, _RECURSIVE))
    mode = drawing.watch_mode(session, path, _STANDARD if drawing.hides else wanted)
    if mode == _STANDARD:
        return OpCode.EXISTS, PathWatchRequest(path, not drawing.hides)
    if drawing.rng.random() < 0.03:
        return OpCode.ADD_WATCH, AddWatchRequest(path, drawing.rng.choice((-1, 2)))
    return OpCode.ADD_WATCH, AddWatchRequest(path, int(mode == _RECURSIVE))


def _watches(drawing: _Drawing, session: int) -> tuple[int, Record]:
    opcode = drawing.rng.choice((OpCode.CHECK_WATCHES, OpCode.REMOVE_WATCHES))
    path = drawing.rng.choice(_PATHS)
    kind = 3
    if drawing.watches.get((session, path), _STANDARD) == _STANDARD:
        kind = drawing.rng.choice((1, 2, 3))
    if drawing.rng.random() < 0.05:
        kind = drawing.rng.choice((0, 9))
    return opcode, WatchesRequest(path, kind)


def _who_am_i(_drawing: _Drawing, _session: int) -> tuple[int, Record]:
    return OpCode.WHO_AM_I, EmptyRequest()


_WEIGHTS: Final[dict[Callable[[_Drawing, int], tuple[int, Record]], int]] = {
    _create: 30,
    _delete: 7,
    _set_data: 10,
    _set_acl: 3,
    _multi: 10,
    _multi_read: 3,
    _read: 25,
    _by_path: 12,
    _add_watch: 5,
    _watches: 4,
    _who_am_i: 1,
}


def draw(seed: int) -> Program:
    """Return the program of a seed."""
    return Program(seed, _Drawing(seed).draw())
