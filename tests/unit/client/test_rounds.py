"""Rounds: what each round asks, given the outcomes of the one before."""

from typing import Any

import pytest

from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    KeeperError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from raykeeper.client.outstanding import Query
from raykeeper.client.rounds import (
    ROUNDS_MAX,
    Rounds,
    create_with_parents,
    delete_with_children,
    run_rounds,
)
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import ChildrenRead, StatRead, Written
from raykeeper.znodes.requests import Create, Delete, Exists, GetChildren
from raykeeper.znodes.stat import Stat

Z = Zxid(5)
STAT = Stat(Z, Z, Millis(1), Millis(1), 3, 0, 0, 0, 0, 0, Z)
CREATE = Create("/a/b/c", b"v", 1)
A, B = Create("/a", b"", 0), Create("/a/b", b"", 0)
MADE = Written(1, Z, 0, "/a/b/c", STAT)
PARENT, GONE = Written(1, Z, 0, "/a", STAT), Written(1, Z, 0, "", None)
NO_NODE, EXISTS = NoNodeError("/x"), NodeExistsError("/x")
NOT_EMPTY = NotEmptyError("/x")


def children(*names: str) -> ChildrenRead:
    return ChildrenRead(1, Z, list(names), STAT)


def look(*paths: str) -> list[Query]:
    return [Query(GetChildren, path) for path in paths]


def remove(*paths: str, version: int = -1) -> list[Delete]:
    return [*(Delete(path, -1) for path in paths[:-1]), Delete(paths[-1], version)]


class Played:
    """Runs an operation against a script of (asked, outcomes)."""

    def __init__(self, rounds: Rounds, *script: tuple[Any, list[Any]]) -> None:
        self.value: Any = None
        self.error: KeeperError | None = None
        self._tokens: list[Any] = []
        self._asked: list[Any] = []
        run_rounds(rounds, self._submit, self)
        for asked, outcomes in script:
            assert self._asked == asked
            tokens, self._tokens, self._asked = self._tokens, [], []
            for token, outcome in zip(tokens, outcomes, strict=True):
                is_error = isinstance(outcome, KeeperError)
                (token.fail if is_error else token.complete)(outcome)
        assert not self._asked, "more was asked than expected"

    def _submit(self, ask: Any, token: Any) -> None:
        self._asked.append(ask)
        self._tokens.append(token)

    def succeed(self, value: Any) -> None:
        self.value = ("done", value)

    def fail(self, error: KeeperError) -> None:
        self.error = error


@pytest.mark.parametrize(
    ("script", "end"),
    [
        # The parents are there, and it costs one request.
        ([([CREATE], [MADE])], "/a/b/c"),
        ([([CREATE], [EXISTS])], NodeExistsError),
        ([([CREATE], [SessionExpiredError()])], SessionExpiredError),
        # They are not: one more round.
        ([([CREATE], [NO_NODE]), ([A, B, CREATE], [PARENT, PARENT, MADE])], "/a/b/c"),
        ([([CREATE], [NO_NODE]), ([A, B, CREATE], [EXISTS, PARENT, EXISTS])], NodeExistsError),
        # Somebody deletes a parent in between.
        (
            [
                ([CREATE], [NO_NODE]),
                ([A, B, CREATE], [EXISTS, NO_NODE, NO_NODE]),
                ([A, B, CREATE], [PARENT, PARENT, MADE]),
            ],
            "/a/b/c",
        ),
        # A parent cannot be made.
        (
            [
                ([CREATE], [NO_NODE]),
                ([A, B, CREATE], [EXISTS, NoChildrenForEphemeralsError("/a/b"), NO_NODE]),
            ],
            NoChildrenForEphemeralsError,
        ),
        # Somebody deletes them again and again.
        (
            [([CREATE], [NO_NODE])] + [([A, B, CREATE], [PARENT, PARENT, NO_NODE])] * ROUNDS_MAX,
            NoNodeError,
        ),
    ],
)
def test_create_with_parents(script: Any, end: Any) -> None:
    played = Played(create_with_parents(CREATE), *script)
    if isinstance(end, str):
        assert played.value == ("done", end)
    else:
        assert type(played.error) is end


@pytest.mark.parametrize(
    ("path", "version", "script", "end"),
    [
        # A tree, level by level down and back up.
        (
            "/a",
            -1,
            [
                (look("/a"), [children("c", "b")]),
                (look("/a/b", "/a/c"), [children("d"), children()]),
                (look("/a/b/d"), [children()]),
                (remove("/a/b/d", "/a/c", "/a/b", "/a"), [GONE] * 4),
            ],
            None,
        ),
        # Nothing there.
        ("/a", -1, [(look("/a"), [NO_NODE])], None),
        ("/a", 3, [([Query(Exists, "/a")], [StatRead(1, Z, None)])], NoNodeError),
        # The version is looked at first, and last of all it is a condition.
        ("/a", 4, [([Query(Exists, "/a")], [StatRead(1, Z, STAT)])], BadVersionError),
        ("/a", 3, [([Query(Exists, "/a")], [SessionExpiredError()])], SessionExpiredError),
        (
            "/a",
            3,
            [
                ([Query(Exists, "/a")], [StatRead(1, Z, STAT)]),
                (look("/a"), [children()]),
                (remove("/a", version=3), [BadVersionError("/a")]),
            ],
            BadVersionError,
        ),
        # Somebody else deletes a part, or adds one.
        (
            "/a",
            -1,
            [
                (look("/a"), [children("b")]),
                (look("/a/b"), [NO_NODE]),
                (remove("/a"), [NOT_EMPTY]),
                (look("/a"), [children("z")]),
                (look("/a/z"), [children()]),
                (remove("/a/z", "/a"), [NO_NODE, GONE]),
            ],
            None,
        ),
        ("/a", -1, [(look("/a"), [SessionExpiredError()])], SessionExpiredError),
        # Somebody adds again and again.
        (
            "/a",
            -1,
            [(look("/a"), [children()]), (remove("/a"), [NOT_EMPTY])] * ROUNDS_MAX,
            NotEmptyError,
        ),
        # What may never be deleted is left whole.
        ("/", -1, [], BadArgumentsError),
        ("/zookeeper", -1, [], BadArgumentsError),
    ],
)
def test_delete_with_children(path: str, version: int, script: Any, end: Any) -> None:
    played = Played(delete_with_children(Delete(path, version)), *script)
    if end is None:
        assert played.value == ("done", None)
    else:
        assert type(played.error) is end


def test_parents_of_a_sequential_creation() -> None:
    creation = Create("/a/b/", b"", 2)
    script = [([creation], [NO_NODE]), ([A, B, creation], [PARENT, PARENT, MADE])]
    assert Played(create_with_parents(creation), *script).value
    top = Create("/a", b"", 0)
    assert Played(create_with_parents(top), ([top], [MADE])).value
