"""SessionTrackerClient: reports in order, one call at a time, one loss for one failure."""

import asyncio

from raykeeper.actors.session_tracker_client import WAITING_MAX, SessionTrackerClient
from raykeeper.server.events import SessionsOverdue, TrackerLost
from raykeeper.zab.ids import Epoch, Zxid
from raykeeper.znodes.expiry import ExpiryProposal, SessionReport
from raykeeper.znodes.requests import SessionId
from tests.unit.actors.companions import Companion, Events


def report(batch: int) -> SessionReport:
    return SessionReport(Epoch(1), batch, batch == 1, [], [])


def verdict(batch: int) -> ExpiryProposal:
    return ExpiryProposal(Epoch(1), SessionId(1), Zxid(1), batch)


class Tracker:
    """Judges one session with each report; forgets, or dies, at some batches."""

    def __init__(self, forgets: int = 0, dies: int = 0) -> None:
        self.reported: list[int] = []
        self._forgets = forgets
        self._dies = dies

    def track(self, report: SessionReport) -> list[ExpiryProposal] | None:
        self.reported.append(report.batch)
        if report.batch == self._dies:
            raise RuntimeError("the actor died\nlong story")
        return None if report.batch == self._forgets else [verdict(report.batch)]


def test_every_report_is_told_and_answered_in_order() -> None:
    async def scenario() -> None:
        tracker, events, lookups = Tracker(), Events(), []

        def find() -> Companion:
            lookups.append(1)
            return Companion(tracker)

        calls = SessionTrackerClient(find, events.deliver, events.log)
        for batch in range(1, 6):
            calls.track(report(batch))
        await events.wait(5)
        calls.track(report(6))
        assert await events.wait(6) == [SessionsOverdue([verdict(batch)]) for batch in range(1, 7)]
        assert tracker.reported == [1, 2, 3, 4, 5, 6]
        assert lookups == [1]

    asyncio.run(scenario())


def test_a_failure_is_one_loss_whatever_waits_and_the_tracker_is_found_anew() -> None:
    async def scenario() -> None:
        trackers = [Tracker(dies=1), Tracker(forgets=3), Tracker()]
        events = Events()
        waiting = list(trackers)
        calls = SessionTrackerClient(lambda: Companion(waiting.pop(0)), events.deliver, events.log)
        calls.track(report(1))
        calls.track(report(2))
        assert await events.wait(1) == [TrackerLost()]
        calls.track(report(3))
        assert await events.wait(2) == [TrackerLost(), TrackerLost()]
        calls.track(report(4))
        assert (await events.wait(3))[2] == SessionsOverdue([verdict(4)])
        assert [tracker.reported for tracker in trackers] == [[1], [3], [4]]
        assert events.reasons == [
            "the actor died",
            "the tracker was started anew and knows nothing",
        ]

    asyncio.run(scenario())


def test_a_tracker_that_cannot_be_found_or_keep_up_is_lost() -> None:
    async def scenario() -> None:
        events = Events()

        def find() -> Companion:
            raise ValueError

        calls = SessionTrackerClient(find, events.deliver, events.log)
        calls.track(report(1))
        assert await events.wait(1) == [TrackerLost()]

        late = SessionTrackerClient(lambda: Companion(Tracker()), events.deliver, events.log)
        for batch in range(WAITING_MAX + 1):
            late.track(report(batch))
        assert await events.wait(2) == [TrackerLost()] * 2
        assert events.reasons == ["ValueError", "more than 64 reports wait for the tracker"]

    asyncio.run(scenario())


def test_nothing_is_told_after_the_close() -> None:
    async def scenario() -> None:
        tracker, events = Tracker(), Events()
        calls = SessionTrackerClient(lambda: Companion(tracker), events.deliver, events.log)
        calls.close()
        calls.track(report(1))
        calls.close()
        await asyncio.sleep(0)
        assert tracker.reported == []
        assert events.delivered == []

    asyncio.run(scenario())
