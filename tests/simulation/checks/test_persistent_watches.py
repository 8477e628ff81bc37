"""Checks of persistent watches: each error names the broken promise."""

from collections import deque
from collections.abc import Callable

import pytest

from raykeeper.client.core.outstanding import WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.acl import Acl, digest_id
from raykeeper.znodes.replies import Content, EventType
from raykeeper.znodes.requests import (
    AddAuth,
    Create,
    Delete,
    Multi,
    SetData,
    WatchKind,
    WatchMode,
    WriteOp,
)
from raykeeper.znodes.txns import Txn
from tests.simulation.checks import execution
from tests.simulation.checks.persistent_watches import PersistentWatches
from tests.simulation.checks.session_view import PendingRequest
from tests.simulation.checks.test_clients import OTHER, SESSION, client, opened, z
from tests.simulation.checks.told_event import EventTold
from tests.simulation.checks.truth import Truth

CREATED, CHANGED, CHILD = EventType.CREATED, EventType.CHANGED, EventType.CHILD
DELETED, RESYNC = EventType.DELETED, EventType.RESYNC
REMOVED = EventType.PERSISTENT_WATCH_REMOVED
PERSISTENT, RECURSIVE = WatchMode.PERSISTENT, WatchMode.RECURSIVE
ALICE = [Acl(31, "digest", digest_id("alice", "a"))]
BOTH = Multi([], [SetData("/a", b"3", -1), Create("/a/y/z", b"", 0)], [])


class Story:
    """A story with changes from 1:3 on; one client has watched /a, recursively, since 1:3."""

    def __init__(self, *, values: bool = False) -> None:
        self.truth = truth = Truth()
        self.lasting = PersistentWatches(truth)
        self.seen = client(is_settled=True)
        truth.apply(z(1), opened(SESSION))
        truth.apply(z(2), opened(OTHER, b"o" * 16))
        self.number = 0
        self.write(Create("/a", b"0", 0))
        self.seen.zxid = z(3)
        self.lasting.is_set(self.seen, WatchAddition("/a", PERSISTENT, values, "p"), z(3))
        self.lasting.is_set(self.seen, WatchAddition("/a", RECURSIVE, False, "r"), z(3))
        for op in (
            SetData("/a", b"1", -1),  # 1:4
            Create("/a/x", b"", 0, ALICE),  # 1:5, hidden from the watcher
            Create("/a/y", b"", 0),  # 1:6
            BOTH,  # 1:7
            Delete("/a/x", -1),  # 1:8
        ):
            self.write(op)

    def write(self, op: WriteOp) -> None:
        self.number += 1
        zxid = z(self.number + 2)
        change = execution.execute(self.truth, zxid, Millis(0), SESSION, op)
        txn = Txn(SESSION, self.number, 0, Millis(0), change)
        self.lasting.happened(self.truth.apply(zxid, txn))

    def told(
        self,
        kind: EventType,
        counter: int,
        watchers: str,
        path: str = "/a",
        *,
        more: str = "",
        old: Content | None = None,
        new: Content | None = None,
    ) -> "Story":
        event = WatchedEvent(kind, ClientState.CONNECTED, path, z(counter), bool(more), old, new)
        assert self.lasting.in_order(self.seen, EventTold(event, list(watchers), list(more))) == []
        return self

    def shown(self, counter: int) -> "Story":
        self.lasting.told_before(self.seen, z(counter))
        return self

    def first(self) -> "Story":
        """Deliver the events up to 1:6 as required."""
        return (
            self.shown(3)
            .told(CHANGED, 4, "pr")
            .told(CHILD, 5, "p")
            .shown(5)
            .told(CREATED, 6, "r", "/a/y")
            .told(CHILD, 6, "p")
            .shown(6)
        )

    def removed(self, kind: WatchKind, *watchers: str) -> "Story":
        ask = WatchRemoval("/a", kind, None)
        self.seen.pending = deque([PendingRequest(ask, 0, z(0))])
        event = WatchedEvent(REMOVED, ClientState.CONNECTED, "/a", z(9))
        self.lasting.removed(self.seen, list(watchers), event)
        self.lasting.none_left(self.seen, ask)
        return self


def content(story: Story, counter: int, path: str = "/a") -> Content:
    was = story.truth.at(path, z(counter))
    assert was is not None
    return Content(was.value, was.stat)


def remembers_from(counter: int) -> Story:
    story = Story()
    story.lasting.known_from[ServerId(1)] = z(counter)
    return story


