"""Compound operations: their requests, step by step, given the outcomes of those before."""

from typing import Any, cast

import pytest

from raykeeper.client.core.compound_operations import (
    ATTEMPTS_MAX,
    BATCH_MAX,
    create_if_missing,
    create_with_parents,
    delete_with_children,
    remove_limits,
    set_limits,
)
from raykeeper.client.core.flows import Flow
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.scheduler import Scheduler
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    KeeperError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import ExistsReply, GetChildrenReply, WriteReply
from raykeeper.znodes.requests import Create, Delete, Exists, GetChildren, SetData
from raykeeper.znodes.stat import Stat

Z = Zxid(5)
STAT = Stat(Z, Z, Millis(1), Millis(1), 3, 0, 0, 0, 0, 0, Z)
CREATE = Create("/a/b/c", b"v", 1)
A, B = Create("/a", b"", 0), Create("/a/b", b"", 0)
MADE = WriteReply(1, Z, 0, "/a/b/c", STAT)
PARENT, GONE = WriteReply(1, Z, 0, "/a", STAT), WriteReply(1, Z, 0, "", None)
NO_NODE, EXISTS = NoNodeError("/x"), NodeExistsError("/x")
NOT_EMPTY = NotEmptyError("/x")


def children(*names: str) -> GetChildrenReply:
    return GetChildrenReply(1, Z, list(names), STAT)


def look(*paths: str) -> list[Query]:
    return [Query(GetChildren, path) for path in paths]


def remove(*paths: str, version: int = -1) -> list[Delete]:
    return [*(Delete(path, -1) for path in paths[:-1]), Delete(paths[-1], version)]


class Played:
    """Runs an operation against a script of (asked, outcomes)."""

    def __init__(self, flow: Flow[Any], *script: tuple[Any, list[Any]]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        self._tokens: list[Any] = []
        self._asked: list[Any] = []
        Scheduler(cast(Any, self)).start(flow, self, fails_late_requests=True)
        for asked, outcomes in script:
            assert self._asked == asked
            tokens, self._tokens, self._asked = self._tokens, [], []
            for token, outcome in zip(tokens, outcomes, strict=True):
                is_error = isinstance(outcome, KeeperError)
                (token.fail if is_error else token.complete)(outcome)
        assert not self._asked, "more was asked than expected"

    def submit(self, ask: Any, token: Any) -> None:
        self._asked.append(ask)
        self._tokens.append(token)

    def succeed(self, value: Any) -> None:
        self.value = ("done", value)

    def fail(self, error: Exception) -> None:
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
            [([CREATE], [NO_NODE])] + [([A, B, CREATE], [PARENT, PARENT, NO_NODE])] * ATTEMPTS_MAX,
            NoNodeError,
        ),
    ],
)
def test_create_creates_missing_parents(script: Any, end: Any) -> None:
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
        ("/a", 3, [([Query(Exists, "/a")], [ExistsReply(1, Z, None)])], NoNodeError),
        # The version is looked at first, and last of all it is a condition.
        ("/a", 4, [([Query(Exists, "/a")], [ExistsReply(1, Z, STAT)])], BadVersionError),
        ("/a", 3, [([Query(Exists, "/a")], [SessionExpiredError()])], SessionExpiredError),
        (
            "/a",
            3,
            [
                ([Query(Exists, "/a")], [ExistsReply(1, Z, STAT)]),
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
            [(look("/a"), [children()]), (remove("/a"), [NOT_EMPTY])] * ATTEMPTS_MAX,
            NotEmptyError,
        ),
        # What may never be deleted is left whole.
        ("/", -1, [], BadArgumentsError),
        ("/zookeeper", -1, [], BadArgumentsError),
    ],
)
def test_delete_deletes_the_children_first(path: str, version: int, script: Any, end: Any) -> None:
    played = Played(delete_with_children(Delete(path, version)), *script)
    if end is None:
        assert played.value == ("done", None)
    else:
        assert type(played.error) is end


