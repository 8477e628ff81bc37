"""The argument of docs/MEMBERS.md by brute force: which quorums meet, and who can go on."""

from collections.abc import Iterator
from itertools import combinations, product
from random import Random

import pytest
from msgspec.structs import replace

from tests.model.membership_model import (
    Bounds,
    Disk,
    Entry,
    LostError,
    Model,
    Rules,
    Seats,
    State,
    is_majority,
    steps_from,
)
from tests.model.membership_model import Leader as ModelLeader

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
    model = Model(WALKS, Rules(hears_only_while_looking=False, compares_logs=False))
    with pytest.raises(LostError):
        model.walk(Random(114_438), STEPS)


class OneStep(Model):
    """A leader of three founders, by symmetry the second one, and one step that is given."""

    step: Seats

    def begin(self) -> list[State]:
        """The states in which it has just been promised its epoch, by one of the others."""
        acked = tuple(0 if seat == LEADER else -1 for seat in range(self.bounds.seats))
        return [
            State(
                tuple(
                    Disk(int(promised >> seat & 1), int(seat == LEADER))
                    for seat in range(self.bounds.seats)
                ),
                (ModelLeader(1, LEADER, 0, -1, acked),),
            )
            for promised in (0b011, 0b110)
        ]

    def propose_step(self, state: State) -> Iterator[State]:
        """Propose this step alone, or a transaction."""
        for after in self.propose(state):
            pairs = zip(after.disks, state.disks, strict=True)
            (log,) = [new.log for new, old in pairs if new.log != old.log]
            if log[-1].members in (None, self.step):
                yield after

    actions = (Model.commit, propose_step, Model.send, Model.restart)


LEADER = 1


def stuck(step: Seats, bounds: Bounds, rules: Rules) -> State | None:
    """A state that the loss of one seat ends, though each list that a log has keeps a majority."""
    model = OneStep(bounds, rules)
    model.step = step
    todo = model.begin()
    seen = set(todo)
    while todo:
        state = todo.pop()
        logged = {entry.members for disk in state.disks for entry in disk.log if entry.members}
        for dead in range(bounds.seats):
            alive = (1 << bounds.seats) - 1 & ~(1 << dead)
            lists = (bounds.founders, *logged)
            if all(is_majority(each, alive) for each in lists) and not model.can_go_on(
                state, alive
            ):
                return state
        for kind in model.actions:
            for after in kind(model, state):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return None


ONE_STEP = Bounds(seats=4, founders=0b0111, epochs=1, entries=2)
ADDS, REMOVES, SWAPS = 0b1111, 0b0011, 0b1011
WAITS = Rules(proposes_behind_steps=False)


@pytest.mark.parametrize("step", [ADDS, REMOVES, SWAPS])
def test_whichever_seat_is_lost_in_a_step_majorities_of_both_lists_go_on(step: Seats) -> None:
    assert stuck(step, ONE_STEP, WAITS) is None


def test_what_is_proposed_behind_a_swap_can_stop_a_majority() -> None:
    """The leader commits it by the new list, on itself and on the newcomer, and is lost."""
    state = stuck(SWAPS, ONE_STEP, Rules())
    assert state is not None
    ahead, behind = state.disks[3], state.disks[0]
    assert len(ahead.log) == 2 and len(behind.log) == 1


STEP = Entry(1, 0, SWAPS)


@pytest.mark.parametrize(
    ("disks", "alive"),
    [
        # The second leader, the first one again, has synchronized the newcomer alone, and is lost.
        (
            (
                *(Disk(1, 1, (STEP,)), Disk(2, 2, (STEP,), 1), Disk(1, 1, (STEP,))),
                Disk(2, 2, (STEP,)),
            ),
            0b1101,
        ),
        # It was another one, without the step.
        ((Disk(2, 2), Disk(1, 1, (STEP,)), Disk(2, 1), Disk(2, 2)), 0b1110),
    ],
)
def test_a_newcomer_of_a_later_epoch_without_more_stops_nobody(
    disks: tuple[Disk, ...], alive: Seats
) -> None:
    acked = (-1, -1, -1, -1)
    leaders = (ModelLeader(1, LEADER, 0, -1, acked), ModelLeader(2, 0, 0, -1, acked))
    state = State(disks, leaders)
    bounds = replace(ONE_STEP, epochs=2)
    assert Model(bounds, WAITS).can_go_on(state, alive)
    assert not Model(bounds, replace(WAITS, compares_logs=False)).can_go_on(state, alive)
