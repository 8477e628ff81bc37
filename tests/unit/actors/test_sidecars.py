"""The calls to the actors beside a replica: in order, one at a time, one report of a failure."""

import asyncio

import pytest

from raykeeper.actors.sidecars import (
    REPORTS_MAX,
    ActorCallQueue,
    SessionTrackerClient,
    SnapshotterClient,
    first_line,
)
from raykeeper.server.effects import (
    SnapshotAbort,
    SnapshotBegin,
    SnapshotEffect,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.server.events import (
    SessionsOverdue,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.zab.ids import Epoch, Zxid
from raykeeper.znodes.expiry import ExpiryProposal, SessionReport, decode_report
from raykeeper.znodes.requests import SessionId
from tests.unit.actors.companions import WAIT_S, ActorHandle, Events


async def test_items_are_processed_in_order_and_one_at_a_time() -> None:
    begun: list[int] = []
    gates = [asyncio.Event() for _ in range(3)]
    done = asyncio.Event()

    async def process_item(item: int) -> None:
        begun.append(item)
        await gates[item].wait()
        if item == 2:
            done.set()

    def on_failure(item: int, reason: str) -> None:
        raise AssertionError((item, reason))

    queue = ActorCallQueue(lambda: None, process_item, on_failure)
    for item in range(3):
        queue.put(item)
    async with asyncio.timeout(WAIT_S):
        for item, gate in enumerate(gates):
            while len(begun) == item:
                await asyncio.sleep(0)
            assert begun == list(range(item + 1))
            assert len(queue) == 2 - item
            gate.set()
        await done.wait()


async def test_the_actor_is_looked_up_once_until_it_fails() -> None:
    found: list[object] = []
    had_handle: list[bool] = []
    failures: list[tuple[int, str]] = []
    done = asyncio.Event()

    def find() -> object:
        found.append(object())
        return found[-1]

    async def process_item(item: int) -> None:
        had_handle.append(queue.has_handle)
        try:
            assert await queue.handle() is await queue.handle() is found[-1]
            if item == 2:
                raise ValueError("gone\nwith a long story")
        finally:
            if item == 3:
                done.set()

    queue = ActorCallQueue(find, process_item, lambda *failure: failures.append(failure))
    assert not queue.has_handle
    for item in range(4):
        queue.put(item)
    async with asyncio.timeout(WAIT_S):
        await done.wait()
    assert had_handle == [False, True, True, False]
    assert (len(found), failures) == (2, [(2, "gone")])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("gone\nwith a long story"), "gone"),
        (ValueError(""), "ValueError"),
    ],
)
def test_an_error_is_reported_by_its_first_line(error: Exception, text: str) -> None:
    assert first_line(error) == text


def report(batch: int) -> SessionReport:
    return SessionReport(Epoch(1), batch, batch == 1, [], [])


def proposal(batch: int) -> ExpiryProposal:
    return ExpiryProposal(Epoch(1), SessionId(1), Zxid(1), batch)


class Tracker:
    """A tracker that proposes one session per report, and forgets or fails at some batches."""

    def __init__(self, forgets: int = 0, dies: int = 0) -> None:
        self.reported: list[int] = []
        self._forgets = forgets
        self._dies = dies

    def track(self, report: bytes) -> list[ExpiryProposal] | None:
        batch = decode_report(report).batch
        self.reported.append(batch)
        if batch == self._dies:
            raise RuntimeError("the actor died\nlong story")
        return None if batch == self._forgets else [proposal(batch)]


async def test_every_report_is_sent_and_answered_in_order() -> None:
    tracker, events, lookups = Tracker(), Events(), []

    def find() -> ActorHandle:
        lookups.append(1)
        return ActorHandle(tracker)

    calls = SessionTrackerClient(find, events.deliver, events.log)
    for batch in range(1, 6):
        calls.track(report(batch))
    await events.wait(5)
    calls.track(report(6))
    assert await events.wait(6) == [SessionsOverdue([proposal(batch)]) for batch in range(1, 7)]
    assert tracker.reported == [1, 2, 3, 4, 5, 6]
    assert lookups == [1]


async def test_a_failure_is_one_loss_and_the_tracker_is_looked_up_again() -> None:
    trackers = [Tracker(dies=1), Tracker(forgets=3), Tracker()]
    events = Events()
    waiting = list(trackers)
    calls = SessionTrackerClient(lambda: ActorHandle(waiting.pop(0)), events.deliver, events.log)
    calls.track(report(1))
    calls.track(report(2))
    assert await events.wait(1) == [TrackerLost()]
    calls.track(report(3))
    assert await events.wait(2) == [TrackerLost(), TrackerLost()]
    calls.track(report(4))
    assert (await events.wait(3))[2] == SessionsOverdue([proposal(4)])
    assert [tracker.reported for tracker in trackers] == [[1], [3], [4]]
    assert events.reasons == [
        "the actor died",
        "the tracker was restarted and knows no session",
    ]


