"""Operations by turns: the user's code between flows, for both kinds of clients."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raykeeper.client.flows import Flow
from raykeeper.client.recipes.multi_flow import MultiFlow, multi_flow
from raykeeper.client.recipes.recipe import Awaited, Blocking, Recipe


def said(word: str) -> Flow[str]:
    yield from ()
    if word == "bad":
        raise LookupError(word)
    return word.upper()


class Runner:
    """Runs flows that ask nothing, and tells how it was called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def _run_flow(self, flow: Flow[Any], name: str) -> Any:
        self.names.append(name)
        try:
            next(flow)
        except StopIteration as end:
            return end.value
        raise AssertionError("it would wait")

    def _is_lost(self) -> bool:
        return False


class AwaitedRunner(Runner):
    """The same, to be awaited."""

    async def _run_flow(self, flow: Flow[Any], name: str) -> Any:
        await asyncio.sleep(0)
        return super()._run_flow(flow, name)


class Talk(Recipe[Any]):
    """An operation of several turns."""

    @multi_flow
    def talk(self, words: list[str], reply: Callable[[str], str]) -> MultiFlow[list[str]]:
        """Say each word, or "sorry" after one that failed, and what `reply` makes of it."""
        heard: list[str] = []
        for word in words:
            try:
                heard.append((yield said(word)))
            except LookupError:
                heard.append((yield said("sorry")))
            heard.append((yield said(reply(heard[-1]))))
        return heard


def blocking(words: list[str], reply: Callable[[str], str]) -> Any:
    talk: Recipe[Blocking] = Talk(Runner())
    return talk.talk(words, reply)  # type: ignore[attr-defined]


def awaited(words: list[str], reply: Callable[[str], str]) -> Any:
    talk: Recipe[Awaited] = Talk(AwaitedRunner())

    async def go() -> Any:
        result: Awaitable[Any] = talk.talk(words, reply)  # type: ignore[attr-defined]
        return await result

    return asyncio.run(go())


@pytest.mark.parametrize("run", [blocking, awaited])
def test_flows_and_functions_take_turns(run: Callable[..., Any]) -> None:
    assert run(["a", "b"], lambda word: word + "!") == ["A", "A!", "B", "B!"]
    assert run(["bad", "c"], lambda word: "x") == ["SORRY", "X", "C", "X"]


@pytest.mark.parametrize("run", [blocking, awaited])
def test_what_either_raises_comes_to_the_caller(run: Callable[..., Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        run(["a"], lambda word: str(1 // 0))
    with pytest.raises(LookupError, match="bad"):
        run(["a"], lambda word: "bad")


def test_it_runs_by_its_name_and_is_a_flow_of_the_class() -> None:
    runner = Runner()
    assert Talk(runner).talk(["a"], str.lower) == ["A", "A"]
    assert runner.names == ["talk", "talk"]
    assert isinstance(Talk.talk, multi_flow)
    assert Talk.talk.__doc__ == Talk(runner).talk.__doc__
