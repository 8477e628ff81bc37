"""The pauses of a loop that survives lost sessions, and what ends it."""

import asyncio
import itertools
from typing import Any

import pytest

from raykeeper.client.errors import (
    BadArgumentsError,
    ConnectionLossError,
    DeposedError,
    EnsembleNotFoundError,
    LostError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    StaleTokenError,
    WaitTimeoutError,
    WrongContextError,
)
from raykeeper.client.restart import Backoff, call_until_done, call_until_done_async
from raykeeper.client.with_session import with_session

BEGINS_AGAIN = [
    LostError("gone"),
    SessionExpiredError(),
    SessionMovedError(),
    StaleTokenError("old"),
    ConnectionLossError(),
    OperationTimeoutError(definite=False),
]
ENDS = [
    NoNodeError("/a"),
    WaitTimeoutError("not in time"),
    DeposedError("of another service"),
    WrongContextError("in a loop"),
    EnsembleNotFoundError("no such name"),
    LookupError("of the user"),
    KeyboardInterrupt(),
]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_to_the_bound_and_shrink_after_a_long_call() -> None:
    clock = Clock()
    backoff = Backoff(1.0, clock, lambda: 0.0)

    def after(lasted_s: float) -> float | None:
        backoff.begin()
        clock.now += lasted_s
        return backoff.next_delay_s(LostError("gone"))

    assert [after(0.5) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert [after(1.5), after(0)] == [0.1, 0.2]


@pytest.mark.parametrize(("drawn", "delay_s"), [(0.0, 0.1), (0.5, 0.075), (1.0, 0.05)])
def test_a_pause_is_shortened_at_random(drawn: float, delay_s: float) -> None:
    backoff = Backoff(5.0, rng=lambda: drawn)
    assert backoff.next_delay_s(LostError("gone")) == pytest.approx(delay_s)


def test_a_pause_is_never_above_the_bound() -> None:
    assert Backoff(0.01, rng=lambda: 0.0).next_delay_s(LostError("gone")) == 0.01


def test_a_known_ensemble_may_be_down_for_a_while() -> None:
    backoff = Backoff(5.0)
    assert backoff.next_delay_s(LostError("gone")) is not None
    assert backoff.next_delay_s(EnsembleNotFoundError("it is down")) is not None


def calls_until(ends: list[BaseException | str]) -> Any:
    """Return a function that raises these in turn, or returns; and its asyncio twin."""
    left = itertools.chain(ends)

    def call(word: str) -> str:
        end = next(left)
        if isinstance(end, BaseException):
            raise end
        return word + end

    async def call_async(word: str) -> str:
        return call(word)

    return call, call_async


def run(kind: str, ends: list[BaseException | str]) -> str:
    call, call_async = calls_until(ends)
    if kind == "blocking":
        return str(call_until_done(call, 0.001)("a "))
    return str(asyncio.run(call_until_done_async(call_async, 0.001)("a ")))


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
def test_a_loss_is_survived_with_the_same_arguments(kind: str) -> None:
    assert run(kind, [*BEGINS_AGAIN, "result"]) == "a result"


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_any_other_error_ends_the_loop(kind: str, error: BaseException) -> None:
    if kind == "awaited" and isinstance(error, KeyboardInterrupt):
        return  # asyncio ends its loop
    with pytest.raises(type(error)):
        run(kind, [error, "never"])


def test_bad_settings_are_refused() -> None:
    for delay_s in (0, -1, "1", True, float("nan")):
        with pytest.raises(BadArgumentsError, match="restart_delay_max_s"):
            with_session("coord", restart_on_loss=True, restart_delay_max_s=delay_s)  # type: ignore[arg-type]

    def generator(client: object) -> Any:
        yield client

    with pytest.raises(BadArgumentsError, match="generator"):
        with_session("coord", restart_on_loss=True)(generator)
