"""A context around each call of a function: plain, a coroutine, a generator or an async generator.

contextlib: `ContextDecorator`, whose context is over before a coroutine or a generator has begun,
and which can give the function nothing.
"""

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import aclosing
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Bind = Callable[[Any, tuple[Any, ...], dict[str, Any]], Arguments]


def _unchanged(value: object, args: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
    return args, named


def context_decorator(function: F, make: Callable[[], Any], bind: Bind = _unchanged) -> F:
    """Decorate `function` so that a context is entered before each call and left after it.

    The context of a generator lasts until the generator is exhausted, closed or dropped; then the
    function ends before its context does.

    Args:
        function: A coroutine function or an async generator enters the context by `async with`. A
            plain function that returns a coroutine or a generator is refused when it does, because
            that would run outside of the context.
        make: Makes the context manager of a call.
        bind: Makes the arguments of the call, from what entering the context gave and from the
            arguments of the caller.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        call = _async_wrapper(function, make, bind)
    else:
        call = _sync_wrapper(function, make, bind)
    return cast(F, functools.update_wrapper(call, function))


def _sync_wrapper(
    function: Callable[..., Any], make: Callable[[], Any], bind: Bind
) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        with make() as value:
            args, named = bind(value, args, named)
            return _finished(function, function(*args, **named))

    def generate(*args: Any, **named: Any) -> Generator[Any, Any, Any]:
        with make() as value:
            args, named = bind(value, args, named)
            return (yield from function(*args, **named))

    return generate if inspect.isgeneratorfunction(function) else call


def _finished(function: Callable[..., Any], result: Any) -> Any:
    """Return the result of a plain function, unless its work is yet to be done.

    Raises:
        TypeError: it returned a coroutine or a generator, which would run without the context.
    """
    if isinstance(result, Coroutine | AsyncGenerator | Generator):
        if isinstance(result, Coroutine):
            result.close()
        raise TypeError(
            f"{function!r} returned a {type(result).__name__}, which would run after its context: "
            "decorate a function that is declared as such (`async def`, `yield`)"
        )
    return result


def _async_wrapper(
    function: Callable[..., Any], make: Callable[[], Any], bind: Bind
) -> Callable[..., Any]:
    async def call(*args: Any, **named: Any) -> Any:
        async with make() as value:
            args, named = bind(value, args, named)
            return await function(*args, **named)

    async def generate(*args: Any, **named: Any) -> AsyncIterator[Any]:
        async with make() as value:
            args, named = bind(value, args, named)
            async with aclosing(function(*args, **named)) as items:
                async for item in items:
                    yield item

    return generate if inspect.isasyncgenfunction(function) else call
