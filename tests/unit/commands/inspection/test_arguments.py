"""Zxids, times, paths and session ids as a user writes them."""

import pytest

from raykeeper.commands.inspection.arguments import (
    ArgumentError,
    parse_path,
    parse_session,
    parse_time,
    parse_zxid,
)
from raykeeper.zab.ids import COUNTER_MAX, EPOCH_MAX, ZERO, ZXID_MAX, Epoch, Millis, make_zxid

NOW = Millis(1_800_000_000_000)


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


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01 00:01", 60_000),
        ("1970-01-01T01:00+01:00", 0),
        ("1970-01-01T00:00:01.500+00:00", 1_500),
        ("90s", NOW - 90_000),
        ("30m", NOW - 30 * 60_000),
        ("2h", NOW - 2 * 3_600_000),
        ("7d", NOW - 7 * 86_400_000),
    ],
)
def test_a_time_is_a_point_or_how_long_ago(text: str, time_ms: int) -> None:
    assert parse_time("--since", text, NOW) == time_ms


@pytest.mark.parametrize("text", ["", "yesterday", "2h30m", "-2h", "2026-13-01", "9" * 99 + "s"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--since '.*' is no time; expected such as 2026-"):
        parse_time("--since", text, NOW)


def test_a_session_id_is_read_as_it_is_printed() -> None:
    assert parse_session("--session", "0x1F") == 31
    assert parse_session("--session", "31") == 31


@pytest.mark.parametrize("text", ["", "0", "0x", "1f", "-1", "0x" + "f" * 16])
def test_what_is_no_session_id_is_told(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--session '.*' is no session id; .* 0x40000000001"):
        parse_session("--session", text)


def test_a_path_must_be_one() -> None:
    assert parse_path("--path", "/a/b") == "/a/b"
    with pytest.raises(ArgumentError, match=r"--path 'a/b' is no path of a znode: .* start with"):
        parse_path("--path", "a/b")
