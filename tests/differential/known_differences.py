"""Differences to ZooKeeper 3.8 that are meant, each with its reason.

The programs avoid most of what 3.8 does otherwise than 3.9; here is what is left.
"""

from collections.abc import Callable, Container
from typing import Final, NamedTuple

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import SetWatches2, WatcherEvent
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EventType
from tests.differential.transcripts import Line


class KnownDifference(NamedTuple):
    """One difference: what it is, and whether a pair of lines shows it."""

    reason: str
    fits: Callable[[Line, Line], bool]


def _exists_needs_read(left: Line, right: Line) -> bool:
    return left.told.opcode == OpCode.EXISTS and right.told.err == Code.NO_AUTH


def _finds_watches_of_others(left: Line, right: Line) -> bool:
    is_checking = left.told.opcode == OpCode.CHECK_WATCHES == right.told.opcode
    return is_checking and left.told.err == 0 and right.told.err == Code.NO_WATCHER


def _tells_of_the_deletion(left: Line, right: Line) -> bool:
    event, found = left.told.body, right.told.body
    if not (isinstance(event, WatcherEvent) and isinstance(found, WatcherEvent)):
        return False
    if event.type not in (EventType.CHANGED, EventType.CHILD):
        return False
    # The paths themselves have the roots of two runs.
    return right.text == left.text.replace(EventType(event.type).name, EventType.DELETED.name, 1)


_RECREATED: Final = KnownDifference(
    "a watch that is set again on a znode that was deleted and created is told the deletion",
    _tells_of_the_deletion,
)
_REPLAYED: Final = KnownDifference(
    "a persistent watch that is set again is told what it has missed", lambda _left, _right: False
)
KNOWN_DIFFERENCES: Final = (
    KnownDifference("exists needs READ since ZooKeeper 3.9.2 (CVE-2024-23944)", _exists_needs_read),
    KnownDifference("checkWatches finds watches of others before 3.9", _finds_watches_of_others),
)


def sets_watches_again(lines: list[Line]) -> frozenset[tuple[int, int]]:
    """Return the steps and sessions in which watches are set again."""
    return frozenset(
        (line.step, line.session) for line in lines if isinstance(line.told.request, SetWatches2)
    )


def known_difference(
    left: Line, right: Line, setting: Container[tuple[int, int]]
) -> KnownDifference | None:
    """Return why ZooKeeper's line `left` may be `right` here, None if it may not.

    `setting` are the steps and sessions in which watches are set again.
    """
    at = left.step, left.session
    if at != (right.step, right.session):
        return None
    if at in setting and _RECREATED.fits(left, right):
        return _RECREATED
    return next((known for known in KNOWN_DIFFERENCES if known.fits(left, right)), None)


def without_replayed(
    left: list[Line], right: list[Line]
) -> tuple[list[Line], list[KnownDifference]]:
    """Leave out of `right` the events that only a persistent watch was told when it was set again.

    Returns the lines that are left, and the reason for each that is not.
    """
    expected = {(line.step, line.session, line.text) for line in left}
    requests = {
        (line.step, line.session): line.told.request
        for line in right
        if isinstance(line.told.request, SetWatches2)
    }
    kept = [
        line
        for line in right
        if (line.step, line.session, line.text) in expected
        or not _is_replayed(line, requests.get((line.step, line.session)))
    ]
    return kept, [_REPLAYED] * (len(right) - len(kept))


def _is_replayed(line: Line, watches: SetWatches2 | None) -> bool:
    event = line.told.body
    if watches is None or not isinstance(event, WatcherEvent):
        return False
    return event.path in (watches.persistent_watches or ()) or any(
        event.path == above or event.path.startswith(f"{above}/")
        for above in watches.persistent_recursive_watches or ()
    )
