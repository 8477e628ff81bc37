"""So many per second over all processes that name the same path.

    limit = RateLimit("coord", "/limits/api", per_second=50, burst=10)

    @ray.remote
    @limit                          # or `with limit:`, `limit.take()`, `await limit.take_async()`
    def fetch(url): ...

It replaces a token bucket in a named actor, which forgets its count when it is restarted, blocks
all when its calls pile up, and has two lives when its node only seemed to be dead.

The bucket is one moment: when it will be full, if nothing more is taken (the virtual scheduling of
the Generic Cell Rate Algorithm, ITU-T I.371). To take is to move that moment on, by a compare and
set; how long to wait follows from it. So a wait is one write however long it is, whoever asked
first is served first, and who dies while it waits has only used up its share.

The time is that of the leader's transactions, `mtime` of the bucket's znode, carried on by the
clocks of those who take: each knows it from its own writes, for at most RELEARN_MS, and leaves what
it knows beside the moment. So it is never behind what anybody knew who has taken before: a leader's
wall clock that is set back, or a next leader whose clock is behind, holds nobody up.

The invariant: in any T seconds at most `burst + per_second * (T + D)` are taken, where D is how
long ago the leader stamped what the client last wrote when it heard of that: a network delay. If
the leader's wall clock is moved forward, or the next leader's is ahead, at most one more `burst`
passes, once. The clocks of clients drift by less than a thousandth, and so may the rate.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from raykeeper.client.client import Client
from raykeeper.client.context_decorator import context_decorator
from raykeeper.client.core.flows import Cancelled, Flow, Now, Timeout, Wait
from raykeeper.client.errors import BadArgumentsError, InvalidValueError, WaitTimeoutError
from raykeeper.client.ray_tools.tool import Tool
from raykeeper.client.recipes.compare_and_set import (
    ATTEMPTS_MAX,
    ObservedValue,
    checkpoint,
    compare_and_set,
    contention_error,
    read_current,
)
from raykeeper.client.recipes.primitives import checked_millis, checked_root
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation
from raykeeper.zab.ids import Millis

RELEARN_MS: Final = 60_000
"""How long a client counts on from the leader's time: two clocks drift apart."""
PER_SECOND_MAX: Final = 1_000_000
BURST_MAX: Final = 1_000_000
_CONTENT: Final = re.compile(rb"([0-9]{1,20}) ([0-9]{1,20})")

F = TypeVar("F", bound=Callable[..., Any])


