"""The time settings of an ensemble, as users choose them (clusters/config.py), and derived times.

The shortest session may be shorter than the servers' own timeouts: then a leader that is cut off
must hold reads back long before it gives up its role (rule Z5).
"""

from msgspec import Struct

from raykeeper.zab.ids import Millis
from raykeeper.zab.settings import Timing
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.limits import Limits
from tests.simulation.network import SLOW_TIMES

STEP_MS = 2
"""How long an event waits for the step of its server, at most."""
ROOT = Identity("digest", digest_id("root", "simulated"))


class TimingPlan(Struct, frozen=True, omit_defaults=True):
    """The time settings of one ensemble. Kept plans without time settings have these defaults."""

    tick_ms: int = 200
    init_limit: int = 20
    sync_limit: int = 4
    session_min_ms: int = 1_000
    session_max_ms: int = 20_000

    def timing(self, tick_times: int = 1, sync_divisor: int = 1) -> Timing:
        """Return the times of Zab, for a server whose ticks are longer and limits lower."""
        sync_limit = max(-(-self.sync_limit // sync_divisor), 2)
        return Timing(Millis(self.tick_ms * tick_times), self.init_limit, sync_limit)

    def limits(self) -> Limits:
        """Return the limits of session timeouts."""
        return Limits(
            session_timeout_min_ms=Millis(self.session_min_ms),
            session_timeout_max_ms=Millis(self.session_max_ms),
            super_identities=(ROOT,),
        )

    @property
    def sync_ms(self) -> int:
        """Return the silence after which a server is taken for dead."""
        return self.tick_ms * self.sync_limit

    @property
    def init_ms(self) -> int:
        """Return the time after which a stalled election starts again."""
        return self.tick_ms * self.init_limit

    # The bounds of a world without faults. Failed elections take their whole timeout, and what is
    # left of dead clients lasts for the timeouts of their sessions; each may happen several times.

    @property
    def converge_ms(self) -> Millis:
        """Return the time until all servers agree and every client has its answers."""
        return Millis(max(60_000, 15 * self.init_ms, 60 * self.session_min_ms))

    @property
    def end_ms(self) -> Millis:
        """Return the time until sessions of dead clients end, also after losses of trackers."""
        return Millis(max(30_000, 30 * self.session_min_ms))

    @property
    def told_ms(self) -> Millis:
        """Return the time until every server knows which disks are lost."""
        return Millis(max(10_000, self.init_ms + 6_000))


def least_sync_ms(delay_ms_max: int, force_ms_max: int) -> int:
    """Return the shortest sync limit with which servers on such links and disks can work."""
    return (SLOW_TIMES + 6) * delay_ms_max + 2 * force_ms_max


def least_session_ms(delay_ms_max: int, touch_ms: int) -> int:
    """Return the shortest session timeout with which a session survives.

    A third of it passes until the next heartbeat, which must be confirmed within another third: it
    waits for the next report to the leader, which asks its followers, perhaps after a pending
    round. That takes eight links, one of them slow, and as many servers.
    """
    return 3 * (touch_ms + (SLOW_TIMES + 4) * delay_ms_max + 8 * STEP_MS)
