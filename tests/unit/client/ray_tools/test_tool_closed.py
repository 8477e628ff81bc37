"""A call of a tool that was closed, or stopped, fails at once, and asks nobody."""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raykeeper.client.errors import ClosedError
from raykeeper.client.ray_tools import (
    ConcurrencyLimit,
    ElectedActor,
    Gang,
    RateLimit,
    Rendezvous,
    WorkerGroup,
)
from raykeeper.client.ray_tools.tool import Tool

TOOLS: dict[str, Callable[[], Tool]] = {
    "ElectedActor": lambda: ElectedActor("coord", "/x", print, call_timeout_s=600),
    "Gang": lambda: Gang("coord", "/x", 2),
    "Rendezvous": lambda: Rendezvous("coord", "/x", 2),
    "WorkerGroup": lambda: WorkerGroup("coord", "/x"),
    "RateLimit": lambda: RateLimit("coord", "/x", 5),
    "ConcurrencyLimit": lambda: ConcurrencyLimit("coord", "/x", 2),
}
CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("ElectedActor", lambda tool: tool.start()),
    ("ElectedActor", lambda tool: tool.call("method")),
    ("ElectedActor", lambda tool: tool.leader()),
    ("Gang", lambda tool: tool.join()),
    ("Gang", lambda tool: tool.run(print)),
    ("Gang", lambda tool: tool.__enter__()),
    ("Rendezvous", lambda tool: tool.meet()),
    ("WorkerGroup", lambda tool: tool.join()),
    ("WorkerGroup", lambda tool: tool.members()),
    ("WorkerGroup", lambda tool: tool.watch(print)),
    ("RateLimit", lambda tool: tool.take()),
    ("RateLimit", lambda tool: tool(print)("never printed")),
    ("RateLimit", lambda tool: tool.__enter__()),
    ("ConcurrencyLimit", lambda tool: tool.acquire()),
    ("ConcurrencyLimit", lambda tool: tool.holders()),
    ("ConcurrencyLimit", lambda tool: tool.__enter__()),
]
AWAITED: list[tuple[str, Callable[[Any], Awaitable[Any]]]] = [
    ("ElectedActor", lambda tool: tool.call_async("method")),
    ("Gang", lambda tool: tool.join_async()),
    ("Gang", lambda tool: tool.run_async(print)),
    ("Gang", lambda tool: tool.__aenter__()),
    ("Rendezvous", lambda tool: tool.meet_async()),
    ("WorkerGroup", lambda tool: tool.join_async()),
    ("WorkerGroup", lambda tool: tool.members_async()),
    ("WorkerGroup", lambda tool: tool.watch_async(print)),
    ("RateLimit", lambda tool: tool.take_async()),
    ("RateLimit", lambda tool: tool.__aenter__()),
    ("ConcurrencyLimit", lambda tool: tool.acquire_async()),
    ("ConcurrencyLimit", lambda tool: tool.holders_async()),
    ("ConcurrencyLimit", lambda tool: tool.__aenter__()),
]


@pytest.mark.parametrize(("kind", "call"), CALLS)
def test_a_call_of_a_closed_tool_raises(kind: str, call: Callable[[Any], Any]) -> None:
    tool = TOOLS[kind]()
    tool.close()
    tool.close()
    with pytest.raises(ClosedError, match=f"/x: .*this {kind} was closed"):
        call(tool)


@pytest.mark.parametrize(("kind", "call"), AWAITED)
async def test_a_call_in_a_coroutine_raises_too(
    kind: str, call: Callable[[Any], Awaitable[Any]]
) -> None:
    tool = TOOLS[kind]()

    await tool.aclose()
    with pytest.raises(ClosedError, match=f"this {kind} was closed"):
        await call(tool)


@pytest.mark.parametrize("kind", TOOLS)
def test_a_copy_in_another_process_stays_open(kind: str) -> None:
    tool = TOOLS[kind]()
    tool.close()
    pickle.loads(pickle.dumps(tool))._check_open()


def test_a_stopped_elected_actor_raises_until_it_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: str, namespace: str) -> Any:
        raise ValueError(name)  # as Ray does

    monkeypatch.setattr("ray.get_actor", unknown)
    service = ElectedActor("coord", "/x", print, call_timeout_s=600)
    service.stop()
    for call in (lambda: service.call("method"), service.leader):
        with pytest.raises(ClosedError, match="the elected actor was stopped"):
            call()
    with pytest.raises(ClosedError, match="the elected actor was stopped"):
        asyncio.run(service.call_async("method"))
    service._reopen()
    service._check_open()


def test_a_closed_elected_actor_is_not_started() -> None:
    service = ElectedActor("coord", "/x", print)
    service.close()
    service._reopen()
    with pytest.raises(ClosedError, match="this ElectedActor was closed"):
        service.start()
