"""with_session: the parameter that gets the client, and when it is closed. With Ray: tests/ray."""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.context_decorator import context_decorator
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.errors import BadArgumentsError, InvalidAclError, WrongContextError
from raykeeper.client.session_options import SessionOptions
from raykeeper.client.with_session import (
    _async_session,
    _client_inserter,
    with_session,
)
from tests.harness.client_stage import ClientStage
from tests.harness.event_loops import VirtualLoop
from tests.harness.scripted_ensemble import ScriptedEnsemble


def first(client: object, a: int, b: int = 2) -> tuple[Any, ...]:
    return client, a, b


def second(a: int, client: object, b: int = 2) -> tuple[Any, ...]:
    return client, a, b


def named(a: int, b: int = 2, *, client: object) -> tuple[Any, ...]:
    return client, a, b


def rest(*a: int, client: object, **b: int) -> tuple[Any, ...]:
    return client, *a, *b.values()


@pytest.mark.parametrize("function", [first, second, named, rest])
@pytest.mark.parametrize(("args", "by_name"), [((1,), {"b": 2}), ((1, 2), {})])
def test_the_client_replaces_its_parameter(
    function: Any, args: tuple[int, ...], by_name: dict[str, int]
) -> None:
    given, names = _client_inserter("client", function)("C", args, by_name)
    assert function(*given, **names) == ("C", 1, 2)


@pytest.mark.parametrize("function", [first, second, named])
def test_other_parameters_may_be_given_by_name(function: Any) -> None:
    given, names = _client_inserter("client", function)("C", (), {"a": 1, "b": 3})
    assert function(*given, **names) == ("C", 1, 3)


@pytest.mark.parametrize("function", [lambda a: a, lambda *client: client, lambda **client: client])
def test_a_function_without_the_parameter_is_refused(function: Any) -> None:
    with pytest.raises(BadArgumentsError, match="no parameter 'client'"):
        with_session("coord")(function)


def test_callers_do_not_see_the_parameter() -> None:
    decorated = with_session("coord")(second)
    assert str(inspect.signature(decorated)) == "(a: int, b: int = 2) -> tuple[typing.Any, ...]"
    assert decorated.__name__ == "second"


def test_a_senseless_setting_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="session_timeout"):
        with_session("coord", session_timeout=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidAclError, match="it has 0 entries"):
        with_session("coord", default_acl=[])


def test_every_kind_of_function_keeps_its_kind() -> None:
    def generator(client: object) -> Iterator[int]:
        yield 1

    async def coroutine(client: object) -> int:
        return 1

    async def async_generator(client: object) -> AsyncIterator[int]:
        yield 1

    decorate = with_session("coord")
    assert inspect.isgeneratorfunction(decorate(generator))
    assert inspect.iscoroutinefunction(decorate(coroutine))
    assert inspect.isasyncgenfunction(decorate(async_generator))


async def test_in_an_event_loop_a_plain_function_is_refused() -> None:
    with pytest.raises(WrongContextError, match="AsyncClient"):
        with_session("coord")(first)(1)


# The session: `stage.open` and `opened` stand for connect().


def test_each_call_has_a_session_that_ends_with_it(stage: ClientStage) -> None:
    seen: list[Client] = []

    def work(a: int, client: Client) -> str:
        seen.append(client)
        assert client.state is ClientState.CONNECTED
        return client.create(f"/{a}")

    call = context_decorator(work, stage.open, _client_inserter("client", work))
    assert (call(1), call(a=2)) == ("/1", "/2")
    assert [client.state for client in seen] == ["LOST", "LOST"]
    assert seen[0].session_id != seen[1].session_id


def test_an_error_ends_the_session(stage: ClientStage) -> None:
    seen: list[Client] = []

    def work(client: Client) -> None:
        seen.append(client)
        raise LookupError("from the function")

    with pytest.raises(LookupError, match="from the function"):
        context_decorator(work, stage.open, _client_inserter("client", work))()
    assert seen[0].state is ClientState.LOST


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_generator_has_its_session_until_it_ends(stage: ClientStage, is_dropped: bool) -> None:
    def count(client: Client) -> Iterator[Client]:
        yield client
        yield client

    items = context_decorator(count, stage.open, _client_inserter("client", count))()
    client = next(items)
    assert client.state is ClientState.CONNECTED
    if is_dropped:
        items.close()
    else:
        assert list(items) == [client]
    assert client.state is ClientState.LOST


async def opened(loop: VirtualLoop) -> AsyncClient:
    ensemble = ScriptedEnsemble()
    return await AsyncClient.open(
        ensemble.servers, ensemble, SessionOptions(session_timeout_s=9), clock=loop.time
    )


async def test_a_coroutine_has_a_session(loop: VirtualLoop) -> None:
    async def work(client: AsyncClient, a: int) -> tuple[AsyncClient, str]:
        assert client.state is ClientState.CONNECTED
        return client, await client.create(f"/{a}")

    call = context_decorator(
        work, lambda: _async_session(lambda: opened(loop)), _client_inserter("client", work)
    )
    client, path = await call(1)
    assert (client.state, path) == ("LOST", "/1")


@pytest.mark.parametrize("is_dropped", [False, True])
async def test_an_async_generator_has_its_session_until_it_ends(
    loop: VirtualLoop, is_dropped: bool
) -> None:
    ends: list[str] = []

    async def count(client: AsyncClient) -> AsyncIterator[AsyncClient]:
        try:
            yield client
            yield client
        finally:
            ends.append(client.state)

    items = context_decorator(
        count, lambda: _async_session(lambda: opened(loop)), _client_inserter("client", count)
    )()
    client = await anext(items)
    if is_dropped:
        await items.aclose()
    else:
        assert [item async for item in items] == [client]
    assert client.state is ClientState.LOST
    assert ends == ["CONNECTED"], "the function ended before its client"
