"""Repeated calls of a function, with a new session whenever its session is lost.

    @with_session("coord", restart_on_loss=True)
    def serve(client, jobs): ...        # is called until it returns, or raises an error of its own

A pause between two calls spares an ensemble that does not answer: 0.1 s, twice as long after each
further call that failed soon, up to a bound. Each pause is shortened at random by up to a half, so
that clients that lost their sessions together do not come back together.

kazoo: `KazooRetry`. Curator: `ExponentialBackoffRetry`, `LeaderSelector.autoRequeue`.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from raykeeper.client.errors import (
    BadArgumentsError,
    ConnectionLossError,
    EnsembleNotFoundError,
    LostError,
    OperationTimeoutError,
    RayKeeperError,
)

log = logging.getLogger("raykeeper.client")

DELAY_S: Final = 0.1
"""The pause before the first repeated call."""

Function = Callable[..., Any]


class Backoff:
    """A policy whether a call is repeated, and after which pause, for one series of calls."""

    def __init__(
        self,
        delay_max_s: float,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        """`delay_max_s` bounds the pauses; a call that lasted longer than it did not fail soon."""
        self._delay_max_s = delay_max_s
        self._clock = clock
        self._rng = rng
        self._delay_s = DELAY_S
        self._is_first = True
        self._begun_at = 0.0

    def begin(self) -> None:
        """Note that a call begins."""
        self._begun_at = self._clock()

    def next_delay_s(self, error: RayKeeperError) -> float | None:
        """Return the pause after a call that raised `error`; None if the caller must see the error.

        A first call that finds no ensemble of the name is not repeated: the name is wrong.
        """
        is_first, self._is_first = self._is_first, False
        if isinstance(error, EnsembleNotFoundError):
            is_away = not is_first
        else:
            is_away = isinstance(error, LostError | ConnectionLossError | OperationTimeoutError)
        if not is_away:
            return None
        if self._clock() - self._begun_at > self._delay_max_s:
            self._delay_s = DELAY_S
        delay_s = min(self._delay_s, self._delay_max_s)
        self._delay_s = 2 * delay_s
        return delay_s * (1 - self._rng() / 2)


def call_until_done(call: Function, delay_max_s: float) -> Function:
    """Wrap `call` to be repeated until it returns or raises an error of its own."""

    def run(*args: Any, **named: Any) -> Any:
        backoff = Backoff(delay_max_s)
        while True:
            backoff.begin()
            try:
                return call(*args, **named)
            except RayKeeperError as error:
                delay_s = _pause(call, error, backoff)
            time.sleep(delay_s)

    return run


def call_until_done_async(call: Function, delay_max_s: float) -> Function:
    """Do the same as `call_until_done` with a coroutine function."""

    async def run(*args: Any, **named: Any) -> Any:
        backoff = Backoff(delay_max_s)
        while True:
            backoff.begin()
            try:
                return await call(*args, **named)
            except RayKeeperError as error:
                delay_s = _pause(call, error, backoff)
            await asyncio.sleep(delay_s)

    return run


def checked_delay(delay_max_s: object) -> float:
    """Return the bound of the pauses, checked.

    Raises:
        BadArgumentsError: the bound is not a number of seconds above 0.
    """
    is_number = isinstance(delay_max_s, int | float) and not isinstance(delay_max_s, bool)
    if not is_number or not delay_max_s > 0:  # type: ignore[operator]
        raise BadArgumentsError("", f"restart_delay_max_s must be above 0, not {delay_max_s!r}")
    return float(delay_max_s)  # type: ignore[arg-type]


def _pause(call: Function, error: RayKeeperError, backoff: Backoff) -> float:
    delay_s = backoff.next_delay_s(error)
    if delay_s is None:
        raise error
    name = getattr(call, "__qualname__", repr(call))
    log.warning("%s is called again in %.1f s, with a new session: %s", name, delay_s, error)
    return delay_s
