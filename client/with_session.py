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
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing
from typing import Any, TypeVar, cast

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.connect import connect
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.restart import checked_delay, restarted, restarted_async

R = TypeVar("R")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Function = Callable[..., Any]


def with_session(
    name: str,
    session_timeout_s: float = 10.0,
    timeout_s: float = 30.0,
    *,
    parameter: str = "client",
    restart_on_loss: bool = False,
    restart_delay_max_s: float = 5.0,
    **options: Any,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
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
        **options: The others of `connect`.

    Raises:
        BadArgumentsError: when it decorates: the function has no such parameter, or is a generator
            that is to be called again.
    """
    delay_max_s = checked_delay(restart_delay_max_s)
    settings = {"session_timeout_s": session_timeout_s, "timeout_s": timeout_s, **options}

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        place = _place_of(parameter, function)
        is_async = inspect.iscoroutinefunction(function)
        if restart_on_loss and (
            inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        ):
            raise BadArgumentsError("", f"{function!r} is a generator, which is not called again")
        if is_async or inspect.isasyncgenfunction(function):
            call = _awaited(function, place, lambda: AsyncClient.connect(name, **settings))
        else:
            call = _blocking(function, place, lambda: connect(name, **settings))
        functools.update_wrapper(call, function)
        if restart_on_loss:
            again = restarted_async if is_async else restarted
            call = functools.update_wrapper(again(call, delay_max_s), function)
        # Ray checks arguments against this, in a class against what is wrapped if that is known.
        signature = inspect.signature(function)
        seen = [each for each in signature.parameters.values() if each.name != parameter]
        call.__signature__ = signature.replace(parameters=seen)  # type: ignore[attr-defined]
        del call.__wrapped__  # type: ignore[attr-defined]
        return cast(Callable[..., R], call)

    return decorate


def _place_of(parameter: str, function: Function) -> Callable[..., Arguments]:
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


def _blocking(
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


def _awaited(function: Function, place: Callable[..., Arguments], open_one: Function) -> Function:
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
