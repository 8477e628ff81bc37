"""Limits: the defaults hold, and what contradicts itself is refused with the reason."""

import msgspec
import pytest

from raykeeper.znodes.limits import PATH_CHARS_MAX, REPLY_CACHE_MAX, VALUE_BYTES_CEILING, Limits


def test_defaults_are_accepted_and_as_documented() -> None:
    limits = Limits()
    assert limits.value_bytes_max == 1_048_576
    assert limits.path_chars_max == PATH_CHARS_MAX
    assert limits.outcomes_max == REPLY_CACHE_MAX == 2000


def test_a_request_may_have_the_entries_of_its_lists_and_of_its_operations() -> None:
    assert Limits().request_entries_max == 0xFFFFF // 64
    short = Limits(acl_entries_max=100, transaction_ops_max=10, request_bytes_max=64)
    assert short.request_entries_max == 6400
    few = Limits(acl_entries_max=1, transaction_ops_max=500, request_bytes_max=64)
    assert few.request_entries_max == 1000


def test_a_transaction_as_short_as_a_request_may_have_more_operations() -> None:
    limits = Limits(transaction_ops_max=10, request_bytes_max=640)
    assert [limits.ops_max(size) for size in (0, 640, 641)] == [20, 20, 10]
    assert Limits(transaction_ops_max=30, request_bytes_max=640).ops_max(0) == 30


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"value_bytes_max": 0}, "value_bytes_max is 0, expected 1 to"),
        ({"value_bytes_max": VALUE_BYTES_CEILING + 1}, "value_bytes_max"),
        # The initial tree must fit.
        ({"path_chars_max": 8}, "path_chars_max is 8, expected 64 to"),
        ({"path_chars_max": PATH_CHARS_MAX + 1}, "path_chars_max"),
        ({"session_timeout_min_ms": 99}, "session_timeout_min_ms is 99, expected 100 to 60000"),
        ({"session_timeout_min_ms": 60_001}, "session_timeout_min_ms is 60001"),
        ({"session_timeout_max_ms": 25 * 3600 * 1000}, "session_timeout_max_ms"),
        ({"sessions_max": 0}, "sessions_max"),
        # Replicas keep no more.
        ({"outcomes_max": REPLY_CACHE_MAX + 1}, "outcomes_max is 2001, expected 1 to 2000"),
        ({"acl_entries_max": 1_001}, "acl_entries_max is 1001, expected 1 to 1000"),
        ({"session_identities_max": 0}, "session_identities_max is 0, expected 1 to 1000"),
        ({"watches_max": 0}, "watches_max"),
        ({"request_bytes_max": 0}, "request_bytes_max is 0, expected 1 to"),
    ],
)
def test_contradicting_limits_are_refused(setting: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Limits(**setting)  # type: ignore[arg-type]


def test_a_wrong_setting_is_an_error_of_the_decoder_too() -> None:
    with pytest.raises(msgspec.ValidationError, match="sessions_max"):
        msgspec.convert({"sessions_max": -1}, Limits)
