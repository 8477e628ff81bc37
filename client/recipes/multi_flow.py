"""Operations that take turns with the user's code: a flow, a function of the user's, a flow again.

No flow calls user code: it runs under the lock of its client, in whichever thread that is. So what
needs a function of the user's between two flows is a generator of flows. The invariant of this
file: such a generator runs where its caller runs, in the caller's thread or task, and holds nothing
while a flow is under way.
"""

import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

from raykeeper.client.flows import Flow
from raykeeper.client.recipes.recipe import FlowRunner, RecipeMethod

P = ParamSpec("P")
T = TypeVar("T")
MultiFlow = Generator[Flow[Any], Any, T]


class multi_flow(RecipeMethod[P, T]):  # noqa: N801 (a decorator, like `operation`)
    """Makes a method of a recipe, which is a generator of flows, one that runs them."""

    def __init__(self, turns: Callable[Concatenate[Any, P], MultiFlow[T]]) -> None:
        super().__init__(turns)

    @property
    def flows(self) -> Callable[Concatenate[Any, P], MultiFlow[T]]:
        """What makes the flows of a call, for whoever runs them in a way of its own."""
        return self._function

    def _run(self, client: FlowRunner, made: MultiFlow[T], name: str) -> Any:
        return _run(client, made, name)


def _run(client: FlowRunner, turns: MultiFlow[Any], name: str) -> Any:
    flow = next(turns)  # there is always one: it shows which kind of client it is
    try:
        result = client._run_flow(flow, name)
    except Exception as error:
        result = error
    if inspect.isawaitable(result):
        return _awaited(client, turns, name, result)
    while True:
        try:
            flow = _next(turns, result)
        except StopIteration as end:
            return end.value
        try:
            result = client._run_flow(flow, name)
        except Exception as error:
            result = error


async def _awaited(
    client: FlowRunner, turns: MultiFlow[Any], name: str, awaitable: Awaitable[Any]
) -> Any:
    while True:
        result: Any
        try:
            result = await awaitable
        except Exception as error:
            result = error
        try:
            flow = _next(turns, result)
        except StopIteration as end:
            return end.value
        awaitable = client._run_flow(flow, name)


def _next(turns: MultiFlow[Any], result: Any) -> Flow[Any]:
    if isinstance(result, Exception):
        return turns.throw(result)
    return turns.send(result)
