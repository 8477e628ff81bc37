"""Blocking calls beside a loop: their outcome, who shares it; no process waits for them."""

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from queue import SimpleQueue

import pytest

from raykeeper.links.daemon_threads import GroupedCall, SharedCall, to_daemon_thread

WHO = contextvars.ContextVar("WHO", default="nobody")


def test_a_call_returns_its_result_in_the_context_of_the_caller() -> None:
    async def ask() -> tuple[str, bool]:
        WHO.set("me")
        main = threading.current_thread()
        return await to_daemon_thread(
            lambda name: (f"{name} {WHO.get()}", threading.current_thread() is main), "it is"
        )

    assert asyncio.run(ask()) == ("it is me", False)


def test_a_call_raises_its_error() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(to_daemon_thread(divmod, 1, 0))


class Question:
    """A call that blocks until the test answers it, and counts how often it was made."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.answers: SimpleQueue[object] = SimpleQueue()

    def __call__(self, *arguments: int) -> object:
        self.asked.append(arguments)
        answer = self.answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def test_concurrent_callers_share_the_result() -> None:
    question = Question()

    async def ask() -> None:
        shared = SharedCall(question)
        asking = [asyncio.ensure_future(shared(1)) for _ in range(3)]
        await asyncio.sleep(0)
        question.answers.put("a")
        assert await asyncio.gather(*asking) == ["a"] * 3
        question.answers.put("b")
        assert await shared(1) == "b"

    asyncio.run(ask())
    assert question.asked == [(1,), (1,)]


def test_other_arguments_are_another_call() -> None:
    question = Question()

    async def ask() -> None:
        shared = SharedCall(question)
        asking = [asyncio.ensure_future(shared(1)), asyncio.ensure_future(shared(2))]
        await asyncio.sleep(0)
        question.answers.put("x")
        question.answers.put("x")
        assert await asyncio.gather(*asking) == ["x", "x"]

    asyncio.run(ask())
    assert sorted(question.asked) == [(1,), (2,)]


def test_a_cancelled_caller_does_not_cancel_the_others() -> None:
    question = Question()

    async def ask() -> None:
        shared = SharedCall(question)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(shared(), 0.01)
        later = asyncio.ensure_future(shared())
        await asyncio.sleep(0)
        question.answers.put("late")
        assert await later == "late"

    asyncio.run(ask())
    assert question.asked == [()]


async def test_a_failure_reaches_all_present_callers_and_no_later_one() -> None:
    question = Question()

    shared = SharedCall(question)
    asking = [asyncio.ensure_future(shared()) for _ in range(2)]
    await asyncio.sleep(0)
    question.answers.put(ValueError("no"))
    told = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in told] == [ValueError] * 2
    question.answers.put("yes")
    assert await shared() == "yes"


def test_who_asks_during_a_call_shares_the_next_one() -> None:
    question = Question()
    ask = GroupedCall(question)
    question.answers.put("first")
    assert ask().result(20) == "first"
    running = ask()
    while len(question.asked) < 2:  # until its thread has begun
        time.sleep(0.001)
    later = [ask() for _ in range(3)]
    question.answers.put(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        running.result(20)
    question.answers.put("next")
    assert [each.result(20) for each in later] == ["next"] * 3
    assert len(question.asked) == 3


ENDLESS = """
import asyncio, threading
from raykeeper.links.daemon_threads import SharedCall, to_daemon_thread

async def ask(question):
    try:
        await asyncio.wait_for(question, 0.01)
    except TimeoutError:
        print("given up")

asyncio.run(ask(to_daemon_thread(threading.Event().wait)))
asyncio.run(ask(SharedCall(threading.Event().wait)()))
"""


def test_a_process_ends_while_a_call_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "given up\n" * 2), done.stderr
