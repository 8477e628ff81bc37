"""What an archive needs besides the log: when each thing is due, and what is told of it."""

from collections.abc import Callable
from typing import cast

import pytest

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.clusters.backups import house_keeping
from raykeeper.clusters.backups.archive import full_name, piece_name
from raykeeper.clusters.backups.house_keeping import FollowSettings, HouseKeeper, OpenedSource
from raykeeper.zab.ids import ZERO
from tests.harness.backup_sources import FolderSource
from tests.unit.clusters.backups.test_archive_writer import Keeper
from tests.unit.clusters.backups.test_loading import TIMES, z

DAY_S = 86_400.0


class House:
    """A house keeper of a real archive, on a clock that the test turns.

    The archive begins with a whole backup as of transaction 3; the log is archived up to it.
    """

    def __init__(self, *, keep_days: float = 7.0, age_s: float = 0.0) -> None:
        self.of = Keeper()
        self.of.write(3)
        self.of.keep()
        self.of.full()
        self.now = 1_000.0
        self.born = TIMES[2] / 1000 + age_s  # the wall clock when the clock stood at 1000
        self.fails: Exception | None = None
        self.opened = self.closed = 0
        self.during: Callable[[], object] = lambda: None
        settings = FollowSettings(full_every_s=DAY_S, keep_s=keep_days * DAY_S)
        self.keeper = HouseKeeper("coord", settings, self._open, self._clock, self._wall)

    def after(self, seconds: float) -> list[tuple[str, str]]:
        """Let time pass, do what is due then, one thing after the other, and return the reports."""
        self.now += seconds
        told = []
        for _ in range(3):
            told += self.keeper.keep(self.of.archive)
            self.keeper.close()  # waits for it
        return [*told, *self.keeper.keep(self.of.archive)]

    def close(self) -> None:
        self.closed += 1

    def _open(self) -> OpenedSource | None:
        self.opened += 1
        self.during()
        if self.fails is not None:
            raise self.fails
        source = FolderSource(self.of.server)
        source.close = self.close  # type: ignore[attr-defined]
        return cast("OpenedSource", source)

    def _clock(self) -> float:
        return self.now

    def _wall(self) -> float:
        return self.born + self.now - 1_000.0


@pytest.mark.parametrize("age_s", [0.0, 1_000.0, 2 * DAY_S])
def test_a_whole_backup_is_due_by_the_age_of_the_last_one(age_s: float) -> None:
    house = House(age_s=age_s)
    house.of.write(2)
    house.of.keep()
    left_s = max(0.0, DAY_S - age_s)
    assert house.after(left_s - 1) == [] or age_s > DAY_S
    assert house.after(1) == ([("full", f"took {full_name(z(5))}, of server 1")] if left_s else [])
    assert house.of.archive.full[-1].zxid == z(5)
    assert house.opened == house.closed == 1
    # The next one counts from when this one was begun; what is there already is no news.
    assert house.after(DAY_S - 1) == []
    assert house.after(1) == []
    assert house.opened == 2


@pytest.mark.parametrize("error", [StorageError("the disk\nis bad"), None])
def test_one_that_fails_is_due_again_soon(error: StorageError | None) -> None:
    house = House()
    house.after(0)
    house.keeper.take_full_soon()
    house.fails = error
    if error is None:  # no server is in step
        house.keeper._open_source = lambda: house.during()  # type: ignore[assignment, return-value]
    tries: list[float] = []
    house.during = lambda: tries.append(house.now)
    told = house.after(1)
    reasons = [("problem", "no whole backup was taken: the disk")] if error else []
    assert told == reasons
    for seconds in (house_keeping._RETRY_S - 1, 1, house_keeping._RETRY_S):
        house.after(seconds)
    begun = tries[0]
    assert tries == [begun, begun + 60, begun + 120]


def test_one_that_is_asked_for_while_another_is_taken_is_taken_too() -> None:
    """The log has a hole since that one was begun, so it does not count."""
    house = House()
    house.after(0)
    house.keeper.take_full_soon()
    house.during = lambda: (house.keeper.take_full_soon(), setattr(house, "during", int))
    house.after(1)
    assert (house.opened, house.closed) == (2, 2)
    house.after(DAY_S - 1)
    assert house.opened == 2


def test_small_pieces_are_joined_every_minute_or_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House()

    def grow(times: int) -> None:
        for _ in range(times):
            house.of.write(1)
            house.of.keep()

    grow(2)
    house.after(house_keeping._JOIN_S - 1)
    assert house.of.archive.small_count == 3
    house.after(1)
    assert house.of.archive.small_count == 1 and piece_name(ZERO, z(5)) in house.of.names
    grow(1)
    house.after(house_keeping._JOIN_S - 1)
    assert house.of.archive.small_count == 2
    monkeypatch.setattr(house_keeping, "PIECE_BYTES", house.of.archive.small_bytes)
    house.after(0)
    assert house.of.archive.small_count == 1
    house.of.check()


def test_what_is_too_old_is_removed_every_minute() -> None:
    house = House(keep_days=0.0)
    house.of.write(3)
    house.of.keep()
    assert house.after(house_keeping._REMOVE_S - 1) == []
    assert house.after(1) == [("removed", "removed 1 files that are too old")]  # the pieces are one
    assert house.of.archive.full[0].zxid == z(3)
    house = House(keep_days=0.5)
    assert house.after(DAY_S / 2 - 1) == []
    assert full_name(ZERO) in house.of.names
    told = house.after(house_keeping._REMOVE_S)
    assert told == [("removed", "removed 2 files that are too old")]


def test_a_file_that_cannot_be_removed_is_told_and_the_rest_goes_on() -> None:
    house = House(keep_days=0.0)

    def broken(_number: int, name: str) -> None:
        if name == "remove":
            raise OSError(5, "cannot be removed")

    house.of.files.on_operation = broken
    ((kind, text),) = house.after(house_keeping._REMOVE_S)
    assert kind == "problem" and "cannot be removed" in text
    house.of.files.on_operation = lambda _number, _name: None
    assert [kind for kind, _ in house.after(house_keeping._REMOVE_S)] == ["removed"]
