"""A session for the length of one call: of a Ray task, or of an actor's method.

    @ray.remote
    @with_session("coord")
    def work(client: Client, shard: int) -> None:    # called as work.remote(7)
        with client.lock(f"/shards/{shard}") as held:
            ...

The function gets a client as its parameter `client`, wherever that stands, so a method has it
behind `self`. A coroutine function and an async generator get an `AsyncClient`. The session is
closed when the call ends, normally or by an error; that of a generator when it is exhausted, closed
or dropped. An actor that is called often is better off with one session, opened in its `__init__`.

With `restart_on_loss` the function is a loop that survives a lost session: see client/restart.py.

contextlib: `ContextDecorator`, which can give the function nothing.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import aclosing
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.connect import connect
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.restart import call_until_done, call_until_done_async, checked_delay
from raykeeper.client.session_options import VALUE_BYTES_MAX, checked_default_acl
from raykeeper.znodes.acl import Acl

P = ParamSpec("P")
R = TypeVar("R")
Object = TypeVar("Object")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Function = Callable[..., Any]


class SessionDecorator(Protocol):
    """Takes the client out of what callers see: of a function's first parameter, or of a method's
    behind `self`. Where it stands elsewhere, type checkers know the result alone."""

    @overload
    def __call__(self, function: Callable[Concatenate[Client, P], R]) -> Callable[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[AsyncClient, P], R]) -> Callable[P, R]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Object, Client, P], R]
    ) -> Callable[Concatenate[Object, P], R]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Object, AsyncClient, P], R]
    ) -> Callable[Concatenate[Object, P], R]: ...

    @overload
    def __call__(self, function: Callable[..., R]) -> Callable[..., R]: ...


def with_session(
    name: str,
    session_timeout_s: float = 10.0,
    timeout_s: float = 30.0,
    *,
    parameter: str = "client",
    restart_on_loss: bool = False,
    restart_delay_max_s: float = 5.0,
    value_bytes_max: int = VALUE_BYTES_MAX,
    default_acl: Iterable[Acl] | None = None,
    read_only: bool = False,
) -> SessionDecorator:
    """Open a session with the ensemble `name` for each call of a function, which gets the client.

    The call raises what `connect` raises, if that fails.

    Args:
        name: Of the ensemble, or the path of a znode in it; see `connect`.
        session_timeout_s: How long the session outlives silence.
        timeout_s: How long the opening, and each request, may take.
        parameter: That of the function which is the client's. Callers do not see it.
        restart_on_loss: Call the function again, with a new session and the same arguments, when it
            raises LostError, or the ensemble does not answer: ConnectionLossError,
            OperationTimeoutError. Whatever else it raises is raised, and so is the
            EnsembleNotFoundError of the first call.
        restart_delay_max_s: Of the pauses between calls, which grow from 0.1 s to this.
        value_bytes_max: As for `connect`, and so are the last two.
        default_acl: Of the znodes that are created without one.
        read_only: A server without a leader will do.

    Raises:
        InvalidAclError: the default ACL is malformed.
        BadArgumentsError: when it decorates: the function has no such parameter, or is a generator
            that is to be called again.
    """
    delay_max_s = checked_delay(restart_delay_max_s)
    settings: dict[str, Any] = {
        "session_timeout_s": session_timeout_s,
        "timeout_s": timeout_s,
        "value_bytes_max": value_bytes_max,
        "default_acl": checked_default_acl(default_acl),
        "read_only": read_only,
    }

    def decorate(function: Function) -> Function:
        call = _with_client(function, parameter, name, settings)
        if restart_on_loss:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise BadArgumentsError(
                    "", f"{function!r} is a generator, which is not called again"
                )
            again = (
                call_until_done_async if inspect.iscoroutinefunction(function) else call_until_done
            )
            call = again(call, delay_max_s)
        return _hide_parameter(parameter, call, function)

    return cast(SessionDecorator, decorate)


def _with_client(
    function: Function, parameter: str, name: str, settings: dict[str, Any]
) -> Function:
    """`function`, called with a client of its own.

    Raises:
        BadArgumentsError: the function does not take one.
    """
    place = _client_inserter(parameter, function)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        call = _async_wrapper(function, place, lambda: AsyncClient.connect(name, **settings))
    else:
        call = _sync_wrapper(function, place, lambda: connect(name, **settings))
    return functools.update_wrapper(call, function)


def _hide_parameter(parameter: str, call: Function, function: Function) -> Function:
    """`call` as what callers see of `function`: Ray checks arguments against its signature, in a
    class against that of what is wrapped, if it is known."""
    functools.update_wrapper(call, function)
    signature = inspect.signature(function)
    seen = [each for each in signature.parameters.values() if each.name != parameter]
    call.__signature__ = signature.replace(parameters=seen)  # type: ignore[attr-defined]
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


def _client_inserter(parameter: str, function: Function) -> Callable[..., Arguments]:
    """What puts the client among the other arguments.

    Raises:
        BadArgumentsError: the function does not take it.
    """
    parameters = list(inspect.signature(function).parameters.values())
    index = next((i for i, each in enumerate(parameters) if each.name == parameter), None)
    if index is None or parameters[index].kind in (
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise BadArgumentsError("", f"{function!r} has no parameter {parameter!r} for a client")
    by_name = parameters[index].kind is inspect.Parameter.KEYWORD_ONLY

    def place(client: object, args: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
        # Where those before it come by name, so must it.
        if by_name or len(args) < index:
            return args, {**named, parameter: client}
        return (*args[:index], client, *args[index:]), named

    return place


def _sync_wrapper(
    function: Function, place: Callable[..., Arguments], open_one: Callable[[], Client]
) -> Function:
    def call(*args: Any, **named: Any) -> Any:
        with open_one() as client:
            args, named = place(client, args, named)
            return function(*args, **named)

    def generate(*args: Any, **named: Any) -> Generator[Any, Any, Any]:
        with open_one() as client:
            args, named = place(client, args, named)
            return (yield from function(*args, **named))

    return generate if inspect.isgeneratorfunction(function) else call


def _async_wrapper(
    function: Function, place: Callable[..., Arguments], open_one: Function
) -> Function:
    async def call(*args: Any, **named: Any) -> Any:
        async with await open_one() as client:
            args, named = place(client, args, named)
            return await function(*args, **named)

    async def generate(*args: Any, **named: Any) -> AsyncIterator[Any]:
        async with await open_one() as client:
            args, named = place(client, args, named)
            # Dropped half-way, it ends before its client does.
            async with aclosing(function(*args, **named)) as items:
                async for item in items:
                    yield item

    return generate if inspect.isasyncgenfunction(function) else call
