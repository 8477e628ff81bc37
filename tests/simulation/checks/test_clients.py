"""Checks of clients: a kept promise passes, and each broken one raises an error that names it.

The file is long because it is one table: each check, kept and broken.
"""

from collections.abc import Callable

import pytest
from msgspec import Struct, structs

from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.client.core.public_types import ClientId, ClientState, WatchedEvent
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.errors import (
    BadVersionError,
    Code,
    ConnectionLossError,
    KeeperError,
    NoNodeError,
    SessionExpiredError,
    SessionMovedError,
)
from raykeeper.znodes.replies import (
    EventType,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SessionId,
    SetData,
    Sync,
    WriteOp,
)
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    Txn,
)
from tests.harness.schedule import Schedule
from tests.simulation.checks import answers, execution, session_deadlines, sessions
from tests.simulation.checks.committed import Committed
from tests.simulation.checks.session_view import (
    PendingRequest,
    SessionView,
    Told,
    new_session_view,
    takes_over,
)
from tests.simulation.checks.truth import PastZnode, Truth
from tests.simulation.checks.watches import Watches

SESSION, OTHER = SessionId(make_zxid(Epoch(1), 1)), SessionId(make_zxid(Epoch(1), 2))
PASSWORD = b"p" * 16


class Core(Struct):
    """The state of a client's core."""

    session_id: SessionId
    last_zxid: Zxid = Zxid(0)
    _server: ServerId = ServerId(1)


class Client(Struct):
    """A client that keeps its session until it lets go."""

    core: Core | None
    life: int = 1
    lets_go_at: int = 1_000
    has_let_go: bool = False
    speaks_jute: bool = False
    heard_sent_at: int = 0


def z(counter: int) -> Zxid:
    return make_zxid(Epoch(1), counter)


def opening(session_id: SessionId, password: bytes = PASSWORD) -> CreateSessionTxn:
    return CreateSessionTxn(session_id, password, Millis(1), ServerId(1), 1)


def opened(session_id: SessionId, password: bytes = PASSWORD) -> Txn:
    return Txn(SessionId(0), 0, 0, Millis(0), opening(session_id, password))


def closing(session_id: SessionId, number: int = 0) -> Txn:
    by = session_id if number else SessionId(0)
    return Txn(by, number, 0, Millis(0), CloseSessionTxn(session_id, []))


def world(*ops: WriteOp) -> Truth:
    """Return one session, 1:1, and its writes from 1:3 on; and another session, 1:2."""
    truth = Truth()
    truth.apply(z(1), opened(SESSION))
    truth.apply(z(2), opened(OTHER, b"o" * 16))
    for number, op in enumerate(ops, 1):
        change = execution.execute(truth, z(number + 2), Millis(0), SESSION, op)
        truth.apply(z(number + 2), Txn(SESSION, number, 0, Millis(0), change))
    return truth


def client(**fields: object) -> SessionView:
    """Return the client of that session."""
    seen = new_session_view("c1", 1, Client(Core(SESSION)))
    seen.session_id = SESSION
    for name, value in fields.items():
        setattr(seen, name, value)
    return seen


def was(truth: Truth, path: str, counter: int) -> PastZnode:
    found = truth.at(path, z(counter))
    assert found is not None
    return found


MADE, SET, CHILD, GONE = (
    Create("/a", b"0", 0),
    SetData("/a", b"1", -1),
    Create("/a/x", b"", 0),
    Delete("/a", -1),
)
TRUTH = world(MADE, SET, CHILD)  # 1:3, 1:4, 1:5
FIRST, SECOND = was(TRUTH, "/a", 3), was(TRUTH, "/a", 4)
FULL = was(TRUTH, "/a", 5)
GET, EXISTS, LIST = Query(GetData, "/a"), Query(Exists, "/a"), Query(GetChildren, "/a")


def write(number: int, ask: NewRequest = MADE) -> PendingRequest:
    return PendingRequest(ask, number, Zxid(0))


