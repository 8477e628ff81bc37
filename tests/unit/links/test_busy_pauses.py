"""BusyPauses: each from the whole of a span that doubles up to a bound, other with another seed."""

from random import Random

from raykeeper.links.busy_pauses import BusyPauses
from raykeeper.links.limits import BUSY_PAUSE_MS_MAX


def pauses(seed: int, count: int = 6) -> list[float]:
    drawn = BusyPauses(Random(seed))
    return [1000 * drawn.next_s() for _ in range(count)]


def test_the_spans_double_up_to_a_bound() -> None:
    by_place = list(zip(*(pauses(seed) for seed in range(400)), strict=True))
    longest = [max(place) for place in by_place]
    assert [round(pause, -2) for pause in longest] == [200, 400, 800, 1600, 1600, 1600]
    assert max(longest) <= BUSY_PAUSE_MS_MAX


def test_dialers_do_not_keep_in_step() -> None:
    second = [sum(pauses(seed, 2)) for seed in range(400)]
    crowds = [sum(low <= pause < low + 100 for pause in second) for low in range(0, 600, 100)]
    assert sum(crowds) == 400
    assert all(0 < crowd < 160 for crowd in crowds)


def test_a_seed_gives_the_same_pauses() -> None:
    assert pauses(1) == pauses(1) != pauses(2)
