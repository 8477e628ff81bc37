"""A session for the length of one call of a Ray task or of an actor's method.

    @ray.remote
    @with_session("coord")
    def work(client: Client, shard: int) -> None:    # called as work.remote(7)
        with client.lock(f"/shards/{shard}") as held:
            ...

The function gets a client as its parameter `client`, at any position, so a method has it after
`self`. A coroutine function and an async generator get an `AsyncClient`. The session is closed when
the call ends, normally or by an error; a generator's session is closed when the generator is
exhausted, closed or dropped. An actor that is called often should open one session in its
`__init__` instead.

With `restart_on_loss` the function is called again when its session is lost: see client/restart.py.

contextlib: `ContextDecorator`, which cannot pass anything to the function.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.connect import connect
from raykeeper.client.context_decorator import Arguments, Bind, context_decorator
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.restart import call_until_done, call_until_done_async, checked_delay
from raykeeper.client.session_options import VALUE_BYTES_MAX, checked_default_acl
from raykeeper.znodes.acl import Acl

P = ParamSpec("P")
R = TypeVar("R")
Object = TypeVar("Object")
Function = Callable[..., Any]


class SessionDecorator(Protocol):
    """A decorator that removes the client from the signature that callers see.

    Type checkers see that if the client is a function's first parameter, or a method's first after
    `self`. Elsewhere they know only the result.
    """

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
    """Open a session with the ensemble `name` for each call of a function, and pass the client.

    The call also raises the errors of `connect`.

    Args:
        name: The ensemble, or a znode in it as the root; see `connect`.
        session_timeout_s: How long the session outlives the client's silence.
        timeout_s: How long opening the session, and each request, may take.
        parameter: The function's parameter for the client. Callers do not see it.
        restart_on_loss: Call the function again, with a new session and the same arguments, when it
            raises LostError, or ConnectionLossError or OperationTimeoutError because the ensemble
            does not answer. All other errors are raised, and so is the EnsembleNotFoundError of
            the first call.
        restart_delay_max_s: The bound of the pauses between calls, which grow from 0.1 s.
        value_bytes_max: As for `connect`.
        default_acl: As for `connect`.
        read_only: As for `connect`.

    Raises:
        InvalidAclError: the default ACL is malformed.
        BadArgumentsError: raised by the decoration: the function has no such parameter, or it is a
            generator and `restart_on_loss` is set.
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
    """Wrap `function` so that each call gets a client of its own.

    Raises:
        BadArgumentsError: the function has no such parameter.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        opening = functools.partial(AsyncClient.connect, name, **settings)
        make: Callable[[], Any] = functools.partial(_async_session, opening)
    else:
        make = functools.partial(connect, name, **settings)
    return context_decorator(function, make, _client_inserter(parameter, function))


@asynccontextmanager
async def _async_session(
    opening: Callable[[], Awaitable[AsyncClient]],
) -> AsyncIterator[AsyncClient]:
    async with await opening() as client:
        yield client


def _hide_parameter(parameter: str, call: Function, function: Function) -> Function:
    """Give `call` the signature of `function` without the parameter, and no `__wrapped__`.

    Ray checks arguments against the signature; in a class, against that of the wrapped function.
    """
    functools.update_wrapper(call, function)
    signature = inspect.signature(function)
    seen = [each for each in signature.parameters.values() if each.name != parameter]
    call.__signature__ = signature.replace(parameters=seen)  # type: ignore[attr-defined]
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


def _client_inserter(parameter: str, function: Function) -> Bind:
    """Return a function that inserts the client into the arguments of a call.

    Raises:
        BadArgumentsError: the function has no such parameter.
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
        # If parameters before the client come by name, the client must come by name too.
        if by_name or len(args) < index:
            return args, {**named, parameter: client}
        return (*args[:index], client, *args[index:]), named

    return place
