"""A block around each call of a function: plain, a coroutine, a generator or an async generator.

contextlib: `ContextDecorator`, whose block is over before a coroutine or a generator has begun.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing
from typing import Any, Protocol, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class AnyContextManager(AbstractContextManager[Any], AbstractAsyncContextManager[Any], Protocol):
    """What can be entered in both ways."""


def context_decorator(block: AnyContextManager, function: F) -> F:
    """Each call of `function` is a block; a generator's lasts until it ends."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        call = _async_wrapper(block, function)
    else:
        call = _sync_wrapper(block, function)
    return cast(F, functools.update_wrapper(call, function))


def _sync_wrapper(block: AnyContextManager, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        with block:
            return function(*args, **named)

    def generate(*args: Any, **named: Any) -> Generator[Any, Any, Any]:
        with block:
            return (yield from function(*args, **named))

    return generate if inspect.isgeneratorfunction(function) else call


def _async_wrapper(block: AnyContextManager, function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **named: Any) -> Any:
        async with block:
            return await function(*args, **named)

    async def generate(*args: Any, **named: Any) -> AsyncIterator[Any]:
        # Dropped half-way, the function ends before its block does.
        async with block, aclosing(function(*args, **named)) as items:
            async for item in items:
                yield item

    return generate if inspect.isasyncgenfunction(function) else call
