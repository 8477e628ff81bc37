"""The base of all recipes: an object of one client, whose operations are flows.

An `operation` is written once, as a flow (client/core/flows.py). Called on a recipe of a `Client`
it blocks and returns the result; of an `AsyncClient` it is to be awaited; another flow takes the
flow itself, `Lock.acquire.flow(lock)`. So there is one class for each recipe, and the type checker
knows from `Recipe[Blocking]` or `Recipe[Awaited]` which of the two it is. At run time the client
knows, and `with` and `async with` refuse the other form (client/call_forms.py).
"""

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)

from raykeeper.client.call_forms import check_form
from raykeeper.client.core.flows import Cancelled, Flow
from raykeeper.client.errors import RayKeeperError
from raykeeper.client.recipes.wait_times import wait_times
from raykeeper.client.session_objects import SessionObject
from raykeeper.client.unexpected_names import suggest_name
from raykeeper.zab.ids import Millis

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Blocking:
    """Stands for a recipe of a `Client`."""


class Awaited:
    """Stands for a recipe of an `AsyncClient`."""


K = TypeVar("K", Blocking, Awaited)


class FlowRunner(Protocol):
    """A client, as its recipes need it."""

    _is_awaited: bool
    """Whether the operations of its recipes are to be awaited."""

    def _run_flow(self, flow: Flow[Any], name: str) -> Any:
        """Run it; its result for a blocking client, an awaitable of it for one to await."""

    def _is_lost(self) -> bool:
        """Whether the session is over, or may be by now. Always on time."""

    def _identity(self) -> bytes:
        """Return the line that names this process; see client/identity.py."""

    def _now(self) -> Millis:
        """The client's time, monotonic: that of the step `Now`."""


class Recipe(SessionObject, Generic[K]):
    """An object that works through one client.

    An operation raises BadArgumentsError if an argument is not acceptable. If one of its requests
    fails, it raises the KeeperError of that request, as a call of the client does: see
    `Operations`. `timeout_s` is how long it waits for others, in seconds: 0 for now or not at all,
    None for ever; WaitTimeoutError says that it waited in vain. A docstring names these errors only
    where it says more about them.
    """

    def __init__(self, client: FlowRunner) -> None:
        """Use the method of the client that is named like the recipe."""
        self._client = client


class PortableRecipe(Recipe[K]):
    """A recipe that a process can pass to another one, which makes the same one anew.

    What it knows or holds here is not passed on: it is pickled as the arguments it was made with,
    with the client, which opens a session of its own there.
    """

    _made_of: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **named: Any) -> Self:
        recipe = super().__new__(cls)
        recipe._made_of = (args, named)
        return recipe

    def _repr_parts(self) -> tuple[str, ...]:
        return (self.path,)  # type: ignore[attr-defined]  # of a recipe that works at one path

    def _stays(self) -> str:
        """Return why it cannot be passed on now; "" if it can."""
        return ""

    def __reduce__(self) -> Any:
        if self._client._is_awaited:
            super().__reduce__()  # an AsyncClient belongs to one event loop
        if reason := self._stays():
            raise TypeError(f"{reason}: make another {type(self).__name__} in the other process")
        return _make_anew, (type(self), *self._made_of)


def _make_anew(
    kind: type[PortableRecipe[Any]], args: tuple[Any, ...], named: dict[str, Any]
) -> PortableRecipe[Any]:
    return kind(*args, **named)


H = TypeVar("H")


class BlockRecipe(Recipe[K], Generic[K, H]):
    """A recipe for the length of a `with` block, of an `async with` block if it is awaited."""

    def _begin_block(self) -> Flow[H] | None:
        """Return what the beginning of a block runs; None for nothing: the block has the recipe."""
        return None

    def _block_begun(self, result: H) -> None:
        """Note in the caller what the beginning of a block gave."""

    def _end_block(self, kind: type[BaseException] | None) -> Flow[None]:
        """Return what the end of a block runs; `kind` is that of the error that ends the block."""
        raise NotImplementedError

    def __enter__(self: "BlockRecipe[Blocking, H]") -> H:
        check_form(self, is_awaited=self._client._is_awaited, in_async_with=False)
        flow = self._begin_block()
        if flow is None:
            return self  # type: ignore[return-value]  # then H is Self
        result: H = self._client._run_flow(flow, type(self).__name__)
        self._block_begun(result)
        return result

    def __exit__(
        self: "BlockRecipe[Blocking, H]", kind: type[BaseException] | None, *_: object
    ) -> None:
        self._client._run_flow(self._end_block(kind), "the end of the block")

    async def __aenter__(self: "BlockRecipe[Awaited, H]") -> H:
        check_form(self, is_awaited=self._client._is_awaited, in_async_with=True)
        flow = self._begin_block()
        if flow is None:
            return self  # type: ignore[return-value]  # then H is Self
        result: H = await self._client._run_flow(flow, type(self).__name__)
        self._block_begun(result)
        return result

    async def __aexit__(
        self: "BlockRecipe[Awaited, H]", kind: type[BaseException] | None, *_: object
    ) -> None:
        await self._client._run_flow(self._end_block(kind), "the end of the block")


def timed(recipe: "Recipe[Any]", flow: Flow[T], operation: str) -> Flow[T]:
    """Run `flow`, and count how long it took if the recipe works at one path.

    Of an operation that waits for others: one with a `timeout_s`, or the begin of a `with` block.
    """
    path = getattr(recipe, "path", None)
    if not isinstance(path, str):
        return (yield from flow)
    name, began = type(recipe).__name__, recipe._client._now()
    try:
        result = yield from flow
    except (Cancelled, RayKeeperError):
        wait_times.add(name, operation, path, recipe._client._now() - began)
        raise
    wait_times.add(name, operation, path, recipe._client._now() - began)
    return result


class ClosableRecipe(BlockRecipe[K, Any]):
    """A recipe that is closed by its `close`, or by the end of a `with` block."""

    def _close(self) -> Flow[None]:
        """`close` as a part of another flow."""
        yield from self._release()

    def _release(self) -> Flow[None]:
        """Close it without waiting: also on behalf of a caller that has given up."""
        raise NotImplementedError

    def _end_block(self, kind: type[BaseException] | None) -> Flow[None]:
        """See `BlockRecipe`."""
        return self._close()

    if TYPE_CHECKING:  # a block has the recipe itself

        def __enter__(self) -> Self: ...

        async def __aenter__(self) -> Self: ...


class operation(Generic[P, T]):  # noqa: N801 (a decorator, like property)
    """Makes a method of a recipe, which returns a flow, one that runs it for its client."""

    def __init__(self, function: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        """`function` is the method as it stands in the recipe."""
        self._function = function
        code = function.__code__
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self._waits = "timeout_s" in arguments
        update_wrapper(self, function)  # type: ignore[arg-type]

    @property
    def flow(self) -> Callable[Concatenate[Any, P], Flow[T]]:
        """The method as it stands in the recipe: its flow may be a part of another flow."""
        return self._function

    @overload
    def __get__(self, recipe: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, recipe: Recipe[Blocking], owner: Any = None) -> Callable[P, T]: ...

    @overload
    def __get__(self, recipe: Recipe[Awaited], owner: Any = None) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, recipe: Any, owner: Any = None) -> Any:
        if recipe is None:
            return self
        function, client = self._function, recipe._client
        name, waits = function.__name__, self._waits

        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                flow = function(recipe, *args, **kwargs)
            except TypeError as error:
                suggest_name(error, name, function)
                raise
            return client._run_flow(timed(recipe, flow, name) if waits else flow, name)

        return update_wrapper(run, function)
