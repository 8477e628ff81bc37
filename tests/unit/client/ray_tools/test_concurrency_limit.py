"""ConcurrencyLimit: its settings. What it does is in the recipe's tests and in tests/ray."""

import pickle
from typing import Any

import pytest

from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.ray_tools import ConcurrencyLimit
from tests.harness.recipe_stage import RecipeStage

PATH = "/limits/gpu"


@pytest.mark.parametrize(
    ("permits", "identifier"), [(0, b""), (1001, b""), ("4", b""), (True, b""), (4, "me")]
)
def test_bad_settings_are_refused(permits: Any, identifier: Any) -> None:
    with pytest.raises(BadArgumentsError):
        ConcurrencyLimit("coord", PATH, permits, identifier)


def test_a_limit_pickles_as_its_settings() -> None:
    limit = ConcurrencyLimit("coord", PATH, 4, b"me", session_timeout_s=3)
    copy = pickle.loads(pickle.dumps(limit))
    assert vars(copy).keys() == vars(limit).keys()
    assert (copy.permits, copy.identifier, copy._session_timeout_s) == (4, b"me", 3)


def test_a_limit_may_use_an_open_client() -> None:
    stage = RecipeStage()
    member = stage.member()
    with ConcurrencyLimit("coord", PATH, 1)._on(member) as held:
        assert [each.name for each in ConcurrencyLimit("coord", PATH, 1)._on(member).holders()] == [
            held.path.rpartition("/")[2]
        ]
