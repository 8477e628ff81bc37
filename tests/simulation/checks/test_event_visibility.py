"""One-shot watches and ACLs: the events that watchers need not, or must not, get."""

import pytest

from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import Acl, digest_id
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import (
    AddAuth,
    CloseSession,
    Create,
    Delete,
    SetAcls,
    SetData,
    WriteOp,
)
from raykeeper.znodes.txns import Txn
from tests.simulation.checks import execution
from tests.simulation.checks.event_visibility import must_be_told
from tests.simulation.checks.test_clients import SESSION, client, opened, z
from tests.simulation.checks.truth import Truth
from tests.simulation.checks.watches import Watches

CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED
ALICE = [Acl(30, "world", "anyone"), Acl(1, "digest", digest_id("alice", "a"))]
"""All may do everything but read."""
MADE, SET, GONE = Create("/a", b"0", 0), SetData("/a", b"1", -1), Delete("/a", -1)
MADE_OF_ALICE = Create("/a", b"0", 0, ALICE)
HIDE, OPEN = SetAcls("/a", ALICE, -1), SetAcls("/a", [Acl(31, "world", "anyone")], -1)
PROOF = AddAuth("digest", b"alice:a")


class Story:
    """A story with changes from 1:2 on; one client watches the value of /a."""

    def __init__(self, *ops: WriteOp) -> None:
        self.truth = Truth()
        self.watches = Watches(self.truth)
        self.seen = client()
        self.truth.apply(z(1), opened(SESSION))
        self.counter = 1
        self.then(*ops)

    def then(self, *ops: WriteOp) -> "Story":
        for op in ops:
            self.counter += 1
            zxid = z(self.counter)
            change = execution.execute(self.truth, zxid, Millis(0), SESSION, op)
            touched = self.truth.apply(zxid, Txn(SESSION, self.counter, 0, Millis(0), change))
            self.watches.happened(touched)
        return self

    def watched(self, *, is_missing: bool = False) -> "Story":
        zxid = z(self.counter)
        self.watches.is_set(self.seen, ("/a", False), "w", zxid, is_missing=is_missing)
        return self

    def told(self, kind: EventType, counter: int) -> "Story":
        event = WatchedEvent(kind, ClientState.CONNECTED, "/a", z(counter))
        self.watches.once_and_true(self.seen, ["w"], event)
        return self

    def shown(self) -> "Story":
        self.watches.event_before_the_state_it_announces(self.seen, z(self.counter))
        return self


def test_a_hidden_change_triggers_no_watch() -> None:
    hidden = Story().watched(is_missing=True).then(MADE_OF_ALICE, GONE).shown()
    hidden.then(MADE).told(CREATED, 4).shown()
    later = Story().then(MADE_OF_ALICE).watched(is_missing=True).then(OPEN, SET)
    later.told(CHANGED, 4).shown()


def test_an_event_before_the_hiding_may_or_may_not_come() -> None:
    """A server that compares states tells nothing; an unbroken watch fires."""
    Story(MADE).watched().then(SET, HIDE).shown()
    Story(MADE).watched().then(SET, HIDE).told(CHANGED, 3).shown()


def test_a_deletion_may_be_reported_to_any_watcher() -> None:
    Story(MADE).watched().then(HIDE, GONE).shown()
    Story(MADE).watched().then(HIDE, GONE).told(DELETED, 4)
    with pytest.raises(AssertionError, match=r"^WatchBeforeRead: "):
        Story(MADE).watched().then(GONE, MADE_OF_ALICE).shown()


def test_a_hidden_change_is_not_reported() -> None:
    with pytest.raises(AssertionError, match=r"^WatchHidden: "):
        Story().watched(is_missing=True).then(MADE_OF_ALICE).told(CREATED, 2)
    with pytest.raises(AssertionError, match=r"^WatchHidden: "):
        Story(MADE, HIDE).watched().then(SET).told(CHANGED, 4)


def test_a_change_may_be_reported_once_it_is_readable_again() -> None:
    Story().watched(is_missing=True).then(MADE_OF_ALICE, OPEN).told(CREATED, 2)
    Story().watched(is_missing=True).then(MADE_OF_ALICE, PROOF).told(CREATED, 2)


def test_a_client_with_permission_must_get_the_event() -> None:
    with pytest.raises(AssertionError, match=r"^WatchBeforeRead: "):
        Story(PROOF).watched(is_missing=True).then(MADE_OF_ALICE).shown()


def test_an_ended_session_has_no_identity() -> None:
    story = Story(PROOF, MADE_OF_ALICE, CloseSession())
    (made,) = story.truth.triggers("/a", is_child=False, after=z(0))
    assert must_be_told(story.truth, story.seen, made)
    story.seen.was_read_only = True  # such a server knows how the session ended
    assert not must_be_told(story.truth, story.seen, made)
    still = Story(PROOF, MADE_OF_ALICE)
    assert must_be_told(still.truth, still.seen, made)
    still.seen.was_read_only, still.seen.fenced_after = True, 1
    assert not must_be_told(still.truth, still.seen, made)
