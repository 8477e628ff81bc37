"""Checks of each session: order of answers, monotonic reads, events before state.

These are the paper's guarantees to one client (section 2.3). They are judged by the zxids in every
Stat and event; the check of linearizability looks neither at zxids nor at reads without a sync.
Every check yields a sentence for each violation.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping

from raykeeper.chaos.checks.history import (
    Fired,
    History,
    Ok,
    Operation,
    Read,
    ReadKind,
    Refused,
    Session,
)
from raykeeper.zab.ids import ZERO, Zxid, format_zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import SEQUENCE_DIGITS
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import Create, CreateMode, SetData

Changes = Mapping[str, list[Zxid]]
"""For each path, in order, the zxids of the transactions that are known to have changed it."""


def known_changes(history: History) -> Changes:
    """Return all creations and value changes that any client was told of.

    Deletions do not count: a client that was between two servers is told of a deletion with the
    zxid of the state that lacks the znode, which is later than the deletion.
    """
    found: dict[str, set[Zxid]] = {}
    for operation in history.parts:
        stat, path = operation.stat, operation.path
        if stat is not None:
            found.setdefault(path, set()).update((stat.czxid, stat.mzxid))
    for session in history.sessions.values():
        for event in session.fired:
            if event.kind in (EventType.CREATED, EventType.CHANGED):
                found.setdefault(event.path, set()).add(event.zxid)
    return {path: sorted(zxids) for path, zxids in found.items()}


def answers_in_order(history: History) -> Iterator[str]:
    """FIFO: requests are answered, and writes executed, in the order of submission."""
    for session in history.sessions.values():
        returned = 0
        last_zxid = ZERO
        last_numbers: dict[str, int] = {}
        for operation in session.operations:
            if operation.returned is None:
                continue
            if operation.returned < returned:
                yield f"fifo: {operation} was answered before an earlier request"
            returned = operation.returned
            if operation.ok is None:
                continue
            if isinstance(operation.call, SetData):
                if operation.ok.zxid <= last_zxid:
                    yield f"fifo: {operation} has no higher zxid than the session's write before it"
                last_zxid = operation.ok.zxid
            elif isinstance(operation.call, Create) and operation.creates(CreateMode.SEQUENTIAL):
                path, number = operation.call.path, sequence_number(operation)
                if number <= last_numbers.get(path, -1):
                    yield f"fifo: {operation} has no higher number than the creation before it"
                last_numbers[path] = number


def reads_never_go_back(history: History) -> Iterator[str]:
    """A session that saw the state of a transaction never sees an earlier state again."""
    changes = known_changes(history)
    for session in history.sessions.values():
        seen = ZERO
        events = deque(sorted((event.at, event.zxid) for event in session.fired))
        for operation in session.operations:
            if operation.returned is None:
                continue
            # An event may have overtaken the answers to requests that were under way.
            while events and events[0][0] < operation.called:
                seen = max(seen, events.popleft()[1])
            # A multi may read a znode before it changes it: its parts show states of one
            # transaction, and each is compared with what the session had seen before the multi.
            stats = [(part, part.stat) for part in operation.parts()]
            for part, stat in stats:
                if stat is None:
                    continue
                missed = _first_between(changes.get(part.path, []), stat.mzxid, seen)
                if missed is not None:
                    yield (
                        f"reads go back: {part} shows the state of {format_zxid(stat.mzxid)}, "
                        f"not of {format_zxid(missed)}, but the session had seen "
                        f"{format_zxid(seen)}"
                    )
            seen = max([seen, *(max(stat.mzxid, stat.pzxid) for _, stat in stats if stat)])


def events_come_before_state(history: History) -> Iterator[str]:
    """A watch fires once, and before its client can see the change."""
    for session in history.sessions.values():
        yield from _missing_events(session)
        yield from _repeated_events(session)


def _missing_events(session: Session) -> Iterator[str]:
    """Find reads that show a change of a watched znode before the watch fired."""
    fired = _times_by_path(session.fired)
    watched: dict[tuple[str, bool], Operation] = {}
    for operation in session.operations:
        if not isinstance(operation.call, Read) or not _is_answered(operation):
            continue
        assert operation.returned is not None
        key = (operation.call.path, operation.call.kind is ReadKind.CHILDREN)
        since = watched.get(key)
        if since is not None:
            is_told = _any_between(fired.get(key, []), since.called, operation.returned)
            if not is_told and _shown(since) != _shown(operation):
                yield f"event before state: {since} set a watch, and {operation} came first"
                del watched[key]
            elif is_told:
                del watched[key]
        if _sets_watch(operation):
            watched.setdefault(key, operation)


def _repeated_events(session: Session) -> Iterator[str]:
    """Find watches that fired more often than they were set."""
    registered: dict[tuple[str, bool], list[int]] = {}
    for operation in session.operations:
        call = operation.call
        if isinstance(call, Read) and _sets_watch(operation):
            key = (call.path, call.kind is ReadKind.CHILDREN)
            registered.setdefault(key, []).append(operation.called)
    for key, times in _times_by_path(session.fired).items():
        path, of_children = key
        for count, at in enumerate(times, 1):
            if count > bisect_right(registered.get(key, []), at):
                what = "children of " if of_children else ""
                who = f"{session.client}.{session.life}"
                yield f"watch fired without being set: {what}{path} at {at} in {who}"
                break


def _times_by_path(fired: list[Fired]) -> dict[tuple[str, bool], list[int]]:
    """Return when watches fired, by path and whether they watch the children."""
    times: dict[tuple[str, bool], list[int]] = {}
    for event in fired:
        times.setdefault((event.path, event.kind is EventType.CHILD), []).append(event.at)
    return times


def _shown(operation: Operation) -> object:
    """Return the part of the state whose change fires a watch of this read's kind."""
    result = operation.result
    assert isinstance(operation.call, Read)
    if not isinstance(result, Ok):
        return None
    if operation.call.kind is ReadKind.CHILDREN:
        return frozenset(result.children or ())
    return result.stat.mzxid if result.stat is not None else None


def _is_answered(operation: Operation) -> bool:
    """Return whether the answer tells a state, which may be that the znode is missing."""
    result = operation.result
    return isinstance(result, Ok) or (isinstance(result, Refused) and result.code == Code.NO_NODE)


def _sets_watch(operation: Operation) -> bool:
    """Only `exists` sets a watch on a missing znode, and then its answer is no error."""
    call = operation.call
    return isinstance(call, Read) and call.is_watched and operation.ok is not None


def _any_between(times: list[int], since: int, until: int) -> bool:
    return bisect_left(times, since) < bisect_right(times, until)


def _first_between(zxids: list[Zxid], above: Zxid, upto: Zxid) -> Zxid | None:
    """Return the first of the zxids in (above, upto]."""
    place = bisect_right(zxids, above)
    return zxids[place] if place < len(zxids) and zxids[place] <= upto else None


def sequence_number(operation: Operation) -> int:
    """Return the number that an acknowledged sequential creation was given."""
    return int(operation.path[-SEQUENCE_DIGITS:])
