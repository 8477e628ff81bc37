"""Differences to ZooKeeper that are meant, each with its reason.

The programs avoid most of what 3.8 does otherwise than 3.9; here is what is left.
"""

import re
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from raykeeper.jute.multi import MultiRequest, MultiResponse, Operation
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import CreateRequest, SetWatches2, WatcherEvent
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import CreateMode
from tests.differential.targets import Version
from tests.differential.transcripts import Line


class KnownDifference(NamedTuple):
    """One difference: what it is, whether a pair of lines shows it, and the version it ends at."""

    reason: str
    fits: Callable[[Line, Line], bool]
    before: Version = (99,)


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


def _ops(line: Line) -> list[Operation]:
    request = line.told.request
    return request.ops if isinstance(request, MultiRequest) else []


def _is_malformed(op: Operation) -> bool:
    """Return whether 3.9 cannot read an operation at all."""
    body = op.body
    is_plain = isinstance(body, CreateRequest)
    return is_plain and (body.acl is None or body.flags not in range(CreateMode.TTL))


def _refuses_operations_by_themselves(left: Line, right: Line) -> bool:
    has_malformed = any(map(_is_malformed, _ops(right)))
    return has_malformed and not left.told.err and right.told.err == Code.MARSHALLING_ERROR


def _tells_no_stat_of_create2(left: Line, right: Line) -> bool:
    was, now = left.told.body, right.told.body
    if not (isinstance(was, MultiResponse) and isinstance(now, MultiResponse)):
        return False
    # Of each creation that is told with its Stat here: whether it is told without it there.
    shorter = [
        (op.type, one.type)
        for op, one, other in zip(_ops(right), was.results, now.results, strict=True)
        if other.type == OpCode.CREATE2
    ]
    if any(asked == OpCode.CREATE_TTL for asked, told in shorter if told == OpCode.CREATE):
        return False
    told = iter(shorter)
    return left.text == _WITH_STAT.sub(
        lambda found: f"1 {found[1]}" if next(told)[1] == OpCode.CREATE else found[0], right.text
    )


_WITH_STAT: Final = re.compile(r"15 ('(?:[^'\\]|\\.)*') Stat\([^()]*\)")
_RECREATED: Final = KnownDifference(
    "a watch that is set again on a znode that was deleted and created is told the deletion",
    _tells_of_the_deletion,
)
_REPLAYED: Final = KnownDifference(
    "a persistent watch that is set again is told what it has missed", lambda _left, _right: False
)
KNOWN_DIFFERENCES: Final = (
    KnownDifference(
        "exists needs READ since ZooKeeper 3.9.2 (CVE-2024-23944)", _exists_needs_read, (3, 9, 2)
    ),
    KnownDifference(
        "checkWatches finds watches of others before 3.9", _finds_watches_of_others, (3, 9)
    ),
    KnownDifference(
        "create2 in a multi is told without its Stat before 3.9", _tells_no_stat_of_create2, (3, 9)
    ),
    KnownDifference(
        "a creation in a multi that cannot be is refused by itself before 3.9",
        _refuses_operations_by_themselves,
        (3, 9),
    ),
)


def sets_watches_again(lines: list[Line]) -> frozenset[tuple[int, int]]:
    """Return the steps and sessions in which watches are set again."""
    return frozenset(
        (line.step, line.session) for line in lines if isinstance(line.told.request, SetWatches2)
    )


def known_difference(
    left: Line, right: Line, setting: Container[tuple[int, int]], version: Version
) -> KnownDifference | None:
    """Return why the line `left` of ZooKeeper's `version` may be `right` here, None if it may not.

    `setting` are the steps and sessions in which watches are set again.
    """
    at = left.step, left.session
    if at != (right.step, right.session):
        return None
    if at in setting and _RECREATED.fits(left, right):
        return _RECREATED
    of_version = (known for known in KNOWN_DIFFERENCES if version < known.before)
    return next((known for known in of_version if known.fits(left, right)), None)


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
