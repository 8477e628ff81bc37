"""What holds within each session: order of answers, reads that never go back, event before state.

The paper's guarantees to one client (section 2.3), judged by zxids, which the ensemble tells in
every Stat and with every event: linearizability does not look at them, nor at reads without sync.
Every check yields a sentence for each violation.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping

from raykeeper.chaos.history import (
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
from raykeeper.znodes.stat import Stat

Changes = Mapping[str, list[Zxid]]
"""By path, in order: the transactions that are known to have changed the znode."""


def known_changes(history: History) -> Changes:
    """All creations and changes of values that any client was told of.

    Not deletions: one that happened while the client was between two servers is told with the
    zxid of the state that lacks the znode, which is later than the deletion.
    """
    found: dict[str, set[Zxid]] = {}
    for operation in history.operations:
        stat, path = _stat_of(operation), _path_of(operation)
        if stat is not None:
            found.setdefault(path, set()).update((stat.czxid, stat.mzxid))
    for session in history.sessions.values():
        for event in session.fired:
            if event.kind in (EventType.CREATED, EventType.CHANGED):
                found.setdefault(event.path, set()).add(event.zxid)
    return {path: sorted(zxids) for path, zxids in found.items()}


def answers_in_order(history: History) -> Iterator[str]:
    """FIFO: a session's requests are answered, and its writes done, in the order of submission."""
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
            if not isinstance(operation.result, Ok):
                continue
            if isinstance(operation.call, SetData):
                if operation.result.zxid <= last_zxid:
                    yield f"fifo: {operation} is not after the session's write before it"
                last_zxid = operation.result.zxid
            elif is_sequential(operation):
                path, number = _path_of(operation), sequence_number(operation)
                if number <= last_numbers.get(path, -1):
                    yield f"fifo: {operation} has not the higher number"
                last_numbers[path] = number


def reads_never_go_back(history: History) -> Iterator[str]:
    """Whoever has seen the state as of a transaction never again sees one from before it."""
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
            stat = _stat_of(operation)
            if stat is None:
                continue
            missed = _first_between(changes.get(_path_of(operation), []), stat.mzxid, seen)
            if missed is not None:
                yield (
                    f"reads go back: {operation} shows the state of {format_zxid(stat.mzxid)}, "
                    f"not of {format_zxid(missed)}, but the session had seen {format_zxid(seen)}"
                )
            seen = max(seen, stat.mzxid, stat.pzxid)


def events_come_before_state(history: History) -> Iterator[str]:
    """A client that watches is told of a change before it can see its effect, and once."""
    for session in history.sessions.values():
        yield from _missing_events(session)
        yield from _repeated_events(session)


def _missing_events(session: Session) -> Iterator[str]:
    """Follow each watched znode: what the watch saw, what was seen since, what was fired."""
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
                yield f"event before state: {operation} shows what {since} watched for, untold"
                del watched[key]
            elif is_told:
                del watched[key]
        if _sets_watch(operation):
            watched.setdefault(key, operation)


def _repeated_events(session: Session) -> Iterator[str]:
    """Each watch that was set is called once at most."""
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
    """When watches were called, by path, apart those on the children."""
    times: dict[tuple[str, bool], list[int]] = {}
    for event in fired:
        times.setdefault((event.path, event.kind is EventType.CHILD), []).append(event.at)
    return times


def _shown(operation: Operation) -> object:
    """What a read tells of the state that a watch of its kind waits to change."""
    result = operation.result
    assert isinstance(operation.call, Read)
    if not isinstance(result, Ok):
        return None
    if operation.call.kind is ReadKind.CHILDREN:
        return frozenset(result.children or ())
    return result.stat.mzxid if result.stat is not None else None


def _is_answered(operation: Operation) -> bool:
    """Whether the ensemble answered with a state, be it that there is no such znode."""
    result = operation.result
    return isinstance(result, Ok) or (isinstance(result, Refused) and result.code == Code.NO_NODE)


def _sets_watch(operation: Operation) -> bool:
    """A watch on a znode that is not there is set by `exists` alone, which is no error then."""
    call = operation.call
    return isinstance(call, Read) and call.is_watched and isinstance(operation.result, Ok)


def _any_between(times: list[int], since: int, until: int) -> bool:
    return bisect_left(times, since) < bisect_right(times, until)


def _first_between(zxids: list[Zxid], above: Zxid, upto: Zxid) -> Zxid | None:
    """The first of the zxids in (above, upto]."""
    place = bisect_right(zxids, above)
    return zxids[place] if place < len(zxids) and zxids[place] <= upto else None


def _stat_of(operation: Operation) -> Stat | None:
    return operation.result.stat if isinstance(operation.result, Ok) else None


def _path_of(operation: Operation) -> str:
    path: str = getattr(operation.call, "path", "")
    return path


def is_sequential(operation: Operation) -> bool:
    """Whether it creates a znode whose name the ensemble completes."""
    return isinstance(operation.call, Create) and bool(operation.call.flags & CreateMode.SEQUENTIAL)


def sequence_number(operation: Operation) -> int:
    """The number that an acknowledged sequential creation was given."""
    assert isinstance(operation.result, Ok), operation
    return int(operation.result.path[-SEQUENCE_DIGITS:])