class Bucket(Recipe[K]):
    """The bucket at a path, of which every client of it says the same rate and burst."""

    def __init__(self, client: FlowRunner, path: str, per_second: float, burst: int) -> None:
        """`per_second`: more than 0, at most 1 000 000. `burst`: from 1 to 1 000 000."""
        super().__init__(client)
        self.client = client
        self.path = checked_root(path)
        self._interval_us = round(1_000_000 / checked_rate(per_second))
        self._burst = checked_burst(burst)
        self._seen: ObservedValue | None = None
        self._leader_offset_ms = -(1 << 62)  # what the leader's time has over ours, at least
        self._learned_ms: Millis | None = None

    @operation
    def take(self, count: int = 1, timeout_s: float | None = None) -> Flow[None]:
        """Take some, and wait until they are there.

        Args:
            count: How many, at most `burst`.
            timeout_s: How long to wait; 0 to take them only if they are there, None for ever.

        Raises:
            BadArgumentsError: an argument is not acceptable.
            WaitTimeoutError: they would not be there in time, which is told at once; nothing was
                taken.
            InvalidValueError: the znode holds something else.
            BadVersionError: others were quicker again and again; nothing was taken.
            KeeperError: as for every call.
        """
        return (yield from self.take_flow(count, timeout_s))

    def take_flow(self, count: int = 1, timeout_s: float | None = None) -> Flow[None]:
        """`take` as a part of another flow."""
        if type(count) is not int or not 1 <= count <= self._burst:
            raise BadArgumentsError(
                self.path, f"count must be from 1 to burst={self._burst}: {count!r}"
            )
        timeout_ms = checked_millis("timeout_s", timeout_s)
        begun = yield Now()
        yield Timeout(timeout_ms or None, f"{self.path} was not reached")
        until = None if timeout_ms is None else Millis(begun + timeout_ms)
        before, mine, due = yield from self._reserve(count * self._interval_us, until)
        yield Timeout(None)  # they come in time
        try:
            while (yield Now()) < due:
                yield Wait((), due)
        except Cancelled:
            # If nobody took any since, those who come next need not wait for us.
            yield from compare_and_set(self.path, before.value or b"", mine)
            raise

    def _reserve(
        self, span_us: int, until: Millis | None
    ) -> Flow[tuple[ObservedValue, ObservedValue, Millis]]:
        """Move the bucket on; what it was and is now, and when ours are there, by our time."""
        now = yield Now()
        if self._learned_ms is None or now - self._learned_ms >= RELEARN_MS:
            yield from self._learn()
        assert self._seen is not None
        for _ in range(ATTEMPTS_MAX):
            before, now = self._seen, (yield Now())
            leader_us = self._leader_time_us(before, now)
            full_us = max(self._parse(before)[0], leader_us) + span_us
            due = self._due(full_us, now)
            if until is not None and due > until:
                raise WaitTimeoutError(f"{self.path} has none before {due - now} ms")
            value = b"%d %d" % (full_us, leader_us)
            is_done, now_there = yield from compare_and_set(self.path, value, before)
            self._seen = now_there
            if is_done:
                now = yield from self._learn_time_from(now_there)
                return before, now_there, self._due(full_us, now)
            yield from checkpoint()
        raise contention_error(self.path)

    def _due(self, full_us: int, now: Millis) -> Millis:
        """When what was taken last is there, by our time."""
        wait_us = full_us - self._burst * self._interval_us - (now + self._leader_offset_ms) * 1000
        return Millis(now + max(-(-wait_us // 1000), 0))

    def _learn(self) -> Flow[None]:
        """Learn the leader's time, by a write that changes nothing."""
        seen = self._seen or (yield from read_current(self.path))
        for _ in range(ATTEMPTS_MAX):
            is_done, seen = yield from compare_and_set(self.path, seen.value or b"0 0", seen)
            if is_done:
                self._seen = seen
                yield from self._learn_time_from(seen)
                return
            yield from checkpoint()
        raise contention_error(self.path)

    def _learn_time_from(self, written: ObservedValue) -> Flow[Millis]:
        """Learn the time of what we wrote; our own time."""
        self._learned_ms = now = yield Now()
        self._leader_time_us(written, now)
        return Millis(now)

    def _leader_time_us(self, seen: ObservedValue, now: Millis) -> int:
        """The time, which is not before anything that anybody knew who wrote what was seen."""
        known_ms = self._parse(seen)[1] // 1000
        if seen.stat is not None:
            known_ms = max(known_ms, seen.stat.mtime)
        self._leader_offset_ms = max(self._leader_offset_ms, known_ms - now)
        return (now + self._leader_offset_ms) * 1000

    def _parse(self, seen: ObservedValue) -> tuple[int, int]:
        """When it is full, and what the time was at least, in microseconds."""
        if not seen.value:
            return 0, 0
        found = _CONTENT.fullmatch(seen.value)
        if found is None:
            self._seen = self._learned_ms = None  # whoever comes next looks again
            raise InvalidValueError(f"{self.path} holds no bucket: {seen.value[:40]!r}")
        return int(found[1]), int(found[2])


class RateLimit(Tool):
    """A rate over all processes that name the same path. It pickles; see the module."""

    _bucket_of_client: Bucket[Any] | None

    def __init__(
        self,
        ensemble: str,
        path: str,
        per_second: float,
        burst: int = 1,
        session_timeout_s: float = 10.0,
    ) -> None:
        """Nothing is asked of the ensemble yet.

        Args:
            ensemble: Its name.
            path: Of the bucket; all who name it must say the same rate and burst.
            per_second: How many may be taken in the long run: above 0, at most 1 000 000.
            burst: How many may be taken at once after a pause: from 1 to 1 000 000.
            session_timeout_s: Of the sessions that ask.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        self.per_second = checked_rate(per_second)
        self.burst = checked_burst(burst)

    def _on(self, client: FlowRunner) -> Bucket[Any]:
        """The same bucket, of a client that the caller has."""
        return Bucket(client, self.path, self.per_second, self.burst)

    def take(self, count: int = 1, timeout_s: float | None = None) -> None:
        """Take some, and wait until they are there. See `Bucket.take`.

        Raises:
            WaitTimeoutError: they would not be there in time; nothing was taken.
            WrongContextError: in an event loop.
        """
        client = self._get_client()
        client._run_flow(self._bucket(client).take_flow(count, timeout_s), "take")

    async def take_async(self, count: int = 1, timeout_s: float | None = None) -> None:
        """`take`, to be awaited in any event loop.

        Raises:
            WaitTimeoutError: they would not be there in time; nothing was taken.
        """
        awaiting = await self._get_client_async()
        await awaiting._run_flow(self._bucket(awaiting.client).take_flow(count, timeout_s), "take")

    def __call__(self, function: F) -> F:
        """Decorate a function, which may be a coroutine or a generator: each call takes one."""
        return context_decorator(function, lambda: self)

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *_: object) -> None:
        return

    async def __aenter__(self) -> None:
        await self.take_async()

    async def __aexit__(self, *_: object) -> None:
        return

    def _bucket(self, client: Client) -> Bucket[Any]:
        """The one of this client, which knows what it has seen."""
        bucket = self._bucket_of_client
        if bucket is None or bucket.client is not client:
            self._bucket_of_client = bucket = self._on(client)
        return bucket

    def _reset(self) -> None:
        super()._reset()
        self._bucket_of_client = None


def checked_rate(per_second: object) -> float:
    """A rate.

    Raises:
        BadArgumentsError: it is none, or out of bounds.
    """
    is_number = isinstance(per_second, int | float) and not isinstance(per_second, bool)
    if not is_number or not 0 < per_second <= PER_SECOND_MAX:  # type: ignore[operator]
        raise BadArgumentsError(
            "", f"per_second must be above 0 and at most {PER_SECOND_MAX}: {per_second!r}"
        )
    return float(per_second)  # type: ignore[arg-type]


def checked_burst(burst: object) -> int:
    """How many at once.

    Raises:
        BadArgumentsError: it is no number, or out of bounds.
    """
    if type(burst) is not int or not 1 <= burst <= BURST_MAX:
        raise BadArgumentsError("", f"burst must be from 1 to {BURST_MAX}: {burst!r}")
    return burst
