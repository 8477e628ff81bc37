"""The pace of a backup, without a clock: what is waited for, and how fast a log is said to grow."""

from collections import deque

import pytest

from raykeeper.actors.disk.backup_frames import LogBody, LogFrame, log_body
from raykeeper.clusters.backups.pace import LogGrowth, Pace, read_ahead
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid

MB = 1_000_000


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def test_each_piece_takes_its_time() -> None:
    pace = Pace(2)
    now = 100.0
    for _ in range(50):
        now += pace.delay_s(MB, now)
    assert now == pytest.approx(100.0 + 50 / 2 - 0.1)  # the credit, once


def test_the_time_of_a_write_does_not_lower_the_rate() -> None:
    pace = Pace(2)
    now = 100.0
    for _ in range(50):
        now += pace.delay_s(MB, now)
        now += 0.09  # the write
    assert now == pytest.approx(100.0 + 50 / 2, abs=0.1)


def test_a_pause_is_not_made_up_for() -> None:
    pace = Pace(1)
    pace.delay_s(MB, 100.0)
    assert pace.delay_s(MB, 200.0) == pytest.approx(0.9)
    assert pace.delay_s(MB, 200.0) == pytest.approx(1.9)
    assert pace.delay_s(MB, 210.0) == pytest.approx(0.9)


def test_a_faster_rate_holds_from_the_next_piece_on() -> None:
    pace = Pace(1)
    pace.delay_s(0, 100.0)
    pace.bytes_per_s = 10.0 * MB
    assert pace.delay_s(2 * MB, 100.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("mb_per_s", "size"), [(0.1, 64 << 10), (4, 500_000), (16, 1 << 20), (10_000, 1 << 20)]
)
def test_a_piece_is_small_at_a_low_rate(mb_per_s: float, size: int) -> None:
    assert Pace(mb_per_s).piece_bytes == size


def test_nothing_that_was_asked_for_is_lost() -> None:
    """A log that grows behind the call that has found nothing: its bytes come only once."""
    log = deque([["a"], ["b"], [], ["c"], ["d"]])
    asked = []

    def ask() -> list[str]:
        asked.append(log.popleft())
        return asked[-1]

    assert list(read_ahead(ask, lambda call: call, 2)) == [["a"], ["b"], ["c"]]
    assert list(log) == [["d"]]
    assert list(read_ahead(lambda: [], lambda call: call, 3)) == []


def bodies(first: int, count: int, size: int) -> list[LogBody]:
    frame = LogFrame(z(first - 1) if first > 1 else ZERO, z(first), [bytes(size)] * count)
    return [log_body(frame)]


def test_the_growth_is_that_between_two_looks() -> None:
    growth = LogGrowth()
    growth.look(z(100), 10.0)
    assert growth.bytes_per_s == 0
    assert [body.txns for body in growth.counted(bodies(1, 100, 500))] == [100]
    growth.look(z(1_100), 10.5)
    assert growth.bytes_per_s == 2_000 * 500
    assert list(growth.counted([])) == []  # nothing new says nothing of the size
    growth.look(z(1_100), 11.0)
    assert growth.bytes_per_s == 0
    list(growth.counted(bodies(1_001, 10, 100)))
    growth.look(z(1_200), 12.0)
    assert growth.bytes_per_s == 100 * 100


def test_another_epoch_or_server_does_not_count() -> None:
    growth = LogGrowth()
    list(growth.counted(bodies(1, 1, 10)))
    growth.look(z(100), 10.0)
    growth.look(z(200), 11.0)
    assert growth.bytes_per_s == 1_000
    growth.look(z(1_000_000, 2), 12.0)  # elected: it stays as it was
    assert growth.bytes_per_s == 1_000
    growth.look(z(999_000, 2), 13.0)  # a server that has applied less
    assert growth.bytes_per_s == 0
    growth.look(z(999_500, 2), 13.0)  # at once
    assert growth.bytes_per_s == 0
