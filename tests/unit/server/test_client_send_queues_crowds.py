"""ClientSendQueues: a change that many clients watch, and the heartbeats of many clients."""

from raykeeper.server.client_send_queues import CONFIRMED_PER_STEP, NOTIFIED_PER_STEP
from raykeeper.server.events import ClientDisconnected
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import GetDataReply, WatcherEvent, WriteReply
from tests.harness.caller import Caller
from tests.harness.pure_servers import OPTIONS, PureServer

CROWD = 2 * NOTIFIED_PER_STEP + 1


def changed() -> tuple[PureServer, Caller, list[Caller]]:
    """A server that holds a change for its disk, the writer, and a crowd that watches the znode."""
    host = PureServer()
    writer = host.caller(1)
    writer.ask(writer.create("/a"))
    watchers = [host.caller(number) for number in range(2, 2 + CROWD)]
    for each in watchers:
        each.ask(each.get("/a", watch=True))
        each.new()
    host.is_disk_held = True
    host.step(writer.frame(writer.set("/a", b"new")))
    return host, writer, watchers


def told(watchers: list[Caller]) -> list[int]:
    """The places of those that got something new."""
    return [place for place, each in enumerate(watchers) if each.new()]


def test_events_alone_leave_in_several_steps_and_replies_at_once() -> None:
    host, writer, watchers = changed()
    writer.new()
    host.sync_disk()
    assert [type(item) for item in writer.new()] == [WriteReply]
    first = told(watchers)
    assert first == list(range(NOTIFIED_PER_STEP))
    assert host.server.deadline() == host.clock.now
    # Of one whose event waits, the event comes before the value; and it needs no second turn.
    last = watchers[-1]
    event, value = last.ask(last.get("/a"))
    assert (type(event), type(value)) == (WatcherEvent, GetDataReply)
    second = told(watchers)
    assert second == list(range(NOTIFIED_PER_STEP, 2 * NOTIFIED_PER_STEP))
    assert host.server.deadline() != host.clock.now


def test_the_events_of_a_client_that_is_gone_are_dropped() -> None:
    host, _, watchers = changed()
    host.sync_disk(ClientDisconnected(watchers[-1].connection))
    host.step()
    host.step()
    assert len(told(watchers)) == CROWD - 1


def test_a_connection_that_is_closed_gets_its_event_first() -> None:
    host, _, watchers = changed()
    last = watchers[-1]
    heir = Caller(host, 1_000)
    heir.take_up(last)
    host.sync_disk()
    assert [type(item) for item in last.new()] == [WatcherEvent]
    assert last.ended == Code.SESSION_MOVED


def heard() -> tuple[PureServer, list[Caller]]:
    """A server that is about to confirm a heartbeat of each client of a crowd."""
    host = PureServer()
    crowd = [host.caller(number) for number in range(1, 2 * CONFIRMED_PER_STEP + 2)]
    host.pass_time(2 * OPTIONS.session_report_ms)  # their first one, of the Connect
    host.step(*(each.frame() for each in crowd))
    deadline = host.server.deadline()
    assert deadline is not None
    host.clock.now = deadline
    return host, crowd


def confirmed(crowd: list[Caller]) -> list[int]:
    """The places of those that know their newest heartbeat to be confirmed."""
    newest = [[frame.heartbeat_seq for frame in each.answers][-1:] for each in crowd]
    return [place for place, each in enumerate(crowd) if newest[place] == [each.beat]]


def test_confirmations_alone_leave_in_several_steps() -> None:
    host, crowd = heard()
    host.step()
    assert confirmed(crowd) == list(range(CONFIRMED_PER_STEP))
    assert host.server.deadline() == host.clock.now
    host.step()
    assert confirmed(crowd) == list(range(2 * CONFIRMED_PER_STEP))
    host.step()
    assert confirmed(crowd) == list(range(len(crowd)))
    assert host.server.deadline() != host.clock.now
    assert all(len(each.answers) == 1 for each in crowd)


def test_a_confirmation_that_waits_leaves_with_the_next_reply() -> None:
    host, crowd = heard()
    host.step()
    last = crowd[-1]
    told_at = last.beat
    last.ask(last.exists("/"))
    (frame,) = last.answers
    assert (frame.heartbeat_seq, len(frame.items)) == (told_at, 1)
    host.step()
    host.step()
    assert len(last.answers) == 1 and host.server.deadline() != host.clock.now


def test_an_event_and_a_confirmation_leave_in_one_frame() -> None:
    host, crowd = heard()
    writer, reader = crowd[0], crowd[1]
    writer.ask(writer.create("/a"))
    reader.ask(reader.get("/a", watch=True))
    host.is_disk_held = True
    host.step(writer.frame(writer.set("/a", b"new")))
    before = len(reader.answers)
    due = host.server.deadline()
    assert due is not None
    host.clock.now = due
    host.sync_disk()
    (frame,) = reader.answers[before:]
    assert (frame.heartbeat_seq, len(frame.items)) == (reader.beat, 1)


def test_the_confirmation_of_a_client_that_is_gone_is_dropped() -> None:
    """The harness asserts that the server sends nothing after the end of a connection."""
    host, crowd = heard()
    host.step()
    host.step(ClientDisconnected(crowd[-1].connection))
    assert confirmed(crowd) == list(range(2 * CONFIRMED_PER_STEP))
    assert host.server.deadline() != host.clock.now
