"""The two ends of a copy: a subtree that is read or written, many znodes at a time.

`Place` says what a copy needs of an end; `ClientPlace` is a subtree as one of our clients sees it.
Paths within it are relative, "" for its own znode.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Protocol

from msgspec import Struct

from raykeeper.client.client import Client
from raykeeper.client.core.compound_operations import map_request
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.results import op_result_of
from raykeeper.client.errors import KeeperError, NoNodeError, ThrottledOpError
from raykeeper.znodes.acl import Acls
from raykeeper.znodes.replies import GetAclsReply, GetDataReply, MultiReadReply, WriteReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    CreateMode,
    GetAcls,
    GetData,
    MultiRead,
    ReadData,
    SetAcls,
    SetData,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import OpValue
from raykeeper.znodes.znode import CONTAINER


class Access(Struct, frozen=True):
    """Everything that is copied of a znode but its value, and its Stat."""

    acls: Acls
    ttl_ms: int
    """As in `ZnodeAttributes`."""
    stat: Stat


class CopiedZnode(Struct, frozen=True):
    """What is copied of a znode, and its Stat. `value` None is null data."""

    value: bytes | None
    acls: Acls
    ttl_ms: int
    stat: Stat


Content = tuple[bytes | None, Stat]


class WriteResult(Protocol):
    """The outcome of a write that is under way."""

    def result(self) -> Stat:
        """Wait for it, and return the Stat of the znode afterwards.

        Raises:
            KeeperError: the write failed.
        """


class ReadablePlace(Protocol):
    """A subtree that is read. A read returns for each znode what was asked for, or the error, or
    None for a missing znode.
    """

    def read_access(self, batch: list[str]) -> list[Access | KeeperError | None]:
        """Read ACLs, kinds and Stats."""

    def read_values(self, batch: list[str]) -> list[Content | KeeperError | None]:
        """Read values with their Stats."""

    def list_children(self, batch: list[str]) -> list[list[str] | KeeperError]:
        """Return the names of the children of each znode, none for one that is missing."""


class Place(ReadablePlace, Protocol):
    """A subtree at one end of a copy. Its requests are done in the order in which they are made."""

    @property
    def path(self) -> str:
        """The path of its own znode, as its users name it."""

    @property
    def lost_errors(self) -> tuple[type[KeeperError], ...]:
        """The errors of a write that leave open whether it was done: the copy looks again."""

    @property
    def tells_kinds(self) -> bool:
        """Whether a reader learns which znodes have a TTL or are containers."""

    def path_of(self, relative: str) -> str:
        """Return the path of a znode, for messages."""

    def create(self, relative: str, znode: CopiedZnode) -> WriteResult:
        """Begin to create a znode."""

    def set_acls(self, relative: str, acls: Acls) -> WriteResult:
        """Begin to replace an ACL."""

    def set_value(self, relative: str, value: bytes | None) -> WriteResult:
        """Begin to replace a value."""

    def refusal_of(self, relative: str, access: Access) -> KeeperError | None:
        """Return why this place would not take a znode, as far as it knows; None if it would."""


class ClientPlace:
    """A subtree of one of our ensembles."""

    lost_errors: tuple[type[KeeperError], ...] = ()
    tells_kinds = True

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path
        self._prefix = "" if path == "/" else path
        session = client._open_session()
        self.own_uuid = session.own_uuid
        """Of the ensemble: no other one has it."""
        requests = session.requests
        self.whole = ((requests.chroot + path).rstrip("/") or "/") if requests.chroot else path
        """The path from the root of the ensemble."""

    def path_of(self, relative: str) -> str:
        """Return the client's path of a znode."""
        return (self._prefix + relative) or "/"

    def contains(self, other: "ClientPlace") -> bool:
        """Return whether the other subtree is this one, or a part of it."""
        if self.own_uuid != other.own_uuid:
            return False
        return self.whole in ("/", other.whole) or other.whole.startswith(f"{self.whole}/")

    def read_access(self, batch: list[str]) -> list[Access | KeeperError | None]:
        """Read ACLs, kinds and Stats."""
        requests = [GetAcls(0, self.path_of(relative)) for relative in batch]
        return _results_of([self._start(map_request(each, _access_of)) for each in requests])

    def read_values(self, batch: list[str]) -> list[Content | KeeperError | None]:
        """Read values with their Stats, those that do not fit into one reply by themselves."""
        paths = [self.path_of(relative) for relative in batch]

        def to_contents(reply: SuccessReply) -> list[Content | KeeperError]:
            assert isinstance(reply, MultiReadReply), reply
            return [
                (result.value, result.stat)
                if isinstance(result, OpValue)
                else op_result_of(result, path)
                for result, path in zip(reply.results, paths, strict=True)
            ]

        request = MultiRead(0, [ReadData(path) for path in paths])
        contents: list[Content | KeeperError | None] = []
        for path, found in zip(
            paths, self._start(map_request(request, to_contents)).result(), strict=True
        ):
            if isinstance(found, ThrottledOpError):  # the others have filled the reply
                alone = map_request(Query(GetData, path), _content_of)
                contents += _results_of([self._start(alone)])
            else:
                contents.append(None if isinstance(found, NoNodeError) else found)
        return contents

    def list_children(self, batch: list[str]) -> list[list[str] | KeeperError]:
        """Return the names of the children of each znode, none for one that is missing."""
        lists = [self.client.get_children_async(self.path_of(relative)) for relative in batch]
        return [[] if each is None else each for each in _results_of(lists)]

    def create(self, relative: str, znode: CopiedZnode) -> Future[Stat]:
        """Begin to create a znode."""
        flags, ttl_ms = kind_of(znode.ttl_ms)
        acls = list(znode.acls)
        return self._write(Create(self.path_of(relative), znode.value, flags, acls, ttl_ms))

    def set_acls(self, relative: str, acls: Acls) -> Future[Stat]:
        """Begin to replace an ACL."""
        return self._write(SetAcls(self.path_of(relative), list(acls), ANY_VERSION))

    def set_value(self, relative: str, value: bytes | None) -> Future[Stat]:
        """Begin to replace a value."""
        return self._write(SetData(self.path_of(relative), value, ANY_VERSION))

    def refusal_of(self, relative: str, access: Access) -> KeeperError | None:
        """Return None: the ensemble itself says what it does not take."""
        return None

    def _write(self, request: Create | SetAcls | SetData) -> Future[Stat]:
        return self._start(map_request(request, _stat_of))

    def _start(self, request: Any) -> Future[Any]:
        return self.client._open_session().start(request)


def kind_of(ttl_ms: int) -> tuple[int, int]:
    """Return the flags and the TTL of a creation, of a znode's `ttl_ms`."""
    if ttl_ms == CONTAINER:
        return CreateMode.CONTAINER, 0
    return (CreateMode.TTL, ttl_ms) if ttl_ms else (0, 0)


def _results_of(replies: Iterable[Future[Any]]) -> list[Any]:
    found: list[Any] = []
    for each in replies:
        try:
            found.append(each.result())
        except NoNodeError:
            found.append(None)
        except KeeperError as error:
            found.append(error)
    return found


def _access_of(reply: SuccessReply) -> Access:
    assert isinstance(reply, GetAclsReply), reply
    return Access(reply.acls, reply.ttl_ms, reply.stat)


def _content_of(reply: SuccessReply) -> Content:
    assert isinstance(reply, GetDataReply), reply
    return reply.value, reply.stat


def _stat_of(reply: SuccessReply) -> Stat:
    assert isinstance(reply, WriteReply), reply
    assert reply.stat is not None, reply
    return reply.stat
