"""PrepRequestProcessor and State against the naive keeper: pipelined, applied late, and twice."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.znodes.state import State
from tests.model.histories import START, Command, Run, commands, histories, image, written
from tests.model.naive_keeper import image as naive_image


def as_lists(value: object) -> object:
    """Tuples and lists are one here."""
    if isinstance(value, list | tuple):
        return [as_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return value


@settings(max_examples=500)
@given(st.lists(st.one_of(*[commands] * 3, st.integers(1, 5)), min_size=10, max_size=60))
def test_writes_prepared_ahead_equal_writes_done_one_by_one(steps: list[Command | int]) -> None:
    """An integer applies that many of the outstanding transactions."""
    run = written(START)
    for step in steps:
        if isinstance(step, int):
            run.apply(step)
        else:
            run.do(step)
    run.apply_all()
    assert as_lists(image(run.state)) == as_lists(naive_image(run.naive))


@settings(max_examples=100)
@given(histories)
def test_applying_every_transaction_twice_changes_nothing(history: list[Command]) -> None:
    run = written(history)
    twice = State()
    for zxid, data in run.log:
        twice.apply(zxid, data)
        digest = twice.digest()
        twice.apply(zxid, data)
        assert twice.digest() == digest
    assert image(twice) == image(run.state)
    assert twice.digest() == run.state.digest()


@settings(max_examples=100)
@given(histories)
def test_the_digest_equals_that_of_the_whole_state(history: list[Command]) -> None:
    """Equal states have equal digests, and on these histories different ones different digests."""
    seen: dict[int, object] = {}
    run = Run()
    for command in history:
        run.do(command)
        run.apply_all()
        digest, content = run.state.digest(), image(run.state)
        assert seen.setdefault(digest, content) == content
        assert list(seen.values()).count(content) == 1
