"""Tool: a place that pickles, and a session for each process. For real: tests/ray."""

import os
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.errors import BadArgumentsError, LostError, WrongContextError
from raykeeper.client.ray_tools import ConcurrencyLimit, ElectedActor, Gang, RateLimit
from raykeeper.client.ray_tools.tool import ContextTool, Tool
from raykeeper.client.recipes.primitives import get_children
from raykeeper.znodes.requests import Delete
from tests.contract.client_handles import Room, open_blocking
from tests.harness.recipe_stage import RecipeStage


@pytest.mark.parametrize(
    ("ensemble", "path"), [("coord", "/"), ("coord", "x"), ("coord", b"/x"), (7, "/x"), ("c/", "")]
)
def test_bad_locations_are_refused(ensemble: Any, path: Any) -> None:
    with pytest.raises(BadArgumentsError):
        Tool(ensemble, path)


@pytest.mark.parametrize("kind", [Tool, ContextTool])
def test_a_tool_pickles_without_the_state_of_its_process(kind: type[Tool]) -> None:
    tool = kind("coord/app", "/x", session_timeout_s=3)
    copy = pickle.loads(pickle.dumps(tool))
    assert type(copy) is kind
    assert vars(copy).keys() == vars(tool).keys()
    assert (copy.ensemble, copy.path, copy._session_timeout_s) == ("coord/app", "/x", 3)


async def test_an_event_loop_is_not_blocked() -> None:
    tool = Tool("coord", "/x")

    with pytest.raises(WrongContextError, match="the first use of a tool"):
        tool._get_client()
    with pytest.raises(WrongContextError, match="close"):
        tool.close()
    await tool.aclose()


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda: ConcurrencyLimit("coord", "/x", 1).__enter__(), "`async with`"),
        (lambda: ConcurrencyLimit("coord", "/x", 1).acquire(), "`await ....acquire_async(...)`"),
        (lambda: RateLimit("coord", "/x", 1).__enter__(), "`async with`"),
        (lambda: Gang("coord", "/x", 1).run(print), "`await ....run_async(...)`"),
        (lambda: ElectedActor("coord", "/x").call("x"), "`await ....call_async(...)`"),
    ],
)
async def test_a_blocking_call_in_an_event_loop_names_the_awaited_one(
    call: Callable[[], Any], instead: str
) -> None:
    text = f"would block the running event loop; use {instead}"
    with pytest.raises(WrongContextError, match=re.escape(text)):
        call()


def test_a_with_block_acquires_and_releases() -> None:
    member = RecipeStage().member()

    class Here(ConcurrencyLimit):
        def _get_client(self) -> Any:
            return member

    limit = Here("coord", "/x", 1)
    with limit as held:
        assert member.do(get_children("/x")) == [held.path.rpartition("/")[2]]
    assert member.do(get_children("/x")) == []
    with pytest.raises(LookupError), limit:
        raise LookupError
    assert member.do(get_children("/x")) == []
    with pytest.raises(LostError), limit as held:
        member.ask(Delete(held.path, -1))
    with pytest.raises(LookupError), limit as held:
        member.ask(Delete(held.path, -1))
        raise LookupError("which is the error that counts")


def test_a_gang_is_a_context_manager() -> None:
    member = RecipeStage().member()

    class Here(Gang):
        def _get_client(self) -> Any:
            return member

    for generation in (1, 2):
        with Here("coord", "/x", 1) as meeting:
            assert (meeting.generation, meeting.rank) == (generation, 0)


def test_a_forked_process_has_no_session_yet() -> None:
    tool = Tool("coord", "/x")
    with open_blocking(Room())() as client:
        tool._client, tool._pid = client, os.getpid()
        assert tool._get_client() is client
        child = os.fork()
        if child == 0:
            os._exit(0 if tool._current() is None else 1)
        assert os.waitpid(child, 0) == (child, 0)