def test_complete_events_pass() -> None:
    story = Story().first().told(CHANGED, 7, "pr", more="r").told(CREATED, 7, "r", "/a/y/z")
    story.shown(7).told(CHILD, 8, "p").shown(Zxid(1 << 20))
    story.removed(WatchKind.PERSISTENT, "p").removed(WatchKind.RECURSIVE, "r")
    Story().removed(WatchKind.ANY, "p", "r")


def test_resync_replaces_all_earlier_events() -> None:
    remembers_from(5).told(CHANGED, 4, "pr").told(RESYNC, 6, "pr").told(
        CHANGED, 7, "pr", more="r"
    ).told(CREATED, 7, "r", "/a/y/z").shown(7)


def test_a_client_with_new_identities_may_get_hidden_events() -> None:
    story = Story()
    story.write(AddAuth("digest", b"alice:a"))
    story.told(CHANGED, 4, "pr").told(CREATED, 5, "r", "/a/x").told(CHILD, 5, "p").shown(5)


def test_an_event_carries_the_value_of_its_change() -> None:
    story = Story(values=True)
    story.told(CHANGED, 4, "pr", old=content(story, 3), new=content(story, 4)).shown(4)


def test_missed_events_may_lack_values() -> None:
    story = Story(values=True)
    story.seen.is_settled = False
    story.told(CHANGED, 4, "pr", new=content(story, 4)).told(CHILD, 5, "p").shown(5)


def _valued(old: int | None, new: int | None) -> object:
    story = Story(values=True)
    before = None if old is None else content(story, old)
    return story.told(CHANGED, 4, "pr", old=before, new=new and content(story, new))


WRONG: list[tuple[str, Callable[[], object]]] = [
    # Late, or never.
    ("WatchBeforeRead", lambda: Story().shown(4)),
    ("WatchBeforeRead", lambda: Story().told(CHANGED, 4, "pr").shown(5)),
    ("WatchBeforeRead", lambda: Story().first().shown(7)),
    # Out of order, twice, or of a change that did not happen.
    ("WatchInOrder", lambda: Story().told(CHILD, 5, "p")),
    ("WatchInOrder", lambda: Story().told(CHANGED, 4, "pr").told(CHANGED, 4, "pr")),
    ("WatchInOrder", lambda: Story().told(DELETED, 4, "pr")),
    ("WatchInOrder", lambda: Story().told(CHANGED, 3, "pr")),
    ("WatchInOrder", lambda: remembers_from(4).told(RESYNC, 6, "pr").told(CHANGED, 4, "pr")),
    # RESYNC without a reason.
    ("WatchInOrder", lambda: remembers_from(2).told(RESYNC, 6, "pr")),
    # To a client without a watch, or more than once.
    ("WatchOnce", lambda: Story().told(CHANGED, 4, "p")),
    ("WatchOnce", lambda: Story().told(CHANGED, 4, "prr")),
    ("WatchOnce", lambda: remembers_from(4).told(RESYNC, 6, "p")),
    ("WatchOnce", lambda: remembers_from(4).told(RESYNC, 6, "prx")),
    # Of a znode that its watcher may not read.
    ("WatchHidden", lambda: Story().told(CHANGED, 4, "pr").told(CREATED, 5, "r", "/a/x")),
    # A transaction in parts.
    ("WatchTogether", lambda: Story().first().told(CHANGED, 7, "pr", more="r").shown(6)),
    ("WatchTogether", lambda: Story().first().told(CHANGED, 7, "pr")
        .told(CREATED, 7, "r", "/a/y/z")),
    ("WatchTogether", lambda: Story().told(CHANGED, 4, "pr", more="p").told(CHILD, 5, "p")),
    # With values of another moment, or none.
    ("WatchValues", lambda: _valued(4, 4)),
    ("WatchValues", lambda: _valued(3, 5)),
    ("WatchValues", lambda: _valued(3, None)),
    ("WatchValues", lambda: _valued(None, 4)),
    # Of a removal.
    ("WatchOnce", lambda: Story().removed(WatchKind.PERSISTENT, "r")),
    ("WatchOnce", lambda: Story().removed(WatchKind.ANY, "p")),
    ("WatchTrue", lambda: Story().lasting.none_left(
        Story().seen, WatchRemoval("/a", WatchKind.RECURSIVE, "r"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "breaks"), WRONG)
def test_a_broken_promise_is_named(name: str, breaks: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=f"^{name}: "):
        breaks()
