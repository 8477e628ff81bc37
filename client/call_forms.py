"""The two forms of a call, blocking and awaited, and the refusal of the wrong one.

    with client.lock(path): ...                 of a `Client`
    async with client.lock(path): ...           of an `AsyncClient`
    held = await client.lock(path).acquire()

The wrong form must not run: a body without its lock, a branch because a coroutine is true. The
invariant of this file: whatever is done with the wrong form raises a TypeError that names the right
one, before anything was sent.

Blocks of handles and recipes refuse the other form here (`check_form`). A call that was not awaited
is refused as far as Python shows it: when it is tested, iterated, entered, indexed, or asked for an
attribute. Futures of `create`, `get` and `set` are asyncio's own and refuse nothing: the event loop
awaits a subclass more slowly, and these are most of a client's calls.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from raykeeper.client.errors import BadArgumentsError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_COROUTINE_ATTRIBUTES: Final = ("cr_", "__")
"""How the names of attributes begin that debuggers and asyncio ask of coroutines."""


def check_form(thing: object, *, is_awaited: bool, in_async_with: bool) -> None:
    """Check that the block of `thing` has the form of its client.

    Raises:
        TypeError: it has the other form.
    """
    if is_awaited is not in_async_with:
        _refuse_block(thing, is_awaited=is_awaited)


def _refuse_block(thing: object, *, is_awaited: bool) -> NoReturn:
    name = type(thing).__name__
    if is_awaited:
        raise TypeError(f"this {name} is of an AsyncClient: use `async with`")
    raise TypeError(
        f"this {name} is of a Client, which blocks: use `with`, or an AsyncClient in an event loop"
    )


def check_callbacks(client: Any, **callbacks: object) -> None:
    """Check that no callback of a blocking client is a coroutine function, which nobody awaits.

    Raises:
        BadArgumentsError: one is.
    """
    for name, callback in callbacks.items():
        if not client._is_awaited and inspect.iscoroutinefunction(callback):
            detail = "is a coroutine function, which a Client does not await: use an AsyncClient"
            raise BadArgumentsError("", f"{name} {detail}")


class BlockingForm:
    """A handle for `with` blocks, which refuses `async with`."""

    if not TYPE_CHECKING:  # type checkers refuse it because there is no such method

        def __aenter__(self) -> NoReturn:
            _refuse_block(self, is_awaited=False)

        __aexit__ = __aenter__


class AwaitedForm:
    """A handle for `async with` blocks, which refuses `with`."""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            _refuse_block(self, is_awaited=True)

        __exit__ = __enter__


class _NotAwaitedError(TypeError, AttributeError):
    """An attribute was asked of a call that was not awaited; `hasattr` is False."""


class Unready:
    """The outcome of a call, which must be waited for before anything else is done with it."""

    __slots__ = ()

    def _not_ready(self, right_form: str, kind: type[TypeError] = TypeError) -> NoReturn:
        """Raise the error of the wrong form. `right_form`: the right one; {} stands for the result.

        Raises:
            TypeError: always.
        """
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        self._not_ready("if {}")

    def __len__(self) -> NoReturn:
        self._not_ready("len({})")

    def __getitem__(self, index: object) -> NoReturn:
        self._not_ready(f"({{}})[{index!r}]")

    def __contains__(self, item: object) -> NoReturn:
        self._not_ready("... in {}")

    if not TYPE_CHECKING:  # asyncio's futures have another `__iter__` for type checkers

        def __iter__(self) -> NoReturn:
            self._not_ready("for ... in {}")

        def __enter__(self) -> NoReturn:
            self._not_ready("async with {}")

        __aiter__ = __iter__
        __exit__ = __aenter__ = __aexit__ = __enter__


class AwaitedFuture(Unready, asyncio.Future[T]):
    """A future of an `AsyncClient`: for operations whose result is tested or iterated."""

    __slots__ = ()

    def _not_ready(self, right_form: str, kind: type[TypeError] = TypeError) -> NoReturn:
        raise kind(f"the call was not awaited: use `{right_form.format('await ...')}`")


class UnawaitedCall(Unready, Coroutine[Any, Any, T]):
    """A coroutine that has to be awaited, or made a task, before anything else is done with it."""

    __slots__ = ("_coroutine", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        """`name` is that of the method that was called."""
        # For Python's warning that nobody awaited it.
        coroutine.__qualname__ = name  # type: ignore[attr-defined]
        self._coroutine = coroutine
        self._name = name

    def send(self, value: Any) -> Any:
        """See `Coroutine`."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """See `Coroutine`."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """See `Coroutine`."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_COROUTINE_ATTRIBUTES):
            return getattr(self._coroutine, name)
        return self._not_ready(f"({{}}).{name}", _NotAwaitedError)

    def __repr__(self) -> str:
        return f"<{self._name}(), to be awaited>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{self._name}() belongs to this process: pass its result on")

    def _not_ready(self, right_form: str, kind: type[TypeError] = TypeError) -> NoReturn:
        if kind is TypeError:
            self._coroutine.close()  # the error says all; Python need not warn too
        right_form = right_form.format(f"await {self._name}(...)")
        raise kind(f"{self._name}() was not awaited: use `{right_form}`")


def awaited_call(function: F) -> F:
    """Have a coroutine function return an `UnawaitedCall`."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        return UnawaitedCall(function(*args, **named), function.__name__)

    return cast(F, call)
