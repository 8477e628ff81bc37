"""The bounds of what a client may ask for, checked against each other.

ZooKeeper: `jute.maxbuffer` (one bound on a whole packet, met by closing the connection),
`minSessionTimeout`, `maxSessionTimeout`. Here a value has its own bound and gets an error.
"""

from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import ENTRIES_CEILING, IDENTITIES_CEILING, Identity

PATH_CHARS_MAX: Final = 8192
"""A path is a key in memory and is repeated in txns, outcomes, watches and lists of children,
so it needs a bound of its own; this one is twice Linux's PATH_MAX, and at three bytes a character
a path still takes less than a fortieth of a frame with a value of 1 MiB."""

REPLY_CACHE_MAX: Final = 2000
"""Outcomes kept per session. A client never has more unacknowledged writes. Part of the replicated
state, so no setting: replicas that kept different numbers of them would differ."""

RESULTS_BYTES_MAX: Final = 4 << 20
"""The bytes of the reads in one transaction. More is refused with THROTTLED_OP."""

CACHED_RESULTS_BYTES_MAX: Final = 16 << 20
"""The bytes of transactions' results in the reply cache of one session, which bounds what a replica
keeps for it. More is refused with THROTTLED_OP."""

WATCHES_MAX: Final = 100_000
"""Watches of one connection: an event for each fits in memory when they all fire at once."""

VALUE_BYTES_CEILING: Final = 64 << 20
OP_SHARE_BYTES: Final = 32
"""A request may have an operation for so many of the bytes that it may have. Those of ZooKeeper's
programs have more: a header has 9 bytes, a creation without a path 49."""
ENTRY_SHARE_BYTES: Final = 64
"""The same for entries of ACLs: one for each creation in a full request, two for longer ones."""
SESSION_TIMEOUT_FLOOR_MS: Final = Millis(100)
SESSION_TIMEOUT_CEILING_MS: Final = Millis(24 * 3600 * 1000)

assert PATH_CHARS_MAX * 3 * REPLY_CACHE_MAX <= VALUE_BYTES_CEILING, "outcomes of one session"
assert RESULTS_BYTES_MAX < CACHED_RESULTS_BYTES_MAX


class Limits(Struct, frozen=True):
    """The bounds a leader applies. Leaders may differ: a txn holds the result, not the limit.

    Raises:
        ValueError: two limits contradict each other, or one is out of range.
    """

    value_bytes_max: int = 1 << 20
    path_chars_max: int = PATH_CHARS_MAX
    session_timeout_min_ms: Millis = Millis(2_000)
    session_timeout_max_ms: Millis = Millis(60_000)
    sessions_max: int = 100_000
    """Sessions of the ensemble; one more is refused with CONNECTION_LOSS and this number."""
    outcomes_max: int = REPLY_CACHE_MAX
    """Unacknowledged writes a client may have; never above what the replicas keep."""
    watches_max: int = WATCHES_MAX
    """Watches of one connection."""
    transaction_ops_max: int = 1_000
    """Operations in a branch of a transaction, and conditions, if it has more bytes than ..."""
    request_bytes_max: int = 0xFFFFF
    """... a request of ZooKeeper's clients. Shorter ones are bounded by their bytes, as there."""
    transaction_bytes_max: int = VALUE_BYTES_CEILING
    """A transaction as its client sends it: frames between servers have a bound too."""
    acl_entries_max: int = 64
    """Entries of the ACL of one znode."""
    session_identities_max: int = 64
    """Identities that one session has proved."""
    super_identities: tuple[Identity, ...] = ()
    """A session that proves one of these is exempt from all ACLs (schemes digest and scrypt)."""

    def __post_init__(self) -> None:
        _within("value_bytes_max", self.value_bytes_max, 1, VALUE_BYTES_CEILING)
        _within("path_chars_max", self.path_chars_max, 64, PATH_CHARS_MAX)
        _within(
            "session_timeout_min_ms",
            self.session_timeout_min_ms,
            SESSION_TIMEOUT_FLOOR_MS,
            self.session_timeout_max_ms,
        )
        _within(
            "session_timeout_max_ms",
            self.session_timeout_max_ms,
            self.session_timeout_min_ms,
            SESSION_TIMEOUT_CEILING_MS,
        )
        _within("sessions_max", self.sessions_max, 1, 10_000_000)
        _within("outcomes_max", self.outcomes_max, 1, REPLY_CACHE_MAX)
        _within("transaction_ops_max", self.transaction_ops_max, 1, 100_000)
        _within("request_bytes_max", self.request_bytes_max, 1, VALUE_BYTES_CEILING)
        _within("acl_entries_max", self.acl_entries_max, 1, ENTRIES_CEILING)
        _within("session_identities_max", self.session_identities_max, 1, IDENTITIES_CEILING)
        _within("transaction_bytes_max", self.transaction_bytes_max, 1, VALUE_BYTES_CEILING)
        _within("watches_max", self.watches_max, 1, 10_000_000)

    @property
    def request_ops_max(self) -> int:
        """Operations of one request of ZooKeeper's protocol."""
        return max(self.transaction_ops_max, self.request_bytes_max // OP_SHARE_BYTES)

    @property
    def request_entries_max(self) -> int:
        """Entries of all ACLs in one request of ZooKeeper's protocol: each may be a network to
        parse. Enough for 64 full lists, and for two entries in each operation of a transaction."""
        by_bytes = self.request_bytes_max // ENTRY_SHARE_BYTES
        return max(64 * self.acl_entries_max, 2 * self.transaction_ops_max, by_bytes)

    def ops_max(self, size: int) -> int:
        """Return how many operations a transaction of `size` bytes may have in a branch."""
        fits = size <= self.request_bytes_max
        return self.request_ops_max if fits else self.transaction_ops_max

    def session_timeout_of(self, asked_ms: Millis) -> Millis:
        """Return the timeout of a session whose client asked for `asked_ms`, any number at all."""
        return min(max(asked_ms, self.session_timeout_min_ms), self.session_timeout_max_ms)


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}, expected {least} to {most}")
