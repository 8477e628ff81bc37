"""Answers to operators: in turn with the server's work, and few at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from raykeeper.actors import operator_answers
from raykeeper.actors.operator_answers import QUESTIONS_MAX, OperatorAnswers
from raykeeper.server import tree_sizes
from raykeeper.server.admin_queries import (
    AdminAnswer,
    ListSessions,
    MeasureTree,
    SessionsPage,
    TreePage,
)
from raykeeper.zab.effects import Role
from tests.harness.pure_servers import PureServer

Scenario = Callable[[PureServer, OperatorAnswers], Coroutine[Any, Any, None]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    """Run a scenario with a server whose tree takes many steps to walk."""
    monkeypatch.setattr(tree_sizes, "VISITS_MAX", 1)
    monkeypatch.setattr(operator_answers, "ANSWER_PAUSE_S", 0)
    host = PureServer()
    caller = host.caller(1)
    caller.ask(*(caller.create(f"/n{number}") for number in range(20)))

    async def run(scenario: Scenario) -> None:
        await scenario(host, OperatorAnswers())

    return lambda scenario: asyncio.run(run(scenario))


def test_answers_are_given_between_other_work(play: Callable[[Scenario], None]) -> None:
    async def scenario(host: PureServer, operators: OperatorAnswers) -> None:
        walk = asyncio.ensure_future(operators.answer(host.server, MeasureTree()))
        await asyncio.sleep(0)
        quick = await operators.answer(host.server, ListSessions())
        assert isinstance(quick.page, SessionsPage) and quick.page.total == 1
        assert not walk.done(), "an answer of one step waits for no walk"
        page = (await walk).page
        assert isinstance(page, TreePage) and page.row is not None
        assert page.row.znodes == host.server.stats().znodes

    play(scenario)


def test_one_question_too_many_is_refused_with_the_reason(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(host: PureServer, operators: OperatorAnswers) -> None:
        asked = [
            asyncio.ensure_future(operators.answer(host.server, MeasureTree()))
            for _ in range(QUESTIONS_MAX + 8)
        ]
        answers: list[AdminAnswer] = await asyncio.gather(*asked)
        refused = answers[QUESTIONS_MAX:]
        assert all(each.page is not None and not each.problem for each in answers[:QUESTIONS_MAX])
        assert {each.problem for each in refused} == {
            "has 32 other questions of operators to answer; ask again"
        }
        assert all((each.page, each.role) == (None, Role.LEADER) for each in refused)
        assert all(each.is_active and each.zxid == host.server.state.zxid for each in refused)
        assert (await operators.answer(host.server, MeasureTree())).page is not None

    play(scenario)


def test_a_question_that_is_given_up_makes_room(play: Callable[[Scenario], None]) -> None:
    async def scenario(host: PureServer, operators: OperatorAnswers) -> None:
        asked = [
            asyncio.ensure_future(operators.answer(host.server, MeasureTree()))
            for _ in range(QUESTIONS_MAX)
        ]
        await asyncio.sleep(0)
        assert (await operators.answer(host.server, ListSessions())).page is None
        asked.pop().cancel()
        await asyncio.sleep(0)
        assert (await operators.answer(host.server, ListSessions())).page is not None
        await asyncio.gather(*asked)

    play(scenario)
