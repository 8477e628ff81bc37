"""The judge of histories, by histories made by hand: what fits one order, and what fits none."""

import pytest

from raykeeper.chaos.checks.history import (
    Call,
    Called,
    History,
    MultiCall,
    Ok,
    Read,
    ReadKind,
    Record,
    Refused,
    Result,
    Returned,
    SessionBegan,
    SessionEnded,
)
from raykeeper.chaos.checks.linearizability import check_linearizability
from raykeeper.chaos.checks.znode_steps import Znode
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import CloseSession, Create, Delete, SessionId, SetData
from raykeeper.znodes.stat import Stat

Line = tuple[str, int, int | None, Call, Result | None]
"""A client, when it called and was answered, what, and the answer."""

GET, EXISTS = Read("/x", ReadKind.GET, True), Read("/x", ReadKind.EXISTS, True)
NO_NODE, NODE_EXISTS = Refused(Code.NO_NODE), Refused(Code.NODE_EXISTS)
BAD_VERSION, NOT_EMPTY = Refused(Code.BAD_VERSION), Refused(Code.NOT_EMPTY)
NO_AUTH, NO_CHILDREN = Refused(Code.NO_AUTH), Refused(Code.NO_CHILDREN_FOR_EPHEMERALS)
SESSIONS = {"a": 101, "b": 102, "c": 103}


def stat(version: int, owner: int = 0) -> Stat:
    now = Millis(0)
    return Stat(ZERO, ZERO, now, now, version, 0, 0, owner, 0, 0, ZERO)


def create(value: bytes = b"0", flags: int = 0, path: str = "/x") -> Create:
    return Create(path, value, flags)


def put(value: bytes, version: int = -1) -> SetData:
    return SetData("/x", value, version)


def drop(version: int = -1) -> Delete:
    return Delete("/x", version)


def at(version: int) -> Ok:
    """The answer to a set."""
    return Ok(stat=stat(version))


def together(*calls: Create | SetData | Delete | Read) -> MultiCall:
    return MultiCall(list(calls))


def both(*parts: Ok) -> Ok:
    """The answer to a transaction."""
    return Ok(parts=list(parts))


def got(value: bytes, version: int, owner: int = 0) -> Ok:
    return Ok(value=value, stat=stat(version, owner))


def history(*lines: Line | SessionEnded) -> History:
    records: list[tuple[int, int, Record]] = []
    numbers: dict[str, int] = {}
    for name, session_id in SESSIONS.items():
        records.append((0, 0, SessionBegan(name, 1, 0, SessionId(session_id))))
    for line in lines:
        if isinstance(line, SessionEnded):
            records.append((line.since, 1, line))
            continue
        client, called, returned, call, result = line
        numbers[client] = number = numbers.get(client, 0) + 1
        records.append((called, 1, Called(client, 1, number, called, call)))
        if returned is not None and result is not None:
            records.append((returned, 2, Returned(client, 1, number, returned, result)))
    return History(record for _, _, record in sorted(records, key=lambda entry: entry[:2]))


MADE: Line = ("a", 1, 2, create(), Ok(path="/x"))

