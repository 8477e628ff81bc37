"""SnapshotterClient: effects in order, one completion each, one failure for a snapshot."""

import asyncio

from raykeeper.actors.snapshotter_client import SnapshotterClient
from raykeeper.server.effects import (
    SnapshotAbort,
    SnapshotBegin,
    SnapshotEffect,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.server.events import SnapshotCredited, SnapshotFailed, SnapshotWritten
from raykeeper.zab.ids import Zxid
from tests.unit.actors.companions import Companion, Events

Z5, Z6, Z9 = Zxid(5), Zxid(6), Zxid(9)


class Snapshotter:
    """Remembers what it was told; dies of one chunk."""

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

        def find() -> Companion:
            lookups.append(1)
            return Companion(snapshotter)

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


def test_nothing_is_done_after_the_close() -> None:
    async def scenario() -> None:
        snapshotter, events = Snapshotter(), Events()
        calls = SnapshotterClient(lambda: Companion(snapshotter), events.deliver, events.log)
        calls.close()
        calls.perform(SnapshotBegin(Z5))
        calls.close()
        await asyncio.sleep(0)
        assert snapshotter.told == []

    asyncio.run(scenario())
