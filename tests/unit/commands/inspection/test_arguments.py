"""Zxids as a user writes them."""

import pytest

from raykeeper.commands.inspection.arguments import (
    ArgumentError,
    parse_zxid,
)
from raykeeper.zab.ids import COUNTER_MAX, EPOCH_MAX, ZERO, ZXID_MAX, Epoch, make_zxid


def test_a_zxid_is_read_as_it_is_printed() -> None:
    assert parse_zxid("--after", "0:0") == ZERO
    assert parse_zxid("--after", "3:17") == make_zxid(Epoch(3), 17)
    assert parse_zxid("--after", f"{EPOCH_MAX}:{COUNTER_MAX}") == ZXID_MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "3:",
        ":17",
        "3:17:1",
        "-3:17",
        "0x3",
        "3: 17",
        f"{EPOCH_MAX + 1}:1",
        "9" * 40 + ":1",
    ],
)
def test_what_is_no_zxid_is_told(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--after '.*' is no zxid; .* such as 3:17"):
        parse_zxid("--after", text)