def told(counter: int, path: str = "/a") -> Told:
    return Told(z(counter), 0, path, FIRST.stat)


def failed(counter: int, query: Query, error: KeeperError) -> Callable[[], object]:
    """Fail a read of a client that has seen 1:`counter`."""
    seen, asked = client(zxid=z(counter)), PendingRequest(query, 0, z(1))
    return lambda: answers.missing_is_true(TRUTH, seen, asked, error)


def read(
    query: Query, answer: GetDataReply | ExistsReply | GetChildrenReply
) -> Callable[[], object]:
    return lambda: answers.reads_are_true(TRUTH, client(), query, answer)


def close(txn: Txn, seen: SessionView, *, truth: Truth | None = None) -> Callable[[], object]:
    change = txn.body
    assert isinstance(change, CloseSessionTxn)
    return lambda: sessions.ends_once_and_with_a_reason(
        truth or world(), txn, change, seen, is_known=True
    )


def closed_world() -> Truth:
    truth = world()
    truth.apply(z(3), closing(SESSION))
    return truth


def one_write(number: int, seen: SessionView) -> Callable[[], object]:
    session = world(MADE).sessions[SESSION]
    txn = Txn(SESSION, number, 0, Millis(0), DeleteTxn("/a"))
    return lambda: sessions.exactly_once(session, txn, seen)


RIGHT: list[Callable[[], object]] = [
    lambda: answers.reads_never_go_back(client(zxid=z(3)), z(3)),
    lambda: answers.writes_come_after_earlier_reads(client(read=z(3)), z(4)),
    lambda: answers.nothing_is_shown_before_it_is_committed(TRUTH, client(), z(5)),
    lambda: answers.syncs_are_recent(client(), PendingRequest(Query(Sync, "/"), 0, z(3)), z(3)),
    lambda: answers.answer_is_the_outcome(
        client(), write(1), WriteReply(1, z(3), 0, "/a", FIRST.stat), told(3)
    ),
    lambda: answers.refusal_is_the_outcome(
        client(), write(1), Code.NODE_EXISTS, Told(z(3), Code.NODE_EXISTS, "", None)
    ),
    read(GET, GetDataReply(1, z(3), b"0", FIRST.stat)),
    read(GET, GetDataReply(1, z(4), b"1", SECOND.stat)),
    read(EXISTS, ExistsReply(1, z(2), None)),
    read(EXISTS, ExistsReply(1, z(5), FULL.stat)),
    read(LIST, GetChildrenReply(1, z(4), [], SECOND.stat)),
    read(LIST, GetChildrenReply(1, z(5), ["x"], FULL.stat)),
    lambda: answers.missing_is_true(
        TRUTH, client(zxid=z(2)), PendingRequest(GET, 0, z(1)), NoNodeError("/a")
    ),
    lambda: answers.late_requests_never_leave(client(), ConnectionLossError("/a")),
    lambda: answers.refused_only_without_a_leader(
        client(was_read_only=True), PendingRequest(MADE, 0, z(1))
    ),
    lambda: answers.answered_without_a_leader(
        client(is_read_only=True), PendingRequest(GET, 0, z(1))
    ),
    lambda: answers.denied_has_no_effect(client(), write(1), None),
    one_write(2, client(writes=[MADE, GONE])),
    close(closing(SESSION), client(is_over=True)),
    close(closing(SESSION), client(client=Client(Core(SESSION), has_let_go=True))),
    close(closing(SESSION, 1), client(has_closed=True)),
    lambda: sessions.sessions_open_once(world(), OTHER, opening(OTHER, b"o" * 16)),
    lambda: sessions.sessions_open_once(
        world(), z(9), opening(SESSION, b"x" * 16), ClientId(SESSION, PASSWORD)
    ),
    lambda: sessions.a_closed_handle_has_not_expired(
        client(has_closed=True, fenced_after=0), SessionMovedError()
    ),
    lambda: sessions.one_session_for_a_client(world(), client(), opening(SESSION)),
    lambda: sessions.one_session_for_a_client(closed_world(), client(), opening(SessionId(9))),
    lambda: sessions.one_session_for_a_client(
        world(), client(fenced_after=1), opening(SessionId(9))
    ),
    lambda: sessions.expired_sessions_are_not_answered(TRUTH, client()),
    lambda: sessions.expired_sessions_are_not_answered(closed_world(), client(has_closed=True)),
    lambda: sessions.expired_sessions_are_not_answered(
        closed_world(), client(is_read_only=True, was_connected=False)
    ),
    lambda: sessions.expired_sessions_are_not_answered(
        world(), client(session_id=0, is_read_only=True, was_connected=False)
    ),
    lambda: session_deadlines.lets_go_before_it_can_expire("c1", 10, 10),
    lambda: session_deadlines.old_news_are_kept_back(ServerId(1), Millis(9), Millis(5), Millis(5)),
    lambda: session_deadlines.servers_keep_the_protocol("c1", "link broken"),
    lambda: sessions.the_newest_connection_keeps_its_session("c1", "link broken"),
    lambda: sessions.reconnects_come_to_an_end("c1", sessions.LOSSES_MAX, 0),
    lambda: sessions.reconnects_come_to_an_end("c1", sessions.LOSSES_MAX + 2, 1),
]


