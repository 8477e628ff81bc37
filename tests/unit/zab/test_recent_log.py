"""RecentLog: positions, slices, and what a cut or a forgetting leaves."""

import pytest

from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import COUNTER_MAX, ZERO, Zxid
from raykeeper.zab.recent_log import RecentLog, follows, split_run
from tests.unit.zab.histories import run, z

AB, C, X = run(z(1, 1), b"a", b"b"), run(z(1, 3), b"c"), run(z(3, 1), b"xx", b"yy")


def window(*runs: LogRun, base: Zxid = ZERO) -> RecentLog:
    made = RecentLog(base)
    for each in runs:
        made.extend(each.first, each.txns)
    return made


def contents(made: RecentLog) -> tuple[Zxid, list[LogRun], Zxid, int, int]:
    return made.base, made.between(made.base, made.last), made.last, made.count, made.bytes


@pytest.mark.parametrize(
    ("zxid", "last", "may"),
    [
        # The next of the epoch, or the first of a later one.
        (z(1, 2), z(1, 1), True),
        (z(1, 1), ZERO, True),
        (z(3, 1), z(1, 7), True),
        # A gap, a repeat, an earlier epoch, the middle of a later one.
        (z(1, 3), z(1, 1), False),
        (z(1, 1), z(1, 1), False),
        (z(1, 1), z(2, 1), False),
        (z(2, 2), z(1, 1), False),
        # The zxid of an epoch itself, also right after an exhausted one.
        (z(2, 0), z(1, 1), False),
        (z(2, 0), z(1, COUNTER_MAX), False),
    ],
)
def test_follows(zxid: Zxid, last: Zxid, may: bool) -> None:
    assert follows(zxid, last) is may


@pytest.mark.parametrize(
    ("txns", "bytes_max", "parts"),
    [
        ([b"aa", b"b", b"c"], 3, [(1, [b"aa", b"b"]), (3, [b"c"])]),
        ([b"aa", b"b", b"c"], 9, [(1, [b"aa", b"b", b"c"])]),
        ([b"aaaa", b"b"], 3, [(1, [b"aaaa"]), (2, [b"b"])]),  # one may be larger
        ([b"", b"", b"a"], 0, [(1, [b"", b"", b"a"])]),
        ([], 3, []),
    ],
)
def test_a_run_is_split_by_bytes(
    txns: list[bytes], bytes_max: int, parts: list[tuple[int, list[bytes]]]
) -> None:
    expected = [LogRun(z(1, counter), part) for counter, part in parts]
    assert list(split_run(LogRun(z(1, 1), txns), bytes_max)) == expected


def test_extends_a_run_or_begins_one_per_epoch() -> None:
    assert contents(window()) == (ZERO, [], ZERO, 0, 0)
    assert contents(window(AB, C)) == (ZERO, [run(z(1, 1), b"a", b"b", b"c")], z(1, 3), 3, 3)
    assert contents(window(AB, X)) == (ZERO, [AB, X], z(3, 2), 4, 6)
    assert contents(window(C, base=z(1, 2))) == (z(1, 2), [C], z(1, 3), 1, 1)


@pytest.mark.parametrize("bad", [C, run(z(1, 1)), run(z(2, 5), b"e")])
def test_refuses_holes_and_nothing(bad: LogRun) -> None:
    with pytest.raises(AssertionError):
        window(bad)


def test_keeps_its_own_lists() -> None:
    txns = [b"a", b"b"]
    made = window(LogRun(z(1, 1), txns))
    txns.append(b"c")
    slices = made.between(ZERO, z(1, 2))
    slices[0].txns.append(b"d")
    assert contents(made) == contents(window(AB))


@pytest.mark.parametrize(
    ("zxid", "has"),
    [
        # The base and each transaction are positions; what lies between epochs is none.
        (ZERO, True),
        (z(1, 1), True),
        (z(1, 2), True),
        (z(1, 3), False),
        (z(3, 0), False),
        (z(3, 2), True),
        (z(3, 3), False),
    ],
)
def test_positions(zxid: Zxid, has: bool) -> None:
    assert window(AB, X).has(zxid) is has


@pytest.mark.parametrize(
    ("after", "upto", "runs"),
    [
        (ZERO, z(3, 2), [AB, X]),
        (z(1, 1), z(3, 1), [run(z(1, 2), b"b"), run(z(3, 1), b"xx")]),
        (z(1, 2), z(3, 2), [X]),
        (z(3, 2), z(3, 2), []),
        # Neither end need be a position.
        (z(2, 5), z(9, 9), [X]),
        (z(1, 9), z(3, 1), [run(z(3, 1), b"xx")]),
    ],
)
def test_between(after: Zxid, upto: Zxid, runs: list[LogRun]) -> None:
    assert window(AB, X).between(after, upto) == runs


@pytest.mark.parametrize(
    ("upto", "left"),
    [
        (z(3, 2), [AB, X]),
        (z(3, 1), [AB, run(z(3, 1), b"xx")]),
        (z(1, 2), [AB]),
        (z(1, 1), [run(z(1, 1), b"a")]),
        (ZERO, []),
    ],
)
def test_cut(upto: Zxid, left: list[LogRun]) -> None:
    made = window(AB, X)
    made.truncate(upto)
    assert contents(made) == contents(window(*left))


@pytest.mark.parametrize(
    ("upto", "left"),
    [
        (ZERO, [AB, X]),
        (z(1, 1), [run(z(1, 2), b"b"), X]),
        (z(1, 2), [X]),
        (z(3, 1), [run(z(3, 2), b"yy")]),
        (z(3, 2), []),
    ],
)
def test_forget(upto: Zxid, left: list[LogRun]) -> None:
    made = window(AB, X)
    made.trim(upto)
    assert contents(made) == contents(window(*left, base=upto)) or not left
    assert (made.base, made.last) == (upto, z(3, 2))
    assert made.count == sum(len(each.txns) for each in left)


@pytest.mark.parametrize("place", [z(1, 3), z(3, 3)])
def test_cuts_and_forgets_at_positions_only(place: Zxid) -> None:
    with pytest.raises(AssertionError):
        window(AB, X).truncate(place)
    with pytest.raises(AssertionError):
        window(AB, X).trim(place)


@pytest.mark.parametrize(
    ("count", "zxid"),
    [(0, ZERO), (1, z(1, 1)), (2, z(1, 2)), (3, z(3, 1)), (4, z(3, 2)), (9, z(3, 2))],
)
def test_oldest(count: int, zxid: Zxid) -> None:
    assert window(AB, X).position_after(count) == zxid
    assert window(X, base=z(1, 2)).position_after(0) == z(1, 2)
