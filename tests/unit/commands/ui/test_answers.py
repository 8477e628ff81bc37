"""The status of each error."""

import json

import pytest

from raykeeper.client.errors import (
    BadVersionError,
    ClosedError,
    ConnectionLossError,
    MarshallingError,
    NoAuthError,
)
from raykeeper.commands.ui.answers import STATUS, ApiError, error_answer
from raykeeper.zab.errors import RayKeeperError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadVersionError("/a"), 409),
        (NoAuthError("/a"), 403),
        (ConnectionLossError("/a"), 503),
        (ClosedError("/a"), 500),
        (MarshallingError("/a"), 500),
        (ApiError(418, "tea"), 418),
        (RayKeeperError("else"), 500),
    ],
)
def test_an_error_is_told_with_its_text_and_class(error: RayKeeperError, status: int) -> None:
    answer = error_answer(error)
    assert answer.status == status
    told = json.loads(answer.text or "")
    assert told == {"error": str(error), "kind": type(error).__name__}


def test_no_error_is_a_success() -> None:
    assert all(400 <= status < 600 for status in STATUS.values())
