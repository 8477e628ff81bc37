"""WaitTimes: how long recipes waited, by recipe, operation and the first part of the path."""

import pytest

from raykeeper.client.errors import WaitTimeoutError
from raykeeper.client.recipes import recipe
from raykeeper.client.recipes.wait_times import BOUNDS_MS, OTHER_PREFIXES, PREFIXES_MAX, WaitTimes
from tests.harness.recipe_stage import RecipeStage


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> WaitTimes:
    """The waits of this test alone."""
    waits = WaitTimes()
    monkeypatch.setattr(recipe, "wait_times", waits)
    return waits


@pytest.mark.parametrize("took_ms", [0, 1, 3, 4, 500, BOUNDS_MS[-1] - 1, BOUNDS_MS[-1], 10**9])
def test_a_wait_is_below_the_bounds_that_are_greater(took_ms: int) -> None:
    waits = WaitTimes()
    waits.add("Lock", "acquire", "/locks/a", took_ms)
    waits.add("Lock", "acquire", "/locks/b/c", took_ms)
    below = [2 * (took_ms < bound) for bound in BOUNDS_MS]
    assert waits.below() == {("Lock", "acquire", "/locks"): ([*below, 2], 2 * took_ms)}


def test_there_are_so_many_prefixes_and_the_others_together() -> None:
    waits = WaitTimes()
    for number in range(PREFIXES_MAX + 9):
        waits.add("Lock", "acquire", f"/p{number}", 1)
    counts = {prefix: below[-1] for (_, _, prefix), (below, _) in waits.below().items()}
    assert len(counts) == PREFIXES_MAX + 1
    assert counts[OTHER_PREFIXES] == 9
    waits.add("Lock", "acquire", "/p3/x", 1)  # one that is known
    assert waits.below()["Lock", "acquire", "/p3"][0][-1] == 2


def test_an_operation_that_waits_is_counted_and_no_other(waits: WaitTimes) -> None:
    stage = RecipeStage()
    one, two = stage.member(), stage.member()
    held = one.lock("/locks/x").acquire()
    waiting = two.begin(two.lock("/locks/x").acquire)
    stage.pass_time(700)
    assert set(waits.below()) == {("Lock", "acquire", "/locks")}
    assert waits.below()["Lock", "acquire", "/locks"][0][-1] == 1  # the first one had it at once
    one.lock("/locks/x").contenders()
    held.release()
    assert waiting.is_done
    ((below, total_ms),) = waits.below().values()
    assert below[-1] == 2
    assert 700 <= total_ms < 1_500
    waiting.value.release()
    assert len(waits.below()) == 1


def test_a_wait_in_vain_and_a_block_are_counted_too(waits: WaitTimes) -> None:
    stage = RecipeStage()
    one, two = stage.member(), stage.member()
    with one.lock("/locks/x"):
        assert waits.below()["Lock", "acquire", "/locks"][0][-1] == 1
        with pytest.raises(WaitTimeoutError):
            two.lock("/locks/x").acquire(timeout_s=0)
    assert waits.below()["Lock", "acquire", "/locks"][0][-1] == 2
