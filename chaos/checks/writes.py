"""Checks of all writes together: none is lost, none is done twice, zxids follow real time.

They use zxids, versions and the final state and need no search, so they are independent of the
check of linearizability. Every check yields a sentence for each violation.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from raykeeper.chaos.checks.history import History, Operation, Read, ReadKind
from raykeeper.chaos.checks.sessions import sequence_number
from raykeeper.zab.ids import ZERO, Zxid, format_zxid
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.requests import CloseSession, Create, CreateMode, Delete, SessionId, SetData
from raykeeper.znodes.stat import Stat


class FinalState:
    """The last synced read of every path, after which no client wrote."""

    def __init__(self, history: History) -> None:
        self._reads: dict[tuple[str, ReadKind], Operation] = {}
        for operation in history.operations:
            call = operation.call
            if isinstance(call, Read) and call.is_synced and operation.returned is not None:
                key = (call.path, call.kind)
                if key not in self._reads or self._reads[key].called < operation.called:
                    self._reads[key] = operation

    def of(self, path: str) -> Operation | None:
        """Return the last read of a znode; an error means that the znode is missing."""
        return self._reads.get((path, ReadKind.GET))

    def children(self, path: str) -> set[str] | None:
        """Return the full paths of the children; None when they were not read."""
        read = self._reads.get((path, ReadKind.CHILDREN))
        if read is None or read.ok is None:
            return None
        return {f"{path}/{name}" for name in read.ok.children or ()}


def lost_writes(history: History) -> Iterator[str]:
    """An acknowledged write is in the final state, or a later write replaced it."""
    final = FinalState(history)
    deletes: dict[str, list[Operation]] = {}
    writers: dict[bytes, Operation] = {}
    for operation in history.operations:
        call = operation.call
        if isinstance(call, Delete) and (operation.result is None or operation.ok):
            deletes.setdefault(call.path, []).append(operation)
        elif isinstance(call, Create | SetData):
            writers[call.value or b""] = operation
    for operation in history.operations:
        if operation.ok is None or not isinstance(operation.call, Create | SetData):
            continue
        path = operation.path
        if any(_may_follow(delete, operation) for delete in deletes.get(path, ())):
            continue  # the znode may be gone, and a later one at its path proves nothing
        if operation.creates(CreateMode.EPHEMERAL):
            continue  # its session has ended
        if operation.creates(CreateMode.SEQUENTIAL):
            children = final.children(parent_of(path))
            read = final.of(path)
            if (children is not None and path not in children) or (
                read is not None and not _has_value(read, operation)
            ):
                yield f"lost: {operation}, and nobody deleted it"
        elif (read := final.of(path)) is not None and not _holds(read, operation, writers):
            yield f"lost: {operation}; the final read is {read}"


def _has_value(read: Operation, write: Operation) -> bool:
    """Return whether the read shows the value of this very write."""
    assert isinstance(write.call, Create | SetData)
    return read.ok is not None and read.ok.value == write.call.value


def _holds(read: Operation, write: Operation, writers: dict[bytes, Operation]) -> bool:
    """Return whether a znode that nobody deleted ends with this write or a later one."""
    result = read.ok
    if result is None or result.value is None or result.stat is None:
        return False
    if _has_value(read, write):
        return True
    if isinstance(write.call, SetData) and write.ok is not None:
        return result.stat.mzxid > write.ok.zxid
    last = writers.get(result.value)
    return last is not None and _may_follow(last, write)


def writes_follow_real_time(history: History) -> Iterator[str]:
    """A write that was called after another one returned has the higher zxid.

    This holds for sets of any znodes, and for the numbers of sequential znodes under one parent.
    """
    sets = [op for op in history.parts if isinstance(op.call, SetData) and op.ok]
    yield from _out_of_order(sets, _zxid_of, "zxid")
    for creations in _numbered_creations(history).values():
        yield from _out_of_order(creations, sequence_number, "number")


def sequence_numbers_never_repeat(history: History) -> Iterator[str]:
    """No two creations under one parent get the same number."""
    for creations in _numbered_creations(history).values():
        given: dict[int, Operation] = {}
        for operation in creations:
            number = sequence_number(operation)
            if number in given:
                yield f"sequence number given twice: {given[number]} and {operation}"
            given[number] = operation


def creations_are_done_once(history: History) -> Iterator[str]:
    """No value is read at two paths, as no value is written twice."""
    made: dict[bytes, str] = {}
    for operation in history.operations:
        value = operation.ok.value if operation.ok is not None else None
        if value is None or not isinstance(operation.call, Read):
            continue
        path = operation.call.path
        if made.setdefault(value, path) != path:
            yield f"done twice: {value!r} is in {made[value]} and in {path}"


def values_were_written(history: History) -> Iterator[str]:
    """A value that is read was written there by an earlier request; one zxid is one state."""
    writers = {
        op.call.value: op
        for op in history.operations
        if isinstance(op.call, Create | SetData) and op.call.value
    }
    states: dict[tuple[str, Zxid], tuple[bytes | None, Operation]] = {}
    for operation in history.operations:
        result = operation.ok
        if result is None or result.stat is None:
            continue
        call: Any = operation.call
        value = call.value if isinstance(call, SetData) else result.value
        if value is None:
            continue
        if value:
            writer = writers.get(value)
            if writer is None or not _wrote(writer, call.path, operation):
                yield f"nobody wrote it: {operation}"
        known, other = states.setdefault((call.path, result.stat.mzxid), (value, operation))
        if known != value:
            yield f"two states at {format_zxid(result.stat.mzxid)}: {other} and {operation}"


def synced_reads_are_fresh(history: History) -> Iterator[str]:
    """A synced read shows every set of its znode that returned before the read was called."""
    by_path: dict[str, list[tuple[int, Zxid]]] = {}
    for operation in history.parts:
        if isinstance(operation.call, SetData) and operation.ok:
            assert operation.returned is not None
            entry = (operation.returned, _zxid_of(operation))
            by_path.setdefault(operation.call.path, []).append(entry)
    for path, reads in _synced_reads(history).items():
        sets = sorted(by_path.get(path, ()))
        newest, place = ZERO, 0
        for read, stat in reads:
            while place < len(sets) and sets[place][0] < read.called:
                newest = max(newest, sets[place][1])
                place += 1
            if stat.mzxid < newest:
                yield f"stale: {read} shows {format_zxid(stat.mzxid)}, not {format_zxid(newest)}"


def ephemerals_end_with_their_session(history: History) -> Iterator[str]:
    """After a session certainly ended, no synced read shows its znodes, and it writes nothing."""
    over: dict[SessionId, int] = {}
    for session in history.sessions.values():
        ends = [session.ended.until] if session.ended is not None else []
        ends += [
            op.returned for op in session.operations if isinstance(op.call, CloseSession) and op.ok
        ]
        certain = [end for end in ends if end is not None]
        if not certain:
            continue
        end = min(certain)
        if session.session_id:
            over[session.session_id] = end
        for operation in session.operations:
            if operation.called > end and operation.ok:
                yield f"session is over, but {operation}"
    for reads in _synced_reads(history).values():
        for read, stat in reads:
            owner = SessionId(stat.ephemeral_owner)
            if owner and read.called > over.get(owner, read.called):
                yield f"ephemeral outlives its session {owner:#x}: {read}"


def is_acked_write(operation: Operation) -> bool:
    """Return whether the operation changed the tree and its client was told so."""
    return isinstance(operation.call, Create | SetData | Delete) and operation.ok is not None


def _synced_reads(history: History) -> dict[str, list[tuple[Operation, Stat]]]:
    """Return the synced reads that found a znode, by path and in the order of their calls."""
    found: dict[str, list[tuple[Operation, Stat]]] = {}
    for operation in history.parts:
        call, stat = operation.call, operation.stat
        if isinstance(call, Read) and call.is_synced and stat is not None:
            found.setdefault(call.path, []).append((operation, stat))
    for reads in found.values():
        reads.sort(key=lambda read: read[0].called)
    return found


def _numbered_creations(history: History) -> dict[str, list[Operation]]:
    """Return the sequential creations under each parent, which counts from 0 if created again."""
    deleted = history.deleted_paths()
    found: dict[str, list[Operation]] = {}
    for operation in history.parts:
        if operation.creates(CreateMode.SEQUENTIAL) and operation.ok:
            parent = parent_of(operation.path)
            if parent not in deleted:
                found.setdefault(parent, []).append(operation)
    return found


def _out_of_order(operations: Iterable[Operation], rank: Any, what: str) -> Iterator[str]:
    """Find operations that returned before another was called, but rank above it."""
    operations = list(operations)
    returned = sorted(operations, key=attrgetter("returned"))
    highest: Operation | None = None
    place = 0
    for operation in sorted(operations, key=attrgetter("called")):
        while place < len(returned) and returned[place].returned < operation.called:  # type: ignore[operator]
            if highest is None or rank(returned[place]) > rank(highest):
                highest = returned[place]
            place += 1
        if highest is not None and rank(operation) <= rank(highest):
            yield f"{what} against real time: {operation} after {highest}"


def _may_follow(later: Operation, earlier: Operation) -> bool:
    """Return whether `later` may have taken effect after the acknowledged `earlier`."""
    return later.returned is None or later.returned >= earlier.called


def _wrote(writer: Operation, path: str, reader: Operation) -> bool:
    assert isinstance(writer.call, Create | SetData) and reader.returned is not None
    prefix = writer.call.path
    is_sequential = writer.creates(CreateMode.SEQUENTIAL)
    is_there = path.startswith(prefix) if is_sequential else path == prefix
    return is_there and writer.called <= reader.returned


def _zxid_of(operation: Operation) -> Zxid:
    assert operation.ok is not None, operation
    return operation.ok.zxid if operation.stat is None else operation.stat.mzxid
