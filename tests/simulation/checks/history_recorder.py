"""Record the history of a run for the checker: every write, and every read right after a sync.

The checker is that of chaos runs (`raykeeper.chaos.checks`): it gets what clients saw, and when.
Where a client learned nothing, the history holds the truth: the outcome of an unanswered write, and
the end of a session. Otherwise the search for an order would have to try every subset of the
unknown outcomes after an outage.
"""

from collections.abc import Callable, Iterable, Sequence

from raykeeper.chaos.checks.history import (
    Call,
    History,
    MultiCall,
    Ok,
    Operation,
    Read,
    ReadKind,
    Refused,
    Session,
    SessionEnded,
)
from raykeeper.chaos.checks.judge import GENERAL_CHECKS
from raykeeper.chaos.checks.linearizability import LinearizabilityReport, check_linearizability
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.znodes.replies import ExistsReply, GetDataReply, WriteReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetData,
    Multi,
    SessionId,
    SetData,
    Sync,
)
from raykeeper.znodes.txns import MultiResults
from tests.harness.schedule import Schedule
from tests.simulation.checks import multi_history
from tests.simulation.checks.session_view import PendingRequest, SessionView, Told

_KINDS = {GetData: ReadKind.GET, Exists: ReadKind.EXISTS}


class Clock:
    """A clock whose moments are in the order of events: virtual microseconds, no two the same."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._last = 0

    def tick(self) -> int:
        """Return the moment of the present event."""
        self._last = max(self._last + 1, self._schedule.now * 1_000)
        return self._last


class HistoryRecorder:
    """Writes down the operations of one run."""

    def __init__(self, schedule: Schedule) -> None:
        self.clock = Clock(schedule)
        self.ended_by_itself: list[Operation] = []

    def ended(self, path: str) -> None:
        """Record that an expiring znode is about to end; no request tells of that."""
        number, now = len(self.ended_by_itself) + 1, self.clock.tick()
        call = Delete(path, ANY_VERSION)
        self.ended_by_itself.append(Operation("nobody", 1, number, now, call, now, Ok()))

    def asked(self, seen: SessionView, ask: NewRequest) -> Operation | None:
        """Record a request; return None if it is not part of the order."""
        synced_at, seen.synced_at = seen.synced_at, 0
        call: Call
        if isinstance(ask, Multi):
            call = MultiCall([])  # filled in when the answer arrives
        elif isinstance(ask, Create | SetData | Delete | CloseSession):
            call = ask
        elif not isinstance(ask, Query):
            return None
        elif ask.kind is Sync:
            seen.synced_at = self.clock.tick()
            return None
        elif not (synced_at or ask.linearizable) or ask.kind not in _KINDS:
            return None
        else:
            call = Read(ask.path, _KINDS[ask.kind], is_synced=True)  # type: ignore[index]
        number = len(seen.operations) + 1
        called = synced_at if isinstance(call, Read) and synced_at else self.clock.tick()
        operation = Operation(seen.name, seen.life, number, called, call)
        seen.operations.append(operation)
        return operation

    def was_late(self, seen: SessionView, operation: Operation) -> None:
        """Record that a request was sent again on another connection, or waited for a leader.

        Such a read may show a later write of its client, so it loses its place in that client's
        order.
        """
        if isinstance(operation.call, Read):
            seen.operations.remove(operation)
            seen.late.append(operation)

    def left_out(self, seen: SessionView, asked: PendingRequest) -> None:
        """Drop a request that a server without a leader refused or answered: it had no sync."""
        operation, asked.operation = asked.operation, None
        if operation is not None:
            seen.operations.remove(operation)

    def answered(self, seen: SessionView, asked: PendingRequest, answer: SuccessReply) -> None:
        """Record a success, or an aborted multi."""
        operation = asked.operation
        assert operation is not None
        operation.returned = self.clock.tick()
        seen.last_success = operation.called
        if isinstance(answer, WriteReply) and isinstance(asked.ask, Multi):
            _have_done(seen, operation, asked.ask, answer.code, answer.results)
        elif isinstance(answer, WriteReply):
            operation.result = Ok(path=answer.path, stat=answer.stat)
        elif isinstance(answer, GetDataReply):
            operation.result = Ok(value=answer.value or b"", stat=answer.stat)
        else:
            assert isinstance(answer, ExistsReply), answer
            operation.result = Ok(stat=answer.stat)

    def refused(
        self, seen: SessionView, asked: PendingRequest, code: int, due: Told | None
    ) -> None:
        """Record an error without effect. `due` is the answer that a write must get."""
        operation = asked.operation
        assert operation is not None
        operation.returned = self.clock.tick()
        if isinstance(asked.ask, Multi):
            _have_done(seen, operation, asked.ask, code, due.results if due else None)
        else:
            operation.result = Refused(code)


def history_keeps_its_promises(
    sessions: Iterable[SessionView],
    told: Callable[[SessionView, int], Told | None],
    ended_by_itself: Sequence[Operation] = (),
) -> LinearizabilityReport:
    """Check that one order explains every answer, and respects time and each client's order.

    `told` returns the outcome of each write, `ended_by_itself` the znodes without a delete request.
    """
    history = History()
    nobody = Session("nobody", 1, SessionId(0), list(ended_by_itself), [])
    history.sessions["nobody", 1] = nobody
    for seen in sessions:
        for asked in [*seen.unknown, *seen.pending]:
            _tell_the_truth(seen, asked, told(seen, asked.number))
        ended = None
        if seen.ended_at is not None:
            ended = SessionEnded(seen.name, seen.life, seen.last_success, seen.ended_at)
        history.sessions[seen.name, seen.life] = Session(
            seen.name, seen.life, seen.session_id, seen.operations, [], ended
        )
        for place, operation in enumerate(seen.late):
            key = (f"{seen.name}, late {place}", seen.life)
            history.sessions[key] = Session(*key, seen.session_id, [operation], [])
    broken = [text for check in GENERAL_CHECKS for text in check(history)]
    if broken:
        raise AssertionError(f"History: {broken[0]}")
    result = check_linearizability(
        history, reads_in_order=True
    )  # delayed operations are kept apart
    if result.violations:
        texts = "\n".join(violation.text for violation in result.violations)
        raise AssertionError(f"Linearizability: {texts}")
    return result


def _tell_the_truth(seen: SessionView, asked: PendingRequest, due: Told | None) -> None:
    """Complete an operation that was never answered; drop it if it had no effect."""
    operation = asked.operation
    if operation is None:
        return
    if due is None:
        seen.operations.remove(operation)
        return
    operation.returned = asked.done_at or seen.done_at[asked.number - 1]
    if isinstance(asked.ask, Multi):
        _have_done(seen, operation, asked.ask, due.code, due.results)
    else:
        operation.result = Refused(due.code) if due.code else Ok(path=due.path, stat=due.stat)


def _have_done(
    seen: SessionView, operation: Operation, ask: Multi, code: int, results: MultiResults | None
) -> None:
    """Complete a multi that was answered; drop it if its answer proves nothing."""
    said = multi_history.said_by(ask, code, results)
    if said is None:
        seen.operations.remove(operation)
    else:
        operation.call, operation.result = said
