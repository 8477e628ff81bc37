"""The arguments in a query."""

import pytest

from raykeeper.commands.ui.answers import ApiError
from raykeeper.commands.ui.query import number_in, path_in, session_in


def test_a_number_has_a_default_and_bounds() -> None:
    assert number_in({}, "limit", 7, 1, 10) == 7
    assert [number_in({"limit": each}, "limit", 7, 1, 10) for each in ("1", "010")] == [1, 10]


@pytest.mark.parametrize("text", ["", "0", "11", "-1", "x", "1.5", "²", "1_0", "9" * 10_000])
def test_another_number_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="limit must be a number from 1 to 10, not") as refused:
        number_in({"limit": text}, "limit", 7, 1, 10)
    assert (refused.value.status, len(str(refused.value)) < 100) == (400, True)


def test_a_path_may_have_a_default() -> None:
    assert path_in({"path": "/a b/é"}) == "/a b/é"
    assert [path_in({}, "/"), path_in({"path": ""}, ""), path_in({}, "")] == ["/", "", ""]
    with pytest.raises(ApiError, match="path is missing"):
        path_in({})


@pytest.mark.parametrize("path", ["a", "/a/", "/a//b", "/a/../b", "/\x00", "/" + "x" * 100_000])
def test_a_malformed_path_is_refused_with_the_reason(path: str) -> None:
    with pytest.raises(ApiError) as refused:
        path_in({"path": path})
    assert (refused.value.status, len(str(refused.value)) < 300) == (400, True)


def test_a_session_id_is_written_as_in_the_tables() -> None:
    assert [session_in({"after": each}, "after") for each in ("0x1f", "31", "")] == [31, 31, None]
    for text in ("x", "0x", "1f", "0x1f" * 1000):
        with pytest.raises(ApiError, match="after must be a session id such as 0x1f, not"):
            session_in({"after": text}, "after")
