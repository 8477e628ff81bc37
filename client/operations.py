"""Every operation of a client, described once: signature, documentation, check of the arguments.

An `Operation` is a method that checks its arguments and makes the request. What a call of it
returns depends on the client alone:

    client.get(path)          Client        waits for the reply; the result
    client.get_async(path)    Client        a `concurrent.futures.Future` of the result
    client.get(path)          AsyncClient   an `asyncio.Future` of the result

Type checkers learn this from the overloads of `__get__`. At run time `__init_subclass__` compiles a
plain function for each operation, with its signature, into the class of a client. So a call costs
no more than that of any other method, and `help(Client.get)` and `inspect.signature` show it.

Malformed arguments raise in the call itself, also where the result is a future, and nothing is sent
then; all other errors are the outcome of the request.

The file is long because it is the reference of the operations: their documentation is here alone.
"""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import update_wrapper
from inspect import Parameter
from types import NoneType
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.client import arguments
from raykeeper.client.access import credential_proof
from raykeeper.client.arguments import Consistency, checked_path, query
from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.compound_operations import (
    create_if_missing,
    create_with_parents,
    delete_with_children,
    map_request,
    read_many,
    remove_limits,
    set_limits,
)
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Flow
from raykeeper.client.core.outstanding import NewRequest, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientId, ClientState, WatchedEvent
from raykeeper.client.core.results import (
    Quota,
    complete_config,
    config_of,
    path_and_stat_of,
    result_of,
)
from raykeeper.client.errors import BadArgumentsError, KeeperError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.recipes.recipe import Awaited, Blocking, K
from raykeeper.client.request_builder import CreateOptions, RequestBuilder
from raykeeper.client.session import Listener, Session
from raykeeper.client.unexpected_names import suggest_name
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import Acl, Identity
from raykeeper.znodes.ensemble_config import EnsembleConfig
from raykeeper.znodes.paths import CONFIG_PATH, QUOTA_PATH
from raykeeper.znodes.quotas import QuotaLimits, stats_path
from raykeeper.znodes.requests import (
    ANY_VERSION,
    AddAuth,
    CountDescendants,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    GetQuota,
    ReadData,
    SessionId,
    SetAcls,
    Sync,
    WatchKind,
    WatchMode,
    WhoAmI,
)
from raykeeper.znodes.stat import Stat

P = ParamSpec("P")
T = TypeVar("T")
PathT_co = TypeVar("PathT_co", covariant=True)
PathAndStatT_co = TypeVar("PathAndStatT_co", covariant=True)

WatchCallback = Callable[[WatchedEvent], object]
READS_MAX = 1000
"""Znodes that one `get_many` reads."""


class Requested(Struct, Generic[T], frozen=True, gc=False):
    """A request, or several, whose result has the type T."""

    request: NewRequest | Flow[Any]


class Operation(Generic[P, T]):
    """A method of both clients. See the module."""

    def __init__(self, written: Callable[Concatenate[Any, P], Requested[T]]) -> None:
        """`written` checks the arguments and makes the request."""
        self.written = written
        self.__doc__ = written.__doc__

    @overload
    def __get__(self, client: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, client: "Operations[Blocking]", owner: Any = None) -> Callable[P, T]: ...

    @overload
    def __get__(
        self, client: "Operations[Awaited]", owner: Any = None
    ) -> Callable[P, asyncio.Future[T]]: ...

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return self  # the class of a client has a plain function in its place

    def __call__(self, client: "Operations[Any]", *args: P.args, **named: P.kwargs) -> Any:
        """Call the method on `client`."""
        return getattr(client, self.written.__name__)(*args, **named)


