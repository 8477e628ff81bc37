"""Settings: who votes, and how the spans follow from the tick."""

import pytest

from raykeeper.zab.ids import SERVER_ID_MAX, Millis, ServerId
from raykeeper.zab.settings import Settings, Timing, WindowLimits
from tests.unit.zab.histories import S1, S2, S4, THREE


def test_spans_are_multiples_of_the_tick() -> None:
    timing = Timing(tick_ms=Millis(300), init_limit=10, sync_limit=5)
    assert (timing.init_ms, timing.sync_ms, timing.ping_ms) == (3_000, 1_500, 150)
    assert Timing(tick_ms=Millis(1)).ping_ms == 1


@pytest.mark.parametrize(
    ("server_id", "votes", "counts"),
    [
        (S1, True, True),
        (S1, False, False),  # a voter that has lost its promises (D3)
        (S4, True, False),  # an observer
    ],
)
def test_only_voters_with_their_promises_vote(
    server_id: ServerId, votes: bool, counts: bool
) -> None:
    assert Settings(server_id, THREE, votes).votes is counts


def test_defaults_may_be_replaced() -> None:
    timing, window = Timing(tick_ms=Millis(7)), WindowLimits(txns_max=1)
    settings = Settings(S2, THREE, timing=timing, window=window)
    assert (settings.timing, settings.window) == (timing, window)
    assert Settings(S2, THREE).timing == Timing()
    assert Settings(S2, THREE).window == WindowLimits()


@pytest.mark.parametrize("server_id", [0, SERVER_ID_MAX + 1])
def test_refuses_a_server_id_out_of_range(server_id: int) -> None:
    with pytest.raises(AssertionError):
        Settings(ServerId(server_id), THREE)
