"""A rate limit over all processes that name the same path.

    limit = RateLimit("coord", "/limits/api", per_second=50, burst=10)

    @ray.remote
    @limit                          # or `with limit:`, `limit.take()`, `await limit.take_async()`
    def fetch(url): ...

It replaces a token bucket in a named actor. Such an actor forgets its count when it is restarted,
blocks all callers when its calls pile up, and is alive twice when its node only seemed to be dead.

The state of the bucket is one time: the time at which it will be full if nothing more is taken (the
virtual scheduling of the Generic Cell Rate Algorithm, ITU-T I.371). To take tokens is to move that
time on by a compare-and-set; the time to wait follows from it. So a wait costs one write however
long it is, callers are served in the order of their writes, and a caller that dies while it waits
has only used up its share.

The clock is that of the leader's transactions, `mtime` of the bucket's znode, carried on by the
clocks of the clients. Each client learns the leader's time from its own writes, uses it for at most
RELEARN_MS, and writes it into the value, beside the time at which the bucket is full. So the clock
is never behind a time that an earlier client knew: a leader's wall clock that is set back, or a
next leader whose clock is behind, holds nobody up.

The invariant: in any T seconds at most `burst + per_second * (T + D)` tokens are taken. D is a
network delay: the time from the leader's stamp on a client's last write until the client received
the reply. If the leader's wall clock is moved forward, or the next leader's is ahead, at most one
more `burst` passes, once. The clocks of clients drift by less than a thousandth, and so may the
rate.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from raykeeper.client.async_flow_runner import AsyncFlowRunner
from raykeeper.client.context_decorator import context_decorator
from raykeeper.client.core.flows import Cancelled, Flow, Now, Timeout, Wait
from raykeeper.client.errors import BadArgumentsError, InvalidValueError, WaitTimeoutError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.ray_tools.tool import Tool, ToolFlow, awaited, tool_operation
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
"""How long a client extrapolates the leader's time: two clocks drift apart."""
PER_SECOND_MIN: Final = 0.000_001
"""One in twelve days. Far below it the time of a burst would not fit into the znode's value."""
PER_SECOND_MAX: Final = 1_000_000
BURST_MAX: Final = 1_000_000
_NS_OF_MS: Final = 1_000_000
_CONTENT: Final = re.compile(rb"([0-9]{1,30}) ([0-9]{1,30})")

F = TypeVar("F", bound=Callable[..., Any])


