"""Feature levels: which formats and messages the servers of an ensemble may use.

A program knows the levels `LEVEL_MIN` to `LEVEL_MAX`, those of its version and of the one before.
A server announces its newest one to the leader in FOLLOWERINFO. Once all members follow and
announce a level, the leader raises the ensemble to it by a transaction, and from then on what
belongs to that level may be written to logs, snapshots and links. Until then every server writes as
the version before, so any of them can go back. docs/UPGRADING.md says how to add a level.

    level 1   the formats before there were levels
    level 2   `RaiseLevelTxn`, snapshots that name their level (format 4), identities that name that
              of their folder (version 3); member lists that change, with their transactions; states
              that were restored and name the salt of their ACLs; sessions that are suspected

Two numbers of a server matter, and they are not the same:

- The level *in force* is part of the replicated state (`State.level`): the raise is delivered. Only
  what is in force may be written.
- The level *required* of whoever reads this server's disk: the raise is logged, or may be. It is
  marked in the identity before the log holds the raise, so no older program starts there; and a
  leader admits no learner that does not know it, because it would send it that log. A raise that is
  cut off the log again leaves the mark: that only keeps out programs that would be harmless.

etcd has the cluster version, CockroachDB version gates; ZooKeeper has no counterpart.
"""

from typing import Annotated, Final, NewType

from msgspec import Meta

FeatureLevel = NewType("FeatureLevel", int)

LEVEL_MIN: Final = FeatureLevel(1)
LEVEL_MAX: Final = FeatureLevel(2)
LEVEL_OF_MEMBERS: Final = FeatureLevel(2)
"""From which the member list may change."""
LEVEL_OF_ACL_SALTS: Final = FeatureLevel(2)
"""From which a state may name the salt of its ACLs."""
LEVEL_OF_SUSPICION: Final = FeatureLevel(2)
"""From which sessions are suspected before they expire."""

assert LEVEL_MIN <= LEVEL_MAX <= LEVEL_MIN + 1, "a program knows its version and the one before"

WireLevel = Annotated[FeatureLevel, Meta(ge=1, le=(1 << 31) - 1)]


def level_problem(
    level: FeatureLevel, newest: FeatureLevel = LEVEL_MAX, oldest: FeatureLevel = LEVEL_MIN
) -> str:
    """Return why a program that knows these levels cannot read what is of `level`, "" if it can."""
    if oldest <= level <= newest:
        return ""
    known = f"{oldest} to {newest}" if oldest < newest else f"{newest} alone"
    return f"feature level {level}, and this program knows {known}; use the program of that level"


class FeatureLevels:
    """The levels of one server. `required` only rises."""

    __slots__ = ("newest", "raise_to", "required")

    def __init__(
        self,
        newest: FeatureLevel = LEVEL_MIN,
        required: FeatureLevel = LEVEL_MIN,
        raise_to: FeatureLevel | None = None,
    ) -> None:
        """Set up a server whose program knows everything up to `newest`.

        `required` is what its disk requires. A leader raises the ensemble to `raise_to` at most.
        """
        assert required <= newest, (required, newest)
        self.newest = newest
        self.required = required
        self.raise_to = newest if raise_to is None else min(newest, raise_to)

    def require(self, level: FeatureLevel) -> bool:
        """Note that the disk is going to hold something of `level`; return whether that is new."""
        if level <= self.required:
            return False
        assert level <= self.newest, (level, self.newest)
        self.required = level
        return True