def test_a_sequential_create_creates_missing_parents() -> None:
    creation = Create("/a/b/", b"", 2)
    script = [([creation], [NO_NODE]), ([A, B, creation], [PARENT, PARENT, MADE])]
    assert Played(create_with_parents(creation), *script).value
    top = Create("/a", b"", 0)
    assert Played(create_with_parents(top), ([top], [MADE])).value


def test_a_large_subtree_is_deleted_in_portions() -> None:
    names = [f"{n:04}" for n in range(BATCH_MAX + 1)]
    paths = [f"/a/{name}" for name in names]
    script = [
        (look("/a"), [children(*names)]),
        (look(*paths[:BATCH_MAX]), [children()] * BATCH_MAX),
        (look(paths[BATCH_MAX]), [children()]),
        ([Delete(path, -1) for path in paths[:0:-1]], [GONE] * BATCH_MAX),
        (remove(paths[0], "/a"), [GONE, GONE]),
    ]
    assert Played(delete_with_children(Delete("/a", -1)), *script).value == ("done", None)
    refused = [(script[3][0], [NoAuthError("/a")] + [GONE] * (BATCH_MAX - 1))]
    played = Played(delete_with_children(Delete("/a", -1)), *script[:3], *refused)
    assert type(played.error) is NoAuthError, "and nothing more is deleted"


THERE, MISSING = ExistsReply(1, Z, STAT), ExistsReply(1, Z, None)


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ([([Query(Exists, "/a/b/c")], [THERE])], None),
        ([([Query(Exists, "/a/b/c")], [MISSING]), ([CREATE], [MADE])], None),
        # Somebody is quicker.
        ([([Query(Exists, "/a/b/c")], [MISSING]), ([CREATE], [EXISTS])], None),
        ([([Query(Exists, "/a/b/c")], [NoAuthError("/a")])], NoAuthError),
        ([([Query(Exists, "/a/b/c")], [MISSING]), ([CREATE], [NoAuthError("/a")])], NoAuthError),
    ],
)
def test_create_if_missing_creates_what_is_missing(script: Any, end: Any) -> None:
    played = Played(create_if_missing(CREATE), *script)
    assert type(played.error) is end if end else played.value == ("done", None)


SET, STATS = SetData("/a/b/c", b"v", -1), Create("/a/b/s", b"", 0)


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ([([SET], [WriteReply(1, Z, 0, "", STAT)])], None),
        (
            [
                ([SET], [NO_NODE]),
                ([CREATE], [NO_NODE]),
                ([A, B, CREATE], [MADE] * 3),
                ([STATS], [MADE]),
            ],
            None,
        ),
        ([([SET], [NO_NODE]), ([CREATE], [MADE]), ([STATS], [EXISTS])], None),
        ([([SET], [NO_NODE]), ([CREATE], [MADE]), ([STATS], [NoAuthError("/a")])], NoAuthError),
        # Somebody is quicker.
        (
            [([SET], [NO_NODE]), ([CREATE], [EXISTS]), ([SET], [WriteReply(1, Z, 0, "", STAT)])],
            None,
        ),
        ([([SET], [NoAuthError("/a")])], NoAuthError),
        ([([SET], [NO_NODE]), ([CREATE], [NoAuthError("/a")])], NoAuthError),
        # Somebody creates and deletes again and again.
        ([([SET], [NO_NODE]), ([CREATE], [EXISTS])] * ATTEMPTS_MAX, NodeExistsError),
    ],
)
def test_set_limits_writes_the_quota_znodes(script: Any, end: Any) -> None:
    played = Played(set_limits(SET, CREATE, STATS), *script)
    assert type(played.error) is end if end else played.value == ("done", None)


def test_remove_limits_deletes_the_quota_znodes() -> None:
    asked = [Delete(path, -1) for path in ("/q/a/b/limits", "/q/a/b/stats", "/q/a/b", "/q/a")]
    paths = ("/q/a/b/limits", "/q/a/b/stats", "/q")
    played = Played(remove_limits(*paths), (asked, [GONE, NO_NODE, GONE, NOT_EMPTY]))
    assert played.value == ("done", None)
    played = Played(remove_limits(*paths), (asked, [NO_NODE] * 4))
    assert type(played.error) is NoNodeError
