"""What every recipe is: an object of one client, whose operations are flows.

An `operation` is written once, as a generator (client/flows.py). Called on a recipe of a `Client`
it blocks and returns the result; of an `AsyncClient` it is to be awaited; the simulator takes the
flow itself, `Lock.acquire.flow(lock)`. So there is one class for each recipe, and the type checker
knows from `Recipe[Blocking]` or `Recipe[Awaited]` which of the two it is.
"""

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from raykeeper.client.flows import Flow
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

    def _run_flow(self, flow: Flow[Any], name: str) -> Any:
        """Run it; its result for a blocking client, an awaitable of it for one to await."""

    def _is_lost(self) -> bool:
        """Whether the session is over, or may be by now. Always on time."""

    def _identity(self) -> bytes:
        """What is shown of this process; see client/identity.py."""

    def _now(self) -> Millis:
        """The client's time, monotonic: that of the step `Now`."""


class Recipe(Generic[K]):
    """An object that works through one client."""

    def __init__(self, client: FlowRunner) -> None:
        """Use the method of the client that is named like the recipe."""
        self._client = client


class RecipeMethod(Generic[P, T]):
    """A method of a recipe: what it returns depends on the kind of the client, see the module."""

    def __init__(self, written: Callable[Concatenate[Any, P], Any]) -> None:
        """`written` is the method as it stands in the recipe."""
        self._function = written
        update_wrapper(self, written)  # type: ignore[arg-type]

    @overload
    def __get__(self, recipe: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, recipe: Recipe[Blocking], owner: Any = None) -> Callable[P, T]: ...

    @overload
    def __get__(self, recipe: Recipe[Awaited], owner: Any = None) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, recipe: Any, owner: Any = None) -> Any:
        if recipe is None:
            return self
        written, client = self._function, recipe._client

        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            return self._run(client, written(recipe, *args, **kwargs), written.__name__)

        return update_wrapper(run, written)

    def _run(self, client: FlowRunner, made: Any, name: str) -> Any:
        """Run what the method has made for a call."""
        raise NotImplementedError


class operation(RecipeMethod[P, T]):  # noqa: N801 (a decorator, like property)
    """Makes a method of a recipe, which is a flow, one that runs it."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        super().__init__(flow)

    @property
    def flow(self) -> Callable[Concatenate[Any, P], Flow[T]]:
        """What makes the flow of a call, for a flow that it is a part of."""
        return self._function

    def _run(self, client: FlowRunner, made: Flow[T], name: str) -> Any:
        return client._run_flow(made, name)
