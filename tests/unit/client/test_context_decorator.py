"""A context around each call: it is entered before the function and left after it, in any case."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any

import pytest

from raykeeper.client.context_decorator import context_decorator


class Story:
    """A context that records what happens."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __enter__(self) -> None:
        self.lines.append("enter")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.lines.append("exit" if error is None else f"exit {kind.__name__}")  # type: ignore[union-attr]

    async def __aenter__(self) -> None:
        self.lines.append("aenter")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.lines.append("aexit")


def test_a_function_runs_inside_the_context() -> None:
    story = Story()

    def work(a: int) -> int:
        """Says what it does."""
        story.lines.append("work")
        return 10 // a

    decorated = context_decorator(work, lambda: story)
    assert (decorated.__doc__, decorated(5)) == ("Says what it does.", 2)
    with pytest.raises(ZeroDivisionError):
        decorated(0)
    assert story.lines == ["enter", "work", "exit", "enter", "work", "exit ZeroDivisionError"]


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_generator_runs_inside_the_context(is_dropped: bool) -> None:
    story = Story()

    def count() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            story.lines.append("end")

    decorated = context_decorator(count, lambda: story)
    assert inspect.isgeneratorfunction(decorated)
    items: Any = decorated()
    assert (next(items), story.lines) == (1, ["enter"])
    if is_dropped:
        items.close()
        assert story.lines == ["enter", "end", "exit GeneratorExit"]
    else:
        assert list(items) == [2]
        assert story.lines == ["enter", "end", "exit"]


def test_coroutines_run_inside_the_context() -> None:
    story = Story()

    async def work() -> int:
        story.lines.append("work")
        return 1

    async def count() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            story.lines.append("end")

    async def main() -> None:
        assert await context_decorator(work, lambda: story)() == 1
        items: Any = context_decorator(count, lambda: story)()
        assert await anext(items) == 1
        await items.aclose()

    assert inspect.isasyncgenfunction(context_decorator(count, lambda: story))
    asyncio.run(main())
    assert story.lines == ["aenter", "work", "aexit", "aenter", "end", "aexit"]


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async_generator"])
def test_a_plain_function_whose_work_is_yet_to_be_done_is_refused(kind: str) -> None:
    async def work() -> None:
        raise AssertionError("it runs outside of its context")

    async def stream() -> AsyncIterator[int]:
        yield 7

    made = {"coroutine": work, "generator": lambda: (n for n in (1, 2)), "async_generator": stream}
    story = Story()
    with pytest.raises(TypeError, match=f"returned a {kind}, which would run after its context"):
        context_decorator(lambda: made[kind](), lambda: story)()
    assert story.lines == ["enter", "exit TypeError"]
