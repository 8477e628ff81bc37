"""The judge of histories against histories that are right, and against a judge by brute force."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.chaos.checks.history import History, Ok, Operation, Read, Refused
from raykeeper.chaos.checks.linearizability import check_linearizability
from raykeeper.znodes.requests import Create, Delete, SetData
from tests.model.client_histories import draw_history, is_linearizable
from tests.model.naive_keeper import BAD_VERSION, NO_NODE, NODE_EXISTS

PATHS = ["/a", "/a/b", "/a/c", "/d"]
OVERLAPS = st.sampled_from([0, 5, 15, 40, 200])


def show(history: History) -> str:
    return "\n".join(map(str, history.operations))


@given(st.randoms(use_true_random=False), OVERLAPS)
@settings(max_examples=150)
def test_a_history_executed_in_one_order_passes(random: Random, overlap: int) -> None:
    history = draw_history(random, PATHS, 60, overlap)
    result = check_linearizability(history, reads_in_order=True)
    assert result.undecided == []
    assert result.violations == [], result.violations[0].text
    assert not check_linearizability(history).violations


@given(st.randoms(use_true_random=False), OVERLAPS)
@settings(max_examples=400)
def test_the_check_decides_as_brute_force_does(random: Random, overlap: int) -> None:
    history = draw_history(random, ["/a"], 6, overlap, lost=0.2)
    for _ in range(random.randint(0, 2)):
        spoil(random, history)
    result = check_linearizability(history, reads_in_order=True)
    assert result.undecided == []
    assert (result.violations == []) == is_linearizable(history), show(history)


@given(st.randoms(use_true_random=False), OVERLAPS)
@settings(max_examples=200)
def test_the_check_rejects_only_what_brute_force_rejects(random: Random, overlap: int) -> None:
    history = draw_history(random, ["/a", "/a/b"], 6, overlap, lost=0.2)
    for _ in range(random.randint(0, 2)):
        spoil(random, history)
    if check_linearizability(history, reads_in_order=True).violations:
        assert not is_linearizable(history), show(history)


def spoil(random: Random, history: History) -> None:
    """Change an answer, or the moment of one."""
    answered = [
        o for o in history.operations if isinstance(o.call, Create | Delete | SetData | Read)
    ]
    answered = [o for o in answered if o.result is not None]
    if not answered:
        return
    operation = random.choice(answered)
    match random.randrange(4):
        case 0:
            operation.result = Refused(random.choice([NO_NODE, NODE_EXISTS, BAD_VERSION]))
        case 1:
            other = random.choice(answered)
            if _kind(other) == _kind(operation):
                operation.result = other.result
        case 2:
            _raise_version(operation)
        case _:
            assert operation.returned is not None
            operation.returned = random.randint(operation.called, operation.returned)


def _kind(operation: Operation) -> tuple[object, object]:
    call = operation.call
    return type(call), call.kind if isinstance(call, Read) else None


def _raise_version(operation: Operation) -> None:
    result = operation.result
    if isinstance(result, Ok) and result.stat is not None:
        fields = list(stat_fields(result))
        fields[4] += 1
        operation.result = Ok(
            result.zxid, result.path, result.value, type(result.stat)(*fields), result.children
        )


def stat_fields(result: Ok) -> list[int]:
    assert result.stat is not None
    return [getattr(result.stat, name) for name in result.stat.__struct_fields__]
