"""A lease: it ends after a bounded time, even if its holder lives on and does nothing.

    with client.lease("/leases/x", duration_s=30) as held:
        while work():
            held.renew()                # another 30 s from now, for the same token

The znode at `path` has a TTL instead of an owner: whatever happens to the holder, the lease ends
when it was not renewed for its duration. Nobody has to notice anything for that. The invariant of
this file: `lost` is set before anybody else can get the lease, because the holder counts the
duration from before its request, and the servers, which add a margin, count it from after; and a
renewal whose reply comes too late is a loss.

Two clocks decide: the leader's monotonic clock deletes the znode, and the monotonic clock of the
holder's process sets `lost`; neither can be set. They may differ by the margin, a twentieth of the
duration, at least 50 ms. Two cases are not covered. When a machine is suspended its monotonic clock
stands still, so the holder believes in the lease when it wakes up. And when the leader changes, the
new leader computes the time that passed before its term from the times of transactions: if an
earlier leader's wall clock jumped ahead, or was ahead of that of the leader before it, the znode
is deleted early, and the holder learns that from its watch, but only afterwards. The token covers
both cases: client/fencing.py.

The end of a lease wakes all that wait, as for the simple lock. kazoo: `NonBlockingLease`, whose
times are those of wall clocks. Gray and Cheriton, "Leases", SOSP 1989.
"""

from typing import Generic

from raykeeper.client import arguments
from raykeeper.client.core.flows import Flow, Now, Wait
from raykeeper.client.errors import LostError
from raykeeper.client.recipes.acquirable import Held, spawn_guard
from raykeeper.client.recipes.primitives import identifier_of, transact
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.client.recipes.simple_lock import SingleZnodeLock, create_when_free, watch_own_znode
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.requests import ANY_VERSION, SetData

MARGIN_DIVISOR = 20
MARGIN_MS_MIN = 50


class HeldLease(Held[K], Generic[K]):
    """A lease, until it ends, is released or is lost."""

    def __init__(
        self, client: FlowRunner, path: str, token: Zxid, identifier: bytes, duration_ms: Millis
    ) -> None:
        """Use the recipe, which sets `lost._deadline`."""
        super().__init__(client, f"the lease {path}", path, token)
        self._identifier = identifier
        self._duration_ms = duration_ms

    def _marks(self) -> tuple[str, ...]:
        return *super()._marks(), f"{self.left_s():.1f} s left"

    def left_s(self) -> float:
        """Return in how many seconds the lease ends if it is not renewed; 0 when it is lost."""
        if self.lost._deadline is None or self.lost.is_set():
            return 0.0
        return max(self.lost._deadline - self._client._now(), 0) / 1000

    @operation
    def renew(self) -> Flow[None]:
        """Hold the lease for its whole duration from now on.

        Raises:
            LostError: the lease was released, or ended before or during this call.
            KeeperError: it is unknown whether the lease was renewed; it ends at the old time.
        """
        if self._is_released:
            raise LostError(f"{self._what} was released before")
        asked_at = yield Now()
        self.lost.check()
        setting = SetData(self.path, self._identifier, ANY_VERSION)
        is_mine, _ = yield from transact([setting], [self._still_held_compare()])
        if not is_mine or self.lost.is_set() or self._is_released:
            # Somebody may have seen the old end by now, so it stands.
            self.lost._set()
            raise LostError(f"{self._what} ended before it was renewed")
        self.lost._deadline = Millis(asked_at + self._duration_ms)

    def _guard(self) -> Flow[None]:
        """Set `lost` when the duration is over, or the znode is deleted."""
        try:
            while not self._is_released and not self.lost.is_set():
                is_changed = yield Wait((self._changed,), self.lost._deadline)
                if self._is_released or (is_changed and not (yield from self._reread())):
                    break
        except KeeperError:
            pass  # the session is over
        if not self._is_released:
            self.lost._set()


class Lease(SingleZnodeLock[K, HeldLease[K]]):
    """A lock whose znode is `path` itself, and which ends by itself after its duration."""

    def __init__(
        self, client: FlowRunner, path: str, duration_s: float, identifier: bytes | None = None
    ) -> None:
        """Use `Client.lease`. `identifier` is shown to those who ask for the holder."""
        super().__init__(client, path, identifier, f"the lease {path}")
        self._duration_ms = arguments.milliseconds("duration_s", duration_s)

    def _acquire(self) -> Flow[HeldLease[K]]:
        """See `Acquirable`."""
        identifier = identifier_of(self._client, self._identifier)
        margin_ms = max(self._duration_ms // MARGIN_DIVISOR, MARGIN_MS_MIN)
        ttl_ms = Millis(self._duration_ms + margin_ms)
        asked_at, stat = yield from create_when_free(self.path, identifier, ttl_ms)
        held: HeldLease[K] = HeldLease(
            self._client, self.path, stat.czxid, identifier, self._duration_ms
        )
        held.lost._deadline = Millis(asked_at + self._duration_ms)
        yield from watch_own_znode(held)
        if held.lost.is_set():
            yield from held._release()
            raise LostError(f"{held._what} ended before its holder heard of it")
        return (yield from spawn_guard(held))
