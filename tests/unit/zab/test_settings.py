"""Settings: who votes, and how the spans follow from the tick."""

import pytest

from raykeeper.zab.ids import FOUNDING_DISK, SERVER_ID_MAX, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.settings import RecentLogLimits, Settings, Timing
from tests.unit.zab.histories import NEW_DISK, S1, S2, S4, THREE


def test_spans_are_multiples_of_the_tick() -> None:
    timing = Timing(tick_ms=Millis(300), init_limit=10, sync_limit=5)
    assert (timing.init_ms, timing.sync_ms, timing.ping_ms) == (3_000, 1_500, 150)
    assert Timing(tick_ms=Millis(1)).ping_ms == 1


@pytest.mark.parametrize(
    ("server_id", "disk", "counts"),
    [
        (S1, FOUNDING_DISK, True),
        (S1, NEW_DISK, False),  # a voter that has lost its promises (D3)
        (S4, FOUNDING_DISK, False),  # an observer
    ],
)
def test_only_voters_with_their_promises_vote(
    server_id: ServerId, disk: DiskId, counts: bool
) -> None:
    assert Settings(server_id, THREE, disk).has_vote is counts


def test_a_vote_comes_and_goes_with_the_member_list() -> None:
    """Rule D3: it follows what is delivered, while the server runs."""
    settings = Settings(S1, THREE, NEW_DISK)
    settings.members.disk_delivered(S2, NEW_DISK, Zxid(1))
    assert not settings.has_vote
    settings.members.disk_delivered(S1, NEW_DISK, Zxid(2))
    assert settings.has_vote
    settings.members.disk_delivered(S1, DiskId("newer"), Zxid(3))
    assert not settings.has_vote


def test_defaults_may_be_replaced() -> None:
    timing, window = Timing(tick_ms=Millis(7)), RecentLogLimits(txns_max=1)
    settings = Settings(S2, THREE, timing=timing, window=window)
    assert (settings.timing, settings.window) == (timing, window)
    assert Settings(S2, THREE).timing == Timing()
    assert Settings(S2, THREE).window == RecentLogLimits()


@pytest.mark.parametrize("server_id", [0, SERVER_ID_MAX + 1])
def test_refuses_a_server_id_out_of_range(server_id: int) -> None:
    with pytest.raises(AssertionError):
        Settings(ServerId(server_id), THREE)