class WithoutWaiting(Generic[P, T]):
    """The method `…_async` of a `Client` for an operation."""

    def __init__(self, operation: Operation[P, T]) -> None:
        self.written = operation.written

    @overload
    def __get__(self, client: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(
        self, client: "Operations[Blocking]", owner: Any = None
    ) -> Callable[P, Future[T]]: ...

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return self

    def __call__(self, client: "Operations[Any]", *args: P.args, **named: P.kwargs) -> Future[T]:
        """Call the method on `client`."""
        future: Future[T] = getattr(client, f"{self.written.__name__}_async")(*args, **named)
        return future


class Creation(Protocol[PathT_co, PathAndStatT_co]):
    """The signature of `create`, whose result depends on `include_data`."""

    @overload
    def __call__(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[False] = False,
        **options: Unpack[CreateOptions],
    ) -> PathT_co: ...

    @overload
    def __call__(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[True],
        **options: Unpack[CreateOptions],
    ) -> PathAndStatT_co: ...


class CreateOperation(Operation[..., Any]):
    """`create` of both clients."""

    @overload
    def __get__(self, client: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(
        self, client: "Operations[Blocking]", owner: Any = None
    ) -> Creation[str, tuple[str, Stat]]: ...

    @overload
    def __get__(
        self, client: "Operations[Awaited]", owner: Any = None
    ) -> Creation[asyncio.Future[str], asyncio.Future[tuple[str, Stat]]]: ...

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return self


class CreateWithoutWaiting(WithoutWaiting[..., Any]):
    """`create_async` of a `Client`."""

    @overload
    def __get__(self, client: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(
        self, client: "Operations[Blocking]", owner: Any = None
    ) -> Creation[Future[str], Future[tuple[str, Stat]]]: ...

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return self


class Operations(ABC, Generic[K]):
    """The operations of a client, and what it tells of its session.

    Every operation raises BadArgumentsError if an argument is not acceptable, or InvalidAclError
    for a malformed ACL, before anything is sent. Every request can fail with SessionExpiredError,
    SessionMovedError, ClosedError, OperationTimeoutError and, on a server without a leader,
    NotReadOnlyError: "as for every call" means these. A docstring names the errors besides.
    """

    def __init_subclass__(cls, *, future: Any = None, **named: Any) -> None:
        """Give the class of a client a plain function for each operation. See the module.

        `future` is the generic class of the futures that the operations return, if they do.
        """
        super().__init_subclass__(**named)
        if Operations in cls.__bases__:
            for name, each in (*vars(Operations).items(), *list(vars(cls).items())):
                if isinstance(each, Operation | WithoutWaiting):
                    setattr(cls, name, _function_of(each, name, cls, future))

    @abstractmethod
    def _open_session(self) -> Session:
        """Return the session of the client.

        Its `start` submits a request and returns a future; that of a client whose operations return
        results also has `call`, which waits.
        """

    @property
    def session_id(self) -> SessionId:
        """The id of the session, unique for ever; 0 until a `read_only` client has a session."""
        return self._open_session().session_id

    @property
    def client_id(self) -> ClientId:
        """Id and password, with which another `connect` takes the session over. Keep it secret."""
        return self._open_session().client_id

    @property
    def ensemble_uuid(self) -> str:
        """The permanent id of the ensemble; it salts the keys of the scheme `scrypt`.

        An ensemble that was restored from a backup has that of the one that was backed up.
        """
        return self._open_session().ensemble_uuid

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the event loop was kept from running."""
        return self._open_session().state

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True.

        Raises:
            BadArgumentsError: it is a coroutine function, and the client blocks.
        """
        check_callbacks(self, listener=listener)
        self._open_session().add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling `listener`. An unknown listener is ignored."""
        self._open_session().remove_listener(listener)

    @CreateOperation
    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: bool = False,
        **options: Unpack[CreateOptions],
    ) -> Requested[str | tuple[str, Stat]]:
        """Create a znode and return its path, which the server completes for a sequential znode.

        Args:
            path: The path of the znode; for a sequential znode, the prefix of its path.
            makepath: Create missing parents too, with the same ACL. This is not atomic.
            include_data: Return path and Stat.
            options: `ephemeral`: delete the znode when this session ends. `sequence`: append a
                number that grows with every child of the parent. `container`: delete the znode
                when it has had no child for `container_grace_s` after its last one. `ttl_s`: delete
                the znode when it has had no children and no new value for so many seconds. `acl`:
                the access control list (client/access.py); without one the znode gets the default
                ACL of the client.

        Raises:
            InvalidAclError: the ACL is malformed (nothing was sent), or it has an entry for `auth`
                and the session has no identity.
            NodeExistsError: the znode exists.
            NoNodeError: the parent does not exist.
            NoChildrenForEphemeralsError: the parent is ephemeral.
            NoAuthError: the parent does not grant CREATE.
            QuotaExceededError: the znode would exceed a hard quota of a subtree around it.
        """
        requests = self._open_session().requests
        try:
            creation = requests.creation(path, value, **options)
        except TypeError as error:
            suggest_name(error, "create", RequestBuilder.creation, Operations.create.written)
            raise
        shape = path_and_stat_of if include_data else result_of
        if makepath:
            return Requested(create_with_parents(creation, shape))
        return Requested(map_request(creation, shape) if include_data else creation)

    @Operation
    def ensure_path(self, path: str, acl: Iterable[Acl] | None = None) -> Requested[None]:
        """Create a persistent znode and its missing parents, unless the znode exists.

        Args:
            acl: The ACL of the znodes that are created.

        Raises:
            KeeperError: as for `create`, except NodeExistsError.
        """
        return Requested(create_if_missing(self._open_session().requests.creation(path, acl=acl)))

    @Operation
    def get(
        self,
        path: str,
        watch: WatchCallback | None = None,
        *,
        consistency: Consistency = "session",
    ) -> Requested[tuple[bytes, Stat]]:
        """Read value and Stat of a znode.

        Args:
            watch: Called once, when the value changes or the znode is deleted.
            consistency: "session": what the server has, never older than what this client has
                seen. "linearizable": everything that was committed before the call, at the cost of
                a round trip to the leader.

        Raises:
            NoNodeError: the znode does not exist; no watch is set.
            NoAuthError: the znode does not grant READ.
        """
        return Requested(query(GetData, path, watch, consistency))

    @Operation
    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Requested[Stat]:
        """Replace the value of a znode that is at `version`, or at any version (-1).

        Raises:
            NoNodeError: the znode does not exist.
            NoAuthError: the znode does not grant WRITE.
            BadVersionError: the znode is at another version.
            QuotaExceededError: the value would exceed a hard quota of a subtree around the znode.
        """
        return Requested(self._open_session().requests.setting(path, value, version))

    @Operation
    def delete(
        self, path: str, version: int = ANY_VERSION, recursive: bool = False
    ) -> Requested[None]:
        """Delete a znode that is at `version`, or at any version (-1).

        Args:
            recursive: Delete everything below the znode too, also what other clients create
                meanwhile. This is not atomic: each znode has a transaction of its own. A missing
                znode is no error then.

        Raises:
            NoNodeError: the znode does not exist.
            NoAuthError: the parent does not grant DELETE.
            BadVersionError: the znode is at another version.
            NotEmptyError: the znode has children.
        """
        deletion = arguments.deletion(path, version)
        return Requested(delete_with_children(deletion) if recursive else deletion)

    @Operation
    def exists(
        self,
        path: str,
        watch: WatchCallback | None = None,
        *,
        consistency: Consistency = "session",
    ) -> Requested[Stat | None]:
        """Read the Stat of a znode, None if it does not exist.

        Args:
            path: The path of the znode, which may be missing.
            watch: Called once, when the znode is created, changed or deleted.
            consistency: As for `get`.

        Raises:
            NoAuthError: the znode does not grant READ.
        """
        return Requested(query(Exists, path, watch, consistency))

    @Operation
    def get_children(
        self,
        path: str,
        watch: WatchCallback | None = None,
        *,
        consistency: Consistency = "session",
    ) -> Requested[list[str]]:
        """Read the names of the children of a znode, in no order.

        Args:
            watch: Called once, when a child is created or deleted, or the znode is deleted.
            consistency: As for `get`.

        Raises:
            NoNodeError: the znode does not exist; no watch is set.
            NoAuthError: the znode does not grant READ.
        """
        return Requested(query(GetChildren, path, watch, consistency))

    @Operation
    def get_many(self, paths: Iterable[str]) -> Requested[list[tuple[bytes, Stat] | KeeperError]]:
        """Read several znodes at one moment: value and Stat of each, or its error.

        Raises:
            BadArgumentsError: a path is not acceptable, or there are more than 1000; nothing was
                sent.
        """
        if isinstance(paths, str) or not isinstance(paths, Iterable):
            raise BadArgumentsError("", f"paths must be a list of paths, not {paths!r}")
        reads = [ReadData(checked_path(path)) for path in paths]
        if len(reads) > READS_MAX:
            raise BadArgumentsError("", f"{len(reads)} paths, at most {READS_MAX} are allowed")
        return Requested(read_many(reads))

    @Operation
    def sync(self, path: str = "/") -> Requested[None]:
        """Wait until the server has applied all that was committed when it got this request."""
        return Requested(query(Sync, path))

    @Operation
    def add_watch(
        self,
        path: str,
        watch: WatchCallback,
        *,
        recursive: bool = False,
        with_values: bool = False,
    ) -> Requested[None]:
        """Have `watch` called with every later event of a znode, which may be missing.

        A lost connection loses no event: all events of that time follow, in order. If no server
        knows them any more, the watcher receives an event of type RESYNC and must read again.

        Args:
            watch: Called until it is removed. The same watcher on the same path counts once.
            recursive: Watch all znodes below too. No event of type CHILD comes then, because each
                child has events of its own.
            with_values: Tell the value and Stat before and after, see WatchedEvent.

        Raises:
            BadArgumentsError: an argument is not acceptable, or there are too many watches.
        """
        mode = WatchMode.RECURSIVE if recursive else WatchMode.PERSISTENT
        checked_path(path)
        check_callbacks(self, watch=watch)
        watcher = arguments.checked_watch(path, watch)
        return Requested(WatchAddition(path, mode, bool(with_values), watcher))

    @Operation
    def remove_watches(
        self, path: str, watch: WatchCallback | None = None, kind: WatchKind = WatchKind.ANY
    ) -> Requested[None]:
        """Remove the watches of a kind from a path: those of `watch`, or of all watchers (None).

        Each removed watcher receives a last event of one of the types …_WATCH_REMOVED.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            NoWatcherError: there is no such watch.
        """
        checked_path(path)
        if watch is not None:
            arguments.checked_watch(path, watch)
        if not isinstance(kind, WatchKind):
            raise BadArgumentsError(path, f"kind must be a WatchKind, not {kind!r}")
        return Requested(WatchRemoval(path, kind, watch))

    @Operation
    def get_acls(self, path: str) -> Requested[tuple[list[Acl], Stat]]:
        """Read ACL and Stat of a znode. Hashes are masked unless the session has ADMIN.

        Raises:
            NoNodeError: the znode does not exist.
            NoAuthError: the znode grants neither READ nor ADMIN.
        """
        return Requested(GetAcls(0, checked_path(path)))

    @Operation
    def set_acls(
        self, path: str, acls: Iterable[Acl], version: int = ANY_VERSION
    ) -> Requested[Stat]:
        """Replace the ACL of a znode whose `Stat.aversion` is `version`, or any (-1).

        Raises:
            InvalidAclError: the ACL is malformed (nothing was sent), or it has an entry for `auth`
                and the session has no identity.
            NoNodeError: the znode does not exist.
            NoAuthError: the znode does not grant ADMIN.
            BadVersionError: the ACL is at another version.
        """
        checked_path(path)
        entries = list(arguments.checked_acls(path, acls))
        return Requested(SetAcls(path, entries, arguments.checked_version(path, version)))

    @Operation
    def add_auth(self, scheme: str, credential: str | bytes) -> Requested[None]:
        """Prove an identity, which the session then has until its end, on every server.

        A failure concerns this call alone: the session goes on with the identities it has.

        Args:
            scheme: "scrypt" (recommended; it computes for about 50 ms, in which an event loop
                stands still) or "digest". See docs/SECURITY.md.
            credential: "user:password".

        Raises:
            BadArgumentsError: scheme or credential is not text; nothing was sent.
            AuthFailedError: the scheme is unknown or the credential has another form (nothing was
                sent), or the session has too many identities.
        """
        if not arguments.is_text(scheme):
            raise BadArgumentsError("", f"a scheme is text, not {scheme!r}")
        proof = credential_proof(self.ensemble_uuid, scheme, credential)
        return Requested(AddAuth(scheme, proof))

    @Operation
    def who_am_i(self) -> Requested[list[Identity]]:
        """Return the identities of the session."""
        return Requested(WhoAmI(0))

    @Operation
    def get_ephemerals(self, prefix: str = "/") -> Requested[list[str]]:
        """Return the paths of this session's ephemeral znodes that begin with `prefix`.

        Raises:
            BadArgumentsError: the prefix is not acceptable; nothing was sent.
        """
        if not arguments.is_text(prefix) or prefix[:1] != "/":
            raise BadArgumentsError("", f'a prefix is text that starts with "/", not {prefix!r}')
        return Requested(GetEphemerals(0, prefix))

    @Operation
    def get_all_children_number(self, path: str) -> Requested[int]:
        """Return the number of znodes below this one, at any depth.

        Raises:
            NoNodeError: the znode does not exist.
            NoAuthError: the znode does not grant READ.
        """
        return Requested(CountDescendants(0, checked_path(path)))

    @Operation
    def set_quota(self, path: str, limits: QuotaLimits) -> Requested[None]:
        """Set the limits of the subtree of a znode, which may be missing, in place of its limits.

        The servers refuse a write that would exceed a hard limit, and log one that exceeds a soft
        limit.

        Raises:
            BadArgumentsError: an argument is not acceptable, or the client has a chroot.
            NoAuthError: /zookeeper/quota does not grant it.
        """
        return Requested(set_limits(*self._open_session().requests.quota_writes(path, limits)))

    @Operation
    def get_quota(self, path: str) -> Requested[Quota]:
        """Return the limits of the subtree of a znode, and its usage.

        Raises:
            NoNodeError: the subtree has no quota.
            NoAuthError: the znode that keeps the quota does not grant READ.
        """
        return Requested(GetQuota(0, checked_path(path)))

    @Operation
    def remove_quota(self, path: str) -> Requested[None]:
        """Remove the limits of the subtree of a znode.

        Raises:
            BadArgumentsError: the path is not acceptable, or the client has a chroot.
            NoNodeError: the subtree has no quota.
            NoAuthError: /zookeeper/quota does not grant it.
        """
        kept = self._open_session().requests.quota_path(path)
        return Requested(remove_limits(kept, stats_path(path), QUOTA_PATH))

    @Operation
    def get_config(
        self, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> Requested[EnsembleConfig]:
        """Read the member list of the ensemble: /zookeeper/config, whatever the chroot is.

        Args:
            watch: Called once, when the list changes, or the address of a server in it.
            consistency: As for `get`.

        Raises:
            NoAuthError: the znode does not grant READ.
        """
        request = query(GetData, CONFIG_PATH, watch, consistency)
        session = self._open_session()

        def complete(reply: SuccessReply) -> EnsembleConfig:
            return complete_config(config_of(reply), session.core.members)

        return Requested(map_request(replace(request, ignores_chroot=True), complete))

    @Operation
    def reconfig(
        self,
        joining: int | None = None,
        leaving: int | None = None,
        *,
        as_observer: bool = False,
        version: int = ANY_VERSION,
    ) -> Requested[EnsembleConfig]:
        """Change the member list by one step, and return the new list.

        This changes the list alone. The server that joins must run already, and one that has left
        ends by itself. See docs/MEMBERS.md.

        Args:
            joining: The id of a server: with `as_observer` it is added as an observer, or becomes
                one if it is a voter; else an observer becomes a voter.
            leaving: The id of a member that leaves the list. With both, the one that joins takes
                the place of the other.
            as_observer: Whether `joining` is an observer afterwards.
            version: That of the list on which the caller has decided, or -1 for any.

        Raises:
            BadArgumentsError: the ids make no sense, or the leader would leave: transfer its lead
                first.
            BadVersionError: the list has another version.
            NewConfigNoQuorumError: the server that is to get a vote is not ready, or too few
                voters of the new list follow the leader.
            ReconfigInProgressError: another change is open.
            NoAuthError: /zookeeper/config does not grant ADMIN.
            UnimplementedError: some server is of a version that knows no changes.
        """
        step = arguments.member_step(joining, leaving, as_observer, version)
        return Requested(map_request(step, config_of))

    def _is_lost(self) -> bool:
        """Return whether the session is over, or may be over by now; see `FlowRunner`."""
        return self._open_session().is_lost()

    def _identity(self) -> bytes:
        """Return the line that names this process; see `FlowRunner`."""
        return self._open_session().identity

    def _now(self) -> Millis:
        """Return the client's time, monotonic; see `FlowRunner`."""
        return self._open_session().now()


_BODY_THAT_STARTS = (
    "return (self._session or self._open_session()).{start}(written({arguments}).request)"
)
_BODY_THAT_WAITS = (
    "refuse_running_loop({name!r}); return self._open_session().call(written({arguments}).request)"
)
_HOT = {"create", "get", "set"}
"""Operations of an `AsyncClient` that return the fastest futures; see client/call_forms.py."""
_ARGUMENT: dict[Any, str] = {
    Parameter.POSITIONAL_OR_KEYWORD: "{0}",
    Parameter.KEYWORD_ONLY: "{0}={0}",
    Parameter.VAR_KEYWORD: "**{0}",
}


def _function_of(
    method: Operation[..., Any] | WithoutWaiting[..., Any], name: str, owner: type, future: Any
) -> Callable[..., Any]:
    """Return the method `name` of the client class `owner` as a plain function.

    It is compiled, because to pass `*args` and `**named` on would slow every call down.
    """
    written = method.written
    signature = inspect.signature(written)
    (result,) = get_args(signature.return_annotation)
    if isinstance(method, WithoutWaiting):
        future = Future
    bare = [
        each.replace(default=Parameter.empty, annotation=Parameter.empty)
        for each in signature.parameters.values()
    ]
    body = _BODY_THAT_WAITS if future is None else _BODY_THAT_STARTS
    arguments = ", ".join(_ARGUMENT[each.kind].format(each.name) for each in bare)
    start = "start_tested" if future is asyncio.Future and name not in _HOT else "start"
    body = body.format(name=name, start=start, arguments=arguments)
    names: dict[str, Any] = {"written": written, "refuse_running_loop": refuse_running_loop}
    exec(f"def {name}{inspect.Signature(bare)}: {body}", names)
    function: Any = update_wrapper(names[name], written)
    function.__defaults__, function.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
    if isinstance(method, WithoutWaiting):
        function.__doc__ = f"`{written.__name__}` without waiting."
    if future is not None:
        result = future[result]
    elif result is NoneType:
        result = None
    function.__signature__ = signature.replace(return_annotation=result)
    function.__name__, function.__qualname__ = name, f"{owner.__qualname__}.{name}"
    return cast(Callable[..., Any], function)