class Bucket(Recipe[K]):
    """The token bucket at a path. All its clients must name the same rate and burst."""

    def __init__(self, client: FlowRunner, path: str, per_second: float, burst: int) -> None:
        """`per_second`: from 0.000001 to 1 000 000. `burst`: from 1 to 1 000 000."""
        super().__init__(client)
        self.client = client
        self.path = checked_root(path)
        # Rounded up: a rate that is a little too low keeps the promise.
        self._interval_ns = math.ceil(1_000_000_000 / checked_rate(per_second))
        self._burst = checked_burst(burst)
        self._seen: ObservedValue | None = None
        self._leader_offset_ms = -(1 << 62)  # the leader's time minus ours, at least
        self._learned_ms: Millis | None = None

    @operation
    def take(self, count: int = 1, timeout_s: float | None = None) -> Flow[None]:
        """Take tokens, and wait until they are there.

        Args:
            count: The number of tokens, at most `burst`.
            timeout_s: How long to wait; 0 to take them only if they are there, None for ever.

        Raises:
            BadArgumentsError: an argument is not acceptable.
            WaitTimeoutError: the tokens would not be there in time, which is raised at once;
                nothing was taken.
            InvalidValueError: the znode holds no bucket.
            BadVersionError: other clients were quicker again and again; nothing was taken.
            KeeperError: as for every call.
        """
        if type(count) is not int or not 1 <= count <= self._burst:
            raise BadArgumentsError(
                self.path, f"count must be from 1 to burst={self._burst}: {count!r}"
            )
        timeout_ms = checked_millis("timeout_s", timeout_s)
        begun = yield Now()
        yield Timeout(timeout_ms or None, f"no answer about {self.path}")
        until = None if timeout_ms is None else Millis(begun + timeout_ms)
        before, mine, due = yield from self._reserve(count * self._interval_ns, until)
        yield Timeout(None)  # the tokens come in time
        try:
            yield from checkpoint()  # it may have been given up before the answer came
            while (yield Now()) < due:
                yield Wait((), due)
        except Cancelled:
            # Give the tokens back, if no other client took any since.
            yield from compare_and_set(self.path, before.value or b"", mine)
            raise

    def _reserve(
        self, span_ns: int, until: Millis | None
    ) -> Flow[tuple[ObservedValue, ObservedValue, Millis]]:
        """Take from the bucket; return it before and after, and when our tokens are there.

        The last is by our clock.
        """
        now = yield Now()
        if self._learned_ms is None or now - self._learned_ms >= RELEARN_MS:
            yield from self._learn()
        assert self._seen is not None
        for _ in range(ATTEMPTS_MAX):
            before, now = self._seen, (yield Now())
            leader_ns = self._leader_time_ns(before, now)
            full_ns = max(self._parse(before)[0], leader_ns) + span_ns
            due = self._due(full_ns, now)
            if until is not None and due > until:
                raise WaitTimeoutError(f"{self.path}: no token for {due - now} ms")
            value = b"%d %d" % (full_ns, leader_ns)
            is_done, now_there = yield from compare_and_set(self.path, value, before)
            self._seen = now_there
            if is_done:
                now = yield from self._learn_time_from(now_there)
                return before, now_there, self._due(full_ns, now)
            yield from checkpoint()
        raise contention_error(self.path)

    def _due(self, full_ns: int, now: Millis) -> Millis:
        """Return when the tokens that were taken last are there, by our clock."""
        wait_ns = (
            full_ns - self._burst * self._interval_ns - (now + self._leader_offset_ms) * _NS_OF_MS
        )
        return Millis(now + max(-(-wait_ns // _NS_OF_MS), 0))

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
        """Learn the leader's time from our own write; return the time by our clock."""
        self._learned_ms = now = yield Now()
        self._leader_time_ns(written, now)
        return Millis(now)

    def _leader_time_ns(self, seen: ObservedValue, now: Millis) -> int:
        """Return the leader's time, not before any time that the writer of `seen` knew."""
        known_ms = self._parse(seen)[1] // _NS_OF_MS
        if seen.stat is not None:
            known_ms = max(known_ms, seen.stat.mtime)
        self._leader_offset_ms = max(self._leader_offset_ms, known_ms - now)
        return (now + self._leader_offset_ms) * _NS_OF_MS

    def _parse(self, seen: ObservedValue) -> tuple[int, int]:
        """Return when the bucket is full, and a lower bound of the time, in nanoseconds."""
        if not seen.value:
            return 0, 0
        found = _CONTENT.fullmatch(seen.value)
        if found is None:
            self._seen = self._learned_ms = None  # the next call reads again
            raise InvalidValueError(f"{self.path} holds no rate limit: {seen.value[:40]!r}")
        return int(found[1]), int(found[2])


class RateLimit(Tool):
    """A rate limit over all processes that name the same path. It pickles.

    docs/RECIPES.md has its guarantees.
    """

    _bucket_of_client: Bucket[Any] | None

    def __init__(
        self,
        ensemble: str,
        path: str,
        per_second: float,
        burst: int = 1,
        session_timeout_s: float = 10.0,
    ) -> None:
        """Create the tool, without a request to the ensemble.

        Args:
            ensemble: The name of the ensemble.
            path: The path of the bucket; all who use it must name the same rate and burst.
            per_second: How many may be taken in the long run: from 0.000001 to 1 000 000.
            burst: How many may be taken at once after a pause: from 1 to 1 000 000.
            session_timeout_s: The timeout of the sessions that take.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        self.per_second = checked_rate(per_second)
        self.burst = checked_burst(burst)

    def _on(self, client: FlowRunner) -> Bucket[Any]:
        """Return a new bucket for the caller's client."""
        return Bucket(client, self.path, self.per_second, self.burst)

    @tool_operation
    def take(
        self, client: FlowRunner, count: int = 1, timeout_s: float | None = None
    ) -> ToolFlow[None, None]:
        """Take tokens, and wait until they are there. See `Bucket.take`.

        Raises:
            WaitTimeoutError: the tokens would not be there in time; nothing was taken.
            WrongContextError: in an event loop.
        """
        return ToolFlow(Bucket.take.flow(self._bucket(client), count, timeout_s))

    take_async = awaited(take)
    """`take`, to be awaited in any event loop."""

    def __call__(self, function: F) -> F:
        """Decorate a function, which may be a coroutine or a generator: each call takes one."""
        return context_decorator(function, lambda: self)

    def __enter__(self) -> None:
        refuse_running_loop(type(self).__name__, "use `async with` there")
        self.take()

    def __exit__(self, *_: object) -> None:
        return

    async def __aenter__(self) -> None:
        await self.take_async()

    async def __aexit__(self, *_: object) -> None:
        return

    def _bucket(self, client: FlowRunner) -> Bucket[Any]:
        """Return the bucket of this session, which keeps what it has learned."""
        owner = client.client if isinstance(client, AsyncFlowRunner) else client
        bucket = self._bucket_of_client
        if bucket is None or bucket.client is not owner:
            self._bucket_of_client = bucket = self._on(owner)
        return bucket

    def _reset(self) -> None:
        super()._reset()
        self._bucket_of_client = None


def checked_rate(per_second: object) -> float:
    """Return a rate, checked.

    Raises:
        BadArgumentsError: it is not a number, or out of bounds.
    """
    is_number = isinstance(per_second, int | float) and not isinstance(per_second, bool)
    if not is_number or not PER_SECOND_MIN <= per_second <= PER_SECOND_MAX:  # type: ignore[operator]
        raise BadArgumentsError(
            "", f"per_second must be from {PER_SECOND_MIN} to {PER_SECOND_MAX}: {per_second!r}"
        )
    return float(per_second)  # type: ignore[arg-type]


def checked_burst(burst: object) -> int:
    """Return a burst, checked.

    Raises:
        BadArgumentsError: it is not an int, or out of bounds.
    """
    if type(burst) is not int or not 1 <= burst <= BURST_MAX:
        raise BadArgumentsError("", f"burst must be from 1 to {BURST_MAX}: {burst!r}")
    return burst