ONE_ORDER: list[tuple[str, list[Line | SessionEnded]]] = [
    ("nothing", []),
    ("in turn", [MADE, ("b", 3, 4, put(b"1"), at(1)), ("a", 5, 6, GET, got(b"1", 1))]),
    (
        "a read beside a write shows the old or the new value",
        [
            MADE,
            ("b", 3, 9, put(b"1"), at(1)),
            ("c", 4, 5, GET, got(b"0", 0)),
            ("c", 6, 7, GET, got(b"1", 1)),
        ],
    ),
    (
        "two writes side by side in the order that their versions tell",
        [MADE, ("a", 3, 9, put(b"1"), at(2)), ("b", 3, 9, put(b"2"), at(1))],
    ),
    (
        "an unknown write that happened late",
        [MADE, ("b", 3, None, put(b"1"), None), ("a", 5, 6, GET, got(b"0", 0)),
         ("a", 7, 8, GET, got(b"1", 1))],
    ),
    (
        "an unknown write that never happened",
        [MADE, ("b", 3, None, put(b"1"), None), ("a", 5, 6, GET, got(b"0", 0))],
    ),
    (
        "unknown writes, of which one was left out",
        [MADE, ("b", 3, None, put(b"1", 7), None), ("b", 3, None, put(b"2"), None),
         ("a", 5, 6, GET, got(b"2", 1))],
    ),
    (
        "a deletion and a creation between two reads",
        [MADE, ("a", 3, 9, drop(), Ok()), ("b", 3, 9, create(b"1"), Ok(path="/x")),
         ("c", 3, 9, EXISTS, Ok()), ("c", 10, 11, GET, got(b"1", 0))],
    ),
    (
        "refusals that fit",
        [("a", 1, 2, put(b"1"), NO_NODE), ("a", 3, 4, drop(), NO_NODE), ("a", 5, 6, GET, NO_NODE),
         ("a", 7, 8, create(), Ok(path="/x")), ("b", 9, 10, create(b"2"), NODE_EXISTS),
         ("b", 11, 12, put(b"1", 3), BAD_VERSION), ("b", 13, 14, drop(1), BAD_VERSION)],
    ),
    (
        "a znode with children is not deleted",
        [MADE, ("b", 3, 4, create(path="/x/y"), Ok(path="/x/y")), ("b", 5, 6, drop(0), NOT_EMPTY)],
    ),
    (
        "a sequential creation has the path it was told",
        [("a", 1, 2, create(flags=2, path="/x-"), Ok(path="/x-0000000007")),
         ("b", 3, 4, Read("/x-0000000007", ReadKind.GET, True), got(b"0", 0))],
    ),
    (
        "an unknown sequential creation made a znode that somebody found",
        [("a", 1, None, create(flags=2, path="/x-"), None),
         ("b", 3, 4, Read("/x-0000000007", ReadKind.GET, True), got(b"0", 0))],
    ),
    (
        "an ephemeral goes when its session closes",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("b", 3, 4, GET, got(b"0", 0, 101)),
         ("a", 5, 8, CloseSession(), Ok()), ("b", 6, 7, GET, NO_NODE)],
    ),
    (
        "an ephemeral goes some time after its client fell silent",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("b", 3, 4, GET, got(b"0", 0, 101)),
         ("b", 6, 7, GET, NO_NODE)],
    ),
    (
        "an ephemeral of a session that is known to have ended, with calls on their way",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), SessionEnded("a", 1, 3, 6),
         ("a", 5, None, create(flags=1), None), ("b", 6, 7, GET, NO_NODE)],
    ),
    (
        "the operations of a transaction in one step, each after the one before",
        [MADE, ("b", 3, 9, together(GET, put(b"1"), drop(1), create(b"2")),
                both(got(b"0", 0), at(1), Ok(), Ok(path="/x"))),
         ("c", 3, 9, GET, got(b"2", 0))],
    ),
    (
        "an ephemeral that a transaction made goes with its session",
        [("a", 1, 2, together(create(flags=1)), both(Ok(path="/x"))),
         ("b", 3, 4, GET, got(b"0", 0, 101)), ("b", 6, 7, GET, NO_NODE)],
    ),
    (
        "refusals that tell nothing of the znode",
        [MADE, ("b", 3, 4, put(b"1"), NO_AUTH), ("b", 5, 6, GET, NO_AUTH),
         ("b", 7, 8, create(path="/y"), NO_AUTH), ("b", 9, 10, together(put(b"1", 7)), BAD_VERSION),
         ("b", 11, 12, create(flags=2), NODE_EXISTS)],
    ),
    (
        "a sequential creation without a parent",
        [("a", 1, 2, create(flags=2, path="/x/n-"), NO_NODE), ("b", 3, 4, create(), Ok(path="/x"))],
    ),
    (
        "an ephemeral has no children",
        [("a", 1, 2, create(flags=1), Ok(path="/x")),
         ("b", 3, 4, create(path="/x/y"), NO_CHILDREN)],
    ),
    (
        "an unknown sequential creation comes before the later requests of its client",
        [("a", 1, None, create(flags=2, path="/x-"), None),
         ("a", 2, 3, Read("/x-0000000007", ReadKind.GET, True), got(b"0", 0))],
    ),
    (
        "an ephemeral goes when its session closes, and nobody knows when that was",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("a", 3, None, CloseSession(), None),
         ("b", 4, 5, GET, got(b"0", 0, 101)), ("b", 6, 7, GET, NO_NODE)],
    ),
    (
        "an ephemeral of a session whose number nobody learned",
        [("nameless", 1, 2, create(flags=1), Ok(path="/x")),
         ("b", 3, 4, GET, got(b"0", 0, 999))],
    ),
    (
        "a plain read may be stale",
        [MADE, ("b", 3, 4, Read("/x", ReadKind.GET), NO_NODE)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("_name", "lines"), ONE_ORDER)
def test_a_history_with_a_valid_order_passes(_name: str, lines: list[Line | SessionEnded]) -> None:
    result = check_linearizability(history(*lines))
    assert result.undecided == []
    assert result.violations == [], result.violations[0].text


NO_ORDER: list[tuple[str, list[Line | SessionEnded]]] = [
    ("a stale read", [MADE, ("b", 3, 4, put(b"1"), at(1)), ("c", 5, 6, GET, got(b"0", 0))]),
    (
        "two reads that go back",
        [MADE, ("b", 3, 9, put(b"1"), at(1)), ("c", 4, 5, GET, got(b"1", 1)),
         ("c", 6, 7, GET, got(b"0", 0))],
    ),
    ("a lost write", [MADE, ("b", 3, 4, put(b"1"), at(1)), ("c", 5, 6, GET, got(b"0", 2))]),
    ("a value nobody wrote", [MADE, ("b", 3, 4, GET, got(b"9", 0))]),
    ("a version nobody made", [MADE, ("b", 3, 4, GET, got(b"0", 1))]),
    ("a write done twice", [MADE, ("b", 3, 4, put(b"1"), at(2))]),
    ("two creations", [MADE, ("b", 1, 2, create(b"1"), Ok(path="/x"))]),
    ("two conditional writes", [MADE, ("a", 3, 9, put(b"1", 0), at(1)),
                                ("b", 3, 9, put(b"2", 0), at(1))]),
    ("an exists that missed it", [MADE, ("b", 3, 4, EXISTS, Ok())]),
    ("a refusal without a reason", [MADE, ("b", 3, 4, put(b"1"), NO_NODE)]),
    ("a refusal for a znode that is not there", [("b", 3, 4, create(), NODE_EXISTS)]),
    ("a refusal at the right version", [MADE, ("b", 3, 4, put(b"1", 0), BAD_VERSION)]),
    ("a refusal of any version", [MADE, ("b", 3, 4, drop(), BAD_VERSION)]),
    ("an answer that does not exist", [MADE, ("b", 3, 4, drop(), NODE_EXISTS)]),
    ("a creation with a version", [("a", 1, 2, create(), Ok(path="/x", stat=stat(1)))]),
    ("a creation of another path", [("a", 1, 2, create(), Ok(path="/y"))]),
    ("a creation that missed a version", [("a", 1, 2, create(), BAD_VERSION)]),
    ("a read that missed a version", [MADE, ("b", 3, 4, GET, BAD_VERSION)]),
    ("an exists that is refused", [("b", 3, 4, EXISTS, NO_NODE)]),
    ("no children in what is no ephemeral", [MADE, ("b", 3, 4, create(path="/x/y"), NO_CHILDREN)]),
    (
        "a value nobody wrote, after an unknown deletion and creation of the same",
        [MADE, ("b", 3, None, drop(), None), ("c", 3, None, create(), None),
         ("a", 5, 6, GET, got(b"9", 0))],
    ),
    (
        "a transaction of which the first part does not fit",
        [MADE, ("b", 3, 4, together(put(b"1", 7), put(b"2")), both(at(8), at(9)))],
    ),
    (
        "a child without a parent",
        [("b", 3, 4, create(path="/x/y"), Ok(path="/x/y"))],
    ),
    (
        "a missing parent that is there",
        [MADE, ("b", 3, 4, create(path="/x/y"), NO_NODE)],
    ),
    (
        "an unknown write that came after a later one of its client",
        [MADE, ("b", 3, None, put(b"1"), None), ("b", 4, 5, put(b"2"), at(1)),
         ("a", 6, 7, GET, got(b"1", 2))],
    ),
    (
        "two writes of one client in the wrong order",
        [MADE, ("b", 3, 9, put(b"1"), at(2)), ("b", 3, 9, put(b"2"), at(1))],
    ),
    (
        "an ephemeral that outlived its session",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("a", 3, 4, CloseSession(), Ok()),
         ("b", 5, 6, EXISTS, Ok(stat=stat(0, 101)))],
    ),
    (
        "an ephemeral that went before its session",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("b", 3, 4, GET, NO_NODE),
         ("a", 5, 6, Read("/y", ReadKind.EXISTS, True), Ok())],
    ),
    (
        "a write after the end of its session",
        [MADE, SessionEnded("b", 1, 3, 4), ("b", 5, None, put(b"1"), None),
         ("a", 6, 7, GET, got(b"1", 1))],
    ),
    (
        "a value that was there only within a transaction",
        [MADE, ("b", 3, 9, together(put(b"1"), put(b"2")), both(at(1), at(2))),
         ("c", 3, 9, GET, got(b"1", 1))],
    ),
    (
        "half a transaction",
        [MADE, ("b", 3, 9, together(create(path="/y"), drop()), both(Ok(path="/y"), Ok())),
         ("c", 10, 11, GET, got(b"0", 0))],
    ),
    (
        "an ephemeral of another's",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("b", 3, 4, GET, got(b"0", 0, 102))],
    ),
    (
        "an ephemeral that is none",
        [("a", 1, 2, create(flags=1), Ok(path="/x")), ("b", 3, 4, GET, got(b"0", 0))],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("_name", "lines"), NO_ORDER)