@pytest.mark.parametrize("keeps", RIGHT)
def test_a_kept_promise_passes(keeps: Callable[[], object]) -> None:
    keeps()


BROKEN: list[tuple[str, Callable[[], object]]] = [
    # Order.
    ("Fifo", lambda: answers.answers_in_order(client(), GET)),
    ("Fifo", lambda: _answered_out_of_order()),
    ("Fifo", lambda: answers.writes_come_after_earlier_reads(client(read=z(3)), z(3))),
    ("Monotonic", lambda: answers.reads_never_go_back(client(zxid=z(3)), z(2))),
    (
        "Sync",
        lambda: answers.syncs_are_recent(
            client(), PendingRequest(Query(Sync, "/"), 0, z(3)), z(2)
        ),
    ),
    (
        "Integrity",
        lambda: answers.nothing_is_shown_before_it_is_committed(TRUTH, client(), z(6)),
    ),
    # The truth of reads: value, version, moment, existence, children.
    ("Truth", read(GET, GetDataReply(1, z(3), b"1", FIRST.stat))),
    ("Truth", read(GET, GetDataReply(1, z(4), b"1", FIRST.stat))),
    ("Truth", read(GET, GetDataReply(1, z(2), b"0", FIRST.stat))),
    ("Truth", read(EXISTS, ExistsReply(1, z(3), None))),
    ("Truth", read(EXISTS, ExistsReply(1, z(2), FIRST.stat))),
    ("Truth", read(LIST, GetChildrenReply(1, z(5), [], FULL.stat))),
    ("Truth", read(LIST, GetChildrenReply(1, z(5), ["y"], FULL.stat))),
    ("Truth", read(LIST, GetChildrenReply(1, z(5), ["x", "x"], FULL.stat))),
    ("Truth", read(LIST, GetChildrenReply(1, z(4), ["x"], SECOND.stat))),
    (
        "Truth",
        failed(3, GET, NoNodeError("/a")),
    ),
    ("Truth", failed(0, EXISTS, NoNodeError("/a"))),
    ("Truth", failed(0, GET, BadVersionError("/a"))),
    # Without a leader.
    (
        "ReadOnly",
        lambda: answers.refused_only_without_a_leader(client(), PendingRequest(MADE, 0, z(1))),
    ),
    (
        "ReadOnly",
        lambda: answers.refused_only_without_a_leader(client(was_read_only=True), write(1)),
    ),
    *(
        (
            "ReadOnly",
            lambda ask=ask: answers.answered_without_a_leader(  # type: ignore[misc]
                client(is_read_only=True), PendingRequest(ask, 0, z(1))
            ),
        )
        for ask in (MADE, Query(Sync, "/"), Query(GetData, "/a", linearizable=True))
    ),
    # Exactly once.
    ("ExactlyOnce", one_write(1, client(writes=[MADE, GONE]))),
    ("ExactlyOnce", one_write(3, client(writes=[MADE, GONE, GONE]))),
    ("ExactlyOnce", one_write(2, client(writes=[MADE]))),
    ("ExactlyOnce", one_write(2, client(writes=[MADE, GONE], denied={2}))),
    (
        "ExactlyOnce",
        lambda: answers.answer_is_the_outcome(
            client(), write(1), WriteReply(2, z(3), 0, "/a", FIRST.stat), told(3)
        ),
    ),
    *(
        (
            "ExactlyOnce",
            lambda due=due: answers.answer_is_the_outcome(  # type: ignore[misc]
                client(), write(1), WriteReply(1, z(3), 0, "/a", FIRST.stat), due
            ),
        )
        for due in (None, told(4), told(3, "/b"), structs.replace(told(3), stat=SECOND.stat),
                    structs.replace(told(3), code=Code.NODE_EXISTS))
    ),
    (
        "ExactlyOnce",
        lambda: answers.refusal_is_the_outcome(client(), write(1), Code.NODE_EXISTS, told(3)),
    ),
    (
        "ExactlyOnce",
        lambda: answers.refusal_is_the_outcome(client(), write(1), Code.NODE_EXISTS, None),
    ),
    (
        "ExactlyOnce",
        lambda: sessions.only_the_end_of_a_session_fails_requests(
            client(), ConnectionLossError("/a")
        ),
    ),
    (
        "ExactlyOnce",
        lambda: sessions.a_closed_handle_has_not_expired(
            client(has_closed=True), SessionExpiredError()
        ),
    ),
    ("Definite", lambda: answers.denied_has_no_effect(client(), write(1), told(3))),
    (
        "Definite",
        lambda: answers.indefinite_only_where_it_may_have_happened(
            PendingRequest(GET, 0, z(1)), ConnectionLossError("/a", definite=False)
        ),
    ),
    (
        "Definite",
        lambda: answers.late_requests_never_leave(
            client(), ConnectionLossError("/a", definite=False)
        ),
    ),
    # Sessions.
    (
        "ExpiredSessions",
        lambda: sessions.expired_sessions_do_nothing(None, closing(SESSION, 1)),
    ),
    (
        "ExpiredSessions",
        lambda: sessions.expired_sessions_do_nothing(
            closed_world().sessions[SESSION], closing(SESSION, 1)
        ),
    ),
    ("SessionsOpen", lambda: sessions.sessions_open_once(world(), z(9), opening(SessionId(8)))),
    (
        "SessionsOpen",
        lambda: sessions.sessions_open_once(closed_world(), z(9), opening(SESSION)),
    ),
    *(
        (
            "SessionsOpen",
            lambda takes=takes: sessions.sessions_open_once(  # type: ignore[misc]
                world(), z(9), opening(SESSION, b"x" * 16), takes
            ),
        )
        for takes in (None, ClientId(SESSION, b"y" * 16), ClientId(OTHER, PASSWORD))
    ),
    (
        "ExactlyOnce",
        lambda: sessions.a_closed_handle_has_not_expired(
            client(has_closed=True), SessionMovedError()
        ),
    ),
    (
        "SessionsOpen",
        lambda: sessions.one_session_for_a_client(world(), None, opening(SESSION)),
    ),
    (
        "SessionsOpen",
        lambda: sessions.one_session_for_a_client(world(), client(), opening(SessionId(9))),
    ),
    ("SessionEnds", close(closing(SESSION), client(is_over=True), truth=closed_world())),
    ("SessionEnds", close(closing(SessionId(9)), client(is_over=True))),
    ("SessionEnds", close(closing(SESSION, 1), client())),
    (
        "SessionEnds",
        close(Txn(OTHER, 1, 0, Millis(0), CloseSessionTxn(SESSION, [])), client(has_closed=True)),
    ),
    (
        "Ephemerals",
        lambda: sessions.owns_only_for_itself(
            Txn(SESSION, 1, 0, Millis(0), CreateTxn("/a", b"", OTHER, 1)),
            CreateTxn("/a", b"", OTHER, 1),
        ),
    ),
    # When a client must let go.
    ("LetGo", close(closing(SESSION), client())),
    ("LetGo", lambda: sessions.only_who_has_let_go_expires(client(), is_known=True)),
    ("LetGo", lambda: sessions.expired_sessions_are_not_answered(closed_world(), client())),
    (
        "LetGo",
        lambda: sessions.expired_sessions_are_not_answered(world(), client(session_id=0)),
    ),
    *(
        (
            "LetGo",
            lambda truth=truth, known=known: (  # type: ignore[misc]
                sessions.expired_sessions_are_not_answered(truth, client(**known))
            ),
        )
        for truth, known in (
            (closed_world(), {"is_read_only": True, "was_connected": True}),
            (world(), {"session_id": 0, "is_read_only": True, "was_connected": True}),
        )
    ),
    (
        "LetGo",
        lambda: sessions.expired_sessions_are_not_answered(
            closed_world(),
            client(is_read_only=True, client=Client(Core(SESSION), has_let_go=True)),
        ),
    ),
    ("LetGo", lambda: session_deadlines.lets_go_before_it_can_expire("c1", 11, 10)),
    (
        "OldNews",
        lambda: session_deadlines.old_news_are_kept_back(ServerId(1), Millis(9), None, Millis(5)),
    ),
    (
        "OldNews",
        lambda: session_deadlines.old_news_are_kept_back(
            ServerId(1), Millis(9), Millis(4), Millis(5)
        ),
    ),
    (
        "Protocol",
        lambda: session_deadlines.servers_keep_the_protocol(
            "c1", "it answered what was not asked: x"
        ),
    ),
    (
        "SessionsMove",
        lambda: sessions.the_newest_connection_keeps_its_session("c1", str(SessionMovedError())),
    ),
    (
        "StaysConnected",
        lambda: sessions.reconnects_come_to_an_end("c1", sessions.LOSSES_MAX + 1, 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "breaks"), BROKEN)
def test_a_broken_promise_is_named(name: str, breaks: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=f"^{name}: "):
        breaks()


def _answered_out_of_order() -> None:
    seen = client()
    seen.pending.extend([PendingRequest(EXISTS, 0, z(1)), PendingRequest(GET, 0, z(1))])
    answers.answers_in_order(seen, GET)


# Watches: set as of 1:3 on /a, which changes in 1:4, gets a child in 1:5, and goes in 1:7.

LATER = world(MADE, SET, CHILD, Delete("/a/x", -1), GONE)


class Story:
    """A client with one watch, and the rest of the truth."""

    def __init__(self, counter: int = 3, *, is_child: bool = False, is_missing: bool = False):
        self.seen = client()
        self.watches = Watches(LATER)
        key = ("/a", is_child)
        self.watches.is_set(self.seen, key, "token", z(counter), is_missing=is_missing)

    def shown(self, counter: int) -> "Story":
        self.watches.event_before_the_state_it_announces(self.seen, z(counter))
        return self

    def told(self, kind: EventType, counter: int, *tokens: str) -> "Story":
        event = WatchedEvent(kind, ClientState.CONNECTED, "/a", z(counter))
        self.watches.once_and_true(self.seen, list(tokens or ("token",)), event)
        return self


def test_correct_events_pass() -> None:
    changed, child, gone = EventType.CHANGED, EventType.CHILD, EventType.DELETED
    Story().shown(3).told(changed, 4).shown(9)
    Story(is_child=True).shown(4).told(child, 5).shown(9)
    Story(is_child=True).shown(4).told(child, 6).shown(9)  # one event for two children
    Story(counter=5).shown(6).told(gone, 7).shown(9)
    Story().told(gone, 9).shown(9)  # behind a broken connection only the end is known
    Story(counter=2, is_missing=True).shown(2).told(EventType.CREATED, 3).shown(9)
    Story(counter=2, is_missing=True).shown(7)  # it came and went
    Story(counter=8, is_missing=True).shown(9).watches.no_event_missed(client())


WATCHES: list[tuple[str, Callable[[], object]]] = [
    # Late, or never.
    ("WatchBeforeRead", lambda: Story().shown(4)),
    ("WatchBeforeRead", lambda: Story(is_child=True).shown(5)),
    ("WatchBeforeRead", lambda: Story(counter=2, is_missing=True).shown(3)),
    ("WatchBeforeRead", lambda: _missed(Story())),
    # Twice, without a watch, or for another client's watch.
    ("WatchOnce", lambda: Story().told(EventType.CHANGED, 4).told(EventType.CHANGED, 4)),
    ("WatchOnce", lambda: Story().told(EventType.CHILD, 5)),
    ("WatchOnce", lambda: Story().told(EventType.CHANGED, 4, "token", "token")),
    ("WatchOnce", lambda: Story().told(EventType.CHANGED, 4, "another")),
    ("WatchOnce", lambda: Story().told(EventType.CHANGED, 4, "token", "another")),
    # Of a change that did not happen, at another time, or before the watch was set.
    ("WatchTrue", lambda: Story().told(EventType.CREATED, 4)),
    ("WatchTrue", lambda: Story().told(EventType.CHANGED, 5)),
    ("WatchTrue", lambda: Story().told(EventType.CHANGED, 3)),
    ("WatchTrue", lambda: Story(counter=5).told(EventType.CHANGED, 4)),
    ("WatchTrue", lambda: Story(is_child=True).told(EventType.CHILD, 4)),
    ("WatchTrue", lambda: Story().told(EventType.DELETED, 5)),
    ("WatchTrue", lambda: Story(counter=8, is_missing=True).told(EventType.CREATED, 3)),
]


@pytest.mark.parametrize(("name", "breaks"), WATCHES)
def test_a_broken_watch_is_named(name: str, breaks: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=f"^{name}: "):
        breaks()


def _missed(story: Story) -> None:
    story.watches.no_event_missed(story.seen)


def test_a_watch_set_before_its_trigger_is_due_at_the_trigger() -> None:
    truth = world(MADE)
    seen, watches = client(), Watches(truth)
    watches.is_set(seen, ("/a", False), "token", z(3), is_missing=False)
    watches.event_before_the_state_it_announces(seen, z(3))
    assert not seen.due
    change = execution.execute(truth, z(4), Millis(0), SESSION, SET)
    watches.happened(truth.apply(z(4), Txn(SESSION, 2, 0, Millis(0), change)))
    with pytest.raises(AssertionError, match=r"^WatchBeforeRead: "):
        watches.event_before_the_state_it_announces(seen, z(4))


def test_a_session_taken_over_goes_on_with_its_numbers() -> None:
    committed = Committed(Schedule(1))
    committed.told[SESSION] = {1: told(3), 2: told(4, "/b")}
    former, seen = client(writes=[MADE, GONE], done_at=[7]), client(name="c2")
    takes_over(seen, former, 1)
    assert (seen.writes, seen.done_at) == ([MADE], [7])
    assert committed.told_to(former, 1) == told(3)
    assert committed.told_to(former, 2) is None  # the write of another client
    assert committed.told_to(seen, 2) == told(4, "/b")
