"""Identifiers: how an epoch and a counter share one zxid (rule Z6)."""

import pytest

from raykeeper.zab.ids import (
    COUNTER_MAX,
    EPOCH_MAX,
    Epoch,
    Zxid,
    counter_of,
    epoch_of,
    format_zxid,
    has_next,
    make_zxid,
    next_zxid,
)


@pytest.mark.parametrize(
    ("epoch", "counter", "zxid", "shown"),
    [
        # Nothing at all, the first epoch, its first transaction.
        (0, 0, 0, "0:0"),
        (1, 0, 1 << 42, "1:0"),
        (1, 1, (1 << 42) + 1, "1:1"),
        # The last of an epoch, and the last of all: still a positive signed 64-bit number.
        (7, COUNTER_MAX, (8 << 42) - 1, f"7:{COUNTER_MAX}"),
        (EPOCH_MAX, COUNTER_MAX, 2**63 - 1, f"{EPOCH_MAX}:{COUNTER_MAX}"),
    ],
)
def test_a_zxid_is_epoch_and_counter(epoch: int, counter: int, zxid: int, shown: str) -> None:
    made = make_zxid(Epoch(epoch), counter)
    assert made == zxid
    assert (epoch_of(made), counter_of(made)) == (epoch, counter)
    assert format_zxid(made) == shown


@pytest.mark.parametrize(
    ("epoch", "counter"), [(-1, 0), (EPOCH_MAX + 1, 0), (0, -1), (0, COUNTER_MAX + 1)]
)
def test_refuses_what_does_not_fit(epoch: int, counter: int) -> None:
    with pytest.raises(AssertionError):
        make_zxid(Epoch(epoch), counter)


def test_the_next_zxid_stays_in_its_epoch() -> None:
    assert next_zxid(make_zxid(Epoch(3), 4)) == make_zxid(Epoch(3), 5)
    full = make_zxid(Epoch(3), COUNTER_MAX)
    assert has_next(Zxid(full - 1))
    assert not has_next(full)
    with pytest.raises(AssertionError, match="exhausted"):
        next_zxid(full)