def test_a_history_without_a_valid_order_fails(
    _name: str, lines: list[Line | SessionEnded]
) -> None:
    result = check_linearizability(history(*lines))
    assert result.undecided == []
    assert len(result.violations) >= 1


def test_the_counterexample_shows_the_operation_and_its_concurrent_ones() -> None:
    made = history(
        MADE,
        ("b", 3, 4, put(b"1"), at(1)),
        ("c", 5, None, drop(3), None),
        ("a", 6, 7, GET, got(b"0", 0)),
    )
    (violation,) = check_linearizability(made).violations
    assert violation.path == "/x"
    assert violation.text.splitlines() == [
        "/x: no order explains [6, 7] a.1 #2 synced get /x -> ok '0' version 0",
        "before it the znode could be:",
        "    b'1' at version 1",
        "it overlaps:",
        "    [5, ?] c.1 #1 delete /x at version 3 -> unknown",
        "last before it:",
        "    [1, 2] a.1 #1 create /x '0' -> ok /x",
        "    [3, 4] b.1 #1 set /x '1' at version -1 -> ok version 1",
    ]


def test_a_delayed_read_may_show_a_later_write_of_its_client() -> None:
    late = history(MADE, ("b", 3, 9, GET, got(b"1", 1)), ("b", 4, 10, put(b"1"), at(1)))
    assert not check_linearizability(late).violations
    assert check_linearizability(late, reads_in_order=True).violations
    # It was answered before the write left.
    early = history(MADE, ("b", 3, 4, GET, got(b"1", 1)), ("b", 5, 10, put(b"1"), at(1)))
    assert check_linearizability(early).violations


def test_the_initial_state_counts() -> None:
    seen = history(("a", 1, 2, GET, got(b"old", 7)))
    assert check_linearizability(seen).violations
    assert not check_linearizability(seen, {"/x": Znode(b"old", 7)}).violations


def test_a_search_that_takes_too_long_is_undecided() -> None:
    lines: list[Line | SessionEnded] = [MADE]
    lines += [("abc"[i % 3], 3, 90, put(b"%d" % i), Ok()) for i in range(12)]
    assert check_linearizability(history(*lines)).undecided == []
    result = check_linearizability(history(*lines), configurations_max=2)
    assert (result.undecided, result.violations) == (["/x"], [])
