"""The argument of docs/MEMBERS.md by brute force: which quorums meet, and who can go on."""

from itertools import combinations, product
from random import Random

import pytest
from msgspec.structs import replace

from tests.model.membership_model import (
    Bounds,
    LostError,
    Model,
    Rules,
    Seats,
    is_majority,
    steps_from,
)

SEATS = 5
EVERY = (1 << SEATS) - 1
LISTS = range(1, EVERY + 1)
WALKS = Bounds(seats=4, founders=0b111, epochs=7, entries=7)
STEPS = 80


def quorums(*lists: Seats) -> list[Seats]:
    return [s for s in range(1, EVERY + 1) if all(is_majority(each, s) for each in lists)]


def all_meet(some: list[Seats], others: list[Seats]) -> bool:
    return all(one & other for one, other in product(some, others))


@pytest.mark.parametrize("old", [members for members in LISTS if members.bit_count() <= 4])
def test_quorums_meet_at_each_step(old: Seats) -> None:
    """Whoever decides by the list before, by both, or by the list after."""
    for new in steps_from(old, EVERY):
        alone, both, after = quorums(old), quorums(old, new), quorums(new)
        assert all_meet(alone, both) and all_meet(both, both) and all_meet(both, after)


@pytest.mark.parametrize("old", [members for members in LISTS if members.bit_count() <= 3])
def test_two_changes_of_one_list_exclude_each_other(old: Seats) -> None:
    """Two leaders have logged different changes: each needs a majority of the list before."""
    changes = steps_from(old, EVERY)
    assert all(all_meet(quorums(old, a), quorums(old, b)) for a, b in combinations(changes, 2))


def blocked(*, one_seat: bool) -> set[tuple[Seats, Seats, Seats, int]]:
    """Who cannot go on with a change that one server alone has logged, though all others could."""
    found = set()
    for old in LISTS:
        for new in steps_from(old, EVERY, one_seat=one_seat):
            for others, logged in product(quorums(old), range(SEATS)):
                here = 1 << logged
                if here & old and not here & others and not is_majority(new, others | here):
                    found.add((old, new, others, logged))
    return found


def test_an_uncommitted_change_of_one_seat_blocks_no_majority() -> None:
    assert not blocked(one_seat=True)


def test_one_of_several_seats_can_block_a_majority() -> None:
    """Why there is no arbitrary change as in ZooKeeper: 1, 2 and 3 become 3, 4 and 5."""
    assert (0b00111, 0b11100, 0b00011, 2) in blocked(one_seat=False)


def test_an_ensemble_with_a_server_to_spare_goes_on_whatever_has_been_logged() -> None:
    """As many may have logged the change as like: one failure less than before is survived."""
    for old in LISTS:
        for new in steps_from(old, EVERY):
            for alive in quorums(old):
                spares = [s for s in range(SEATS) if alive >> s & 1 and old >> s & 1]
                if all(is_majority(old, alive & ~(1 << s)) for s in spares):
                    assert is_majority(new, alive), (old, new, alive)


@pytest.mark.parametrize("founders", [0b011, 0b111])
def test_no_order_of_events_loses_a_commit(founders: Seats) -> None:
    assert Model(Bounds(seats=3, founders=founders, epochs=2, entries=1)).search() > 10_000


def test_no_walk_loses_a_commit() -> None:
    model = Model(WALKS)
    ends = [model.walk(Random(seed), STEPS) for seed in range(1_000)]
    longest = max((end.committed for end in ends), key=len)
    assert len(longest) == WALKS.entries, "and the walks get somewhere"
    assert max(sum(e.members is not None for e in end.committed) for end in ends) >= 4


@pytest.mark.parametrize(
    "without",
    [
        *("old_counts_until_delivered", "new_counts_once_logged", "one_change_open"),
        "minds_seats_of_one_list",
    ],
)
def test_without_a_rule_a_walk_loses_a_commit(without: str) -> None:
    model = Model(WALKS, replace(Rules(), **{without: False}))
    with pytest.raises(LostError):
        for seed in range(500):
            model.walk(Random(seed), STEPS)


def test_a_leader_that_counts_by_a_list_of_a_later_epoch_loses_a_commit() -> None:
    """It counts acks that were given before the later epoch was promised."""
    model = Model(WALKS, Rules(hears_only_while_looking=False))
    with pytest.raises(LostError):
        model.walk(Random(114_438), STEPS)
