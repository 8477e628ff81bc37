"""The counter: every change counts once."""

import pytest

from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import InvalidValueError, SessionExpiredError
from raykeeper.client.recipes.compare_and_set import ATTEMPTS_MAX
from raykeeper.client.recipes.counter import DIGITS_MAX
from raykeeper.znodes.errors import BadArgumentsError, BadVersionError
from raykeeper.znodes.requests import Delete, GetData, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage

PATH = "/counters/x"


def text(member: Member) -> bytes:
    value: bytes = member.ask(Query(GetData, PATH))[0]
    return value


def at_once(stage: RecipeStage, members: list[Member], delta: int) -> list[Outcome]:
    """Each adds, and none is answered before all have asked."""
    for member in members:
        member.freeze()
    waits = [member.begin(member.counter(PATH).add, delta) for member in members]
    for member in members:
        member._is_frozen = False
    stage.rest()
    return waits


def test_a_counter_counts(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    counter = alice.counter(PATH)
    assert (counter.get(), counter.value) == (0, 0)
    assert [counter.increment(), counter.add(5), counter.add(-8)] == [1, 6, -2]
    assert bob.counter(PATH).get() == -2
    counter.set(40)
    assert bob.counter(PATH).add(2) == 42
    assert counter.get() == 42
    assert text(alice) == b"42"


def test_every_change_counts_once_however_many_count(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(30)]
    sums = [wait.value for turn in range(3) for wait in at_once(stage, members, 2)]
    assert sorted(sums) == list(range(2, 182, 2))
    assert members[0].counter(PATH).get() == 180


def test_clients_of_different_servers_count_together() -> None:
    stage = RecipeStage(3)
    members = [stage.member(server=1 + number % 3) for number in range(9)]
    sums = [wait.value for turn in range(3) for wait in at_once(stage, members, 1)]
    assert sorted(sums) == list(range(1, 28))
    assert [member.counter(PATH).add(0) for member in members] == [27] * 9


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = alice.counter(PATH), bob.counter(PATH)
    ours.increment()
    theirs.increment()
    alice.asked.clear()
    ours.increment()  # somebody else was there in between
    assert dict(alice.asked) == {"Multi": 2}
    ours.increment()
    assert dict(alice.asked) == {"Multi": 3}
    assert alice.events == 0


def test_a_counter_begins_at_its_default(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    assert alice.counter(PATH, default=100).get() == 100
    assert alice.counter(PATH, default=100).add(1) == 101
    alice.ask(SetData(PATH, b"", -1))  # as kazoo leaves it
    assert bob.counter(PATH, default=7).increment() == 8


def test_compare_and_set_sets_only_the_expected_value(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = alice.counter(PATH), bob.counter(PATH)
    assert ours.compare_and_set(0, 5)
    assert theirs.compare_and_set(5, 6)
    assert not ours.compare_and_set(5, 7)
    assert ours.compare_and_set(6, 7)
    assert theirs.get() == 7
    bob.ask(Delete(PATH, -1))
    assert not ours.compare_and_set(7, 8)
    assert ours.compare_and_set(0, 1)


def test_outsiders_may_delete_and_replace_it(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    counter = alice.counter(PATH, default=10)
    assert counter.add(5) == 15
    bob.ask(Delete(PATH, -1))
    assert counter.add(1) == 11
    bob.ask(Delete(PATH, -1))
    bob.counter(PATH).set(15)  # the same version as before, and another znode
    assert counter.add(1) == 16
    bob.ask(Delete(PATH, -1))
    stage.pass_time(1_000)  # the container above it is gone too
    counter.set(3)
    assert bob.counter(PATH).get() == 3


@pytest.mark.parametrize("held", [b"3.5", b"many", b" 1", b"1_000", b"-", b"9" * (DIGITS_MAX + 1)])
def test_a_value_that_is_not_an_integer_is_an_error(stage: RecipeStage, held: bytes) -> None:
    alice = stage.member()
    counter = alice.counter(PATH)
    counter.increment()
    alice.ask(SetData(PATH, held, -1))
    for operation in (counter.get, counter.increment):
        with pytest.raises(InvalidValueError, match="holds no integer"):
            operation()
    with pytest.raises(InvalidValueError):
        counter.compare_and_set(2, 3)
    assert text(alice) == held
    counter.set(4)
    assert counter.increment() == 5


def test_huge_numbers_are_exact_up_to_the_bound(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    counter = alice.counter(PATH)
    most = 10**DIGITS_MAX - 1
    counter.set(most - 1)
    assert counter.increment() == most
    with pytest.raises(BadArgumentsError, match="digits"):
        counter.increment()
    bob.counter(PATH).set(1)
    assert counter.increment() == 2
    counter.set(-most)
    with pytest.raises(BadArgumentsError, match="digits"):
        counter.add(-1)
    assert counter.get() == -most


def test_an_add_that_always_conflicts_gives_up(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = stage.member(), stage.member()
    theirs = bob.counter(PATH)
    submit = alice.submit

    def too_late(ask: object, token: object) -> None:
        theirs.increment()  # right before every request of Alice
        submit(ask, token)  # type: ignore[arg-type]

    monkeypatch.setattr(alice, "submit", too_late)
    with pytest.raises(BadVersionError, match=f"{ATTEMPTS_MAX} times"):
        alice.counter(PATH).increment()
    monkeypatch.undo()
    assert theirs.get() == ATTEMPTS_MAX + 1


def test_a_cut_link_adds_once(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    counter = alice.counter(PATH)
    counter.increment()
    alice.cut()
    wait = alice.begin(counter.add, 10)
    bob.counter(PATH).add(100)
    alice.mend()
    assert wait.value == 111


def test_a_cancelled_add_stops_retrying(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    counter = alice.counter(PATH)
    counter.increment()
    alice.cut()
    wait = alice.begin(counter.add, 10)
    wait.run.cancel()
    bob.counter(PATH).add(100)  # so the attempt under way comes to nothing, and is the last
    alice.mend()
    assert bob.counter(PATH).get() == 101
    assert not wait.is_done


def test_the_end_of_the_session_is_an_error(stage: RecipeStage) -> None:
    alice = stage.member(session_timeout_ms=2_000)
    counter = alice.counter(PATH)
    alice.cut()
    wait = alice.begin(counter.increment)
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value


@pytest.mark.parametrize("number", [1.0, "1", None, True, 10**DIGITS_MAX])
def test_an_argument_that_is_not_a_number_is_refused(stage: RecipeStage, number: int) -> None:
    alice = stage.member()
    counter = alice.counter(PATH)
    for operation in (counter.add, counter.set):
        with pytest.raises(BadArgumentsError):
            operation(number)
    with pytest.raises(BadArgumentsError, match="expected"):
        counter.compare_and_set(number, 1)
    with pytest.raises(BadArgumentsError, match="value"):
        counter.compare_and_set(0, number)
    with pytest.raises(BadArgumentsError, match="default"):
        alice.counter(PATH, default=number)
    with pytest.raises(BadArgumentsError):
        alice.counter("/")
    assert counter.get() == 0