async def test_a_tracker_that_cannot_be_found_or_keep_up_is_lost() -> None:
    events = Events()

    def find() -> ActorHandle:
        raise ValueError

    calls = SessionTrackerClient(find, events.deliver, events.log)
    calls.track(report(1))
    assert await events.wait(1) == [TrackerLost()]

    late = SessionTrackerClient(lambda: ActorHandle(Tracker()), events.deliver, events.log)
    for batch in range(REPORTS_MAX + 1):
        late.track(report(batch))
    assert await events.wait(2) == [TrackerLost()] * 2
    assert events.reasons == ["ValueError", "more than 64 reports wait for the tracker"]


async def test_nothing_is_sent_after_the_close() -> None:
    tracker, events = Tracker(), Events()
    calls = SessionTrackerClient(lambda: ActorHandle(tracker), events.deliver, events.log)
    calls.close()
    calls.track(report(1))
    calls.close()
    await asyncio.sleep(0)
    assert tracker.reported == []
    assert events.delivered == []


Z5, Z6, Z9 = Zxid(5), Zxid(6), Zxid(9)


class Snapshotter:
    """A Snapshotter that records its calls, and fails at one chunk."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def begin(self, zxid: Zxid) -> None:
        self.told.append(("begin", zxid))

    def write(self, zxid: Zxid, data: bytes) -> None:
        self.told.append(("write", zxid, data))
        if data == b"poison":
            raise RuntimeError("disk full\nlong story")

    def finish(self, zxid: Zxid, consistent_at: Zxid) -> None:
        self.told.append(("finish", zxid, consistent_at))

    def abort(self, zxid: Zxid) -> None:
        self.told.append(("abort", zxid))
        if zxid == Z9:
            raise RuntimeError("gone")


def run(effects: list[SnapshotEffect], completions: int) -> tuple[Snapshotter, Events, int]:
    lookups = []

    async def scenario() -> tuple[Snapshotter, Events, int]:
        snapshotter, events = Snapshotter(), Events()

        def find() -> ActorHandle:
            lookups.append(1)
            return ActorHandle(snapshotter)

        calls = SnapshotterClient(find, events.deliver, events.log)
        for effect in effects:
            calls.perform(effect)
        await events.wait(completions)
        return snapshotter, events, len(lookups)

    return asyncio.run(scenario())


def test_a_snapshot_goes_out_in_order_with_a_credit_for_each_chunk() -> None:
    effects: list[SnapshotEffect] = [
        SnapshotBegin(Z5),
        SnapshotWrite(Z5, b"a"),
        SnapshotWrite(Z5, b"b"),
        SnapshotFinish(Z5, Z9),
    ]
    snapshotter, events, lookups = run(effects, 3)
    assert events.delivered == [SnapshotCredited(Z5), SnapshotCredited(Z5), SnapshotWritten(Z5)]
    assert snapshotter.told == [
        ("begin", Z5),
        ("write", Z5, b"a"),
        ("write", Z5, b"b"),
        ("finish", Z5, Z9),
    ]
    assert lookups == 1


def test_a_failure_ends_that_snapshot_and_not_the_next() -> None:
    effects: list[SnapshotEffect] = [
        SnapshotBegin(Z5),
        SnapshotWrite(Z5, b"poison"),
        SnapshotWrite(Z5, b"b"),
        SnapshotFinish(Z5, Z9),
        SnapshotAbort(Z5),
        SnapshotBegin(Z6),
        SnapshotWrite(Z6, b"c"),
    ]
    snapshotter, events, lookups = run(effects, 2)
    assert events.delivered == [SnapshotFailed(Z5), SnapshotCredited(Z6)]
    assert events.reasons == ["disk full"]
    assert snapshotter.told[1:] == [("write", Z5, b"poison"), ("begin", Z6), ("write", Z6, b"c")]
    assert lookups == 2


def test_an_abort_has_no_completion_even_if_it_fails() -> None:
    effects: list[SnapshotEffect] = [
        SnapshotAbort(Z9),
        SnapshotBegin(Z5),
        SnapshotAbort(Z5),
        SnapshotBegin(Z6),
        SnapshotWrite(Z6, b"c"),
    ]
    snapshotter, events, _ = run(effects, 1)
    assert events.delivered == [SnapshotCredited(Z6)]
    assert ("abort", Z5) in snapshotter.told


async def test_nothing_is_performed_after_the_close() -> None:
    snapshotter, events = Snapshotter(), Events()
    calls = SnapshotterClient(lambda: ActorHandle(snapshotter), events.deliver, events.log)
    calls.close()
    calls.perform(SnapshotBegin(Z5))
    calls.close()
    await asyncio.sleep(0)
    assert snapshotter.told == []
