"""One-shot watches: which events a client gets, when, and how often.

A watch is due from the first change after the state on which it was set. Its event comes once,
before anything that shows that change, and tells the kind of the change. After a broken connection,
or a snapshot in place of the state, it may tell of a later change instead, and one change may stay
untold: a znode that was missing, was created and was deleted again.
"""

from collections.abc import Iterable

from raykeeper.client.core.public_types import WatchedEvent
from raykeeper.zab.ids import Zxid, format_zxid
from raykeeper.znodes.replies import EventType
from tests.simulation.checks.event_visibility import (
    is_ever_hidden,
    is_ever_shown,
    may_be_told,
    must_be_told,
)
from tests.simulation.checks.session_view import PendingWatch, SessionView
from tests.simulation.checks.truth import Trigger, Truth

Key = tuple[str, bool]
"""A path, and whether it is in the table of children."""


class Watches:
    """All one-shot watches of all sessions."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._waiting: dict[Key, list[tuple[SessionView, PendingWatch]]] = {}

    def is_set(
        self, seen: SessionView, key: Key, token: object, zxid: Zxid, *, is_missing: bool
    ) -> None:
        """Record that a read of a path as of `zxid` has set a watch."""
        watching = seen.watching.get(key)
        if watching is not None:
            watching.tokens[token] = None
            return
        watching = seen.watching[key] = PendingWatch(zxid, {token: None}, is_missing)
        self._await(seen, key, watching)

    def happened(self, touched: Iterable[tuple[str, bool, Trigger]]) -> None:
        """Record the changes of a committed transaction."""
        for path, is_child, trigger in touched:
            key = path, is_child
            for each in self._waiting.pop(key, ()):
                seen, watching = each
                if seen.watching.get(key) is not watching:
                    continue
                if must_be_told(self._truth, seen, trigger):
                    watching.due = trigger
                    seen.due[key] = watching
                else:
                    self._waiting.setdefault(key, []).append(each)

    def event_before_the_state_it_announces(
        self, seen: SessionView, zxid: Zxid, *, is_write: bool = False
    ) -> None:
        """Check that a client sees nothing as of `zxid` before the events up to `zxid`.

        The answer to a write may be repeated from a much newer state.
        """
        for key, watching in list(seen.due.items()):
            due = watching.due
            assert due is not None, key
            if due.zxid > zxid:
                continue
            is_hidden = due.kind is not EventType.DELETED and is_ever_hidden(
                self._truth, seen, key[0], due
            )
            may_be_told_anew = is_write and watching.is_missing
            if may_be_told_anew and self._truth.is_ever_missing(key[0], due.zxid, self._truth.zxid):
                continue
            came_and_went = watching.is_missing and self._truth.at(key[0], zxid) is None
            assert came_and_went or is_hidden, (
                f"WatchBeforeRead: {seen} is shown {format_zxid(zxid)} and was not told of "
                f"{due.kind!r} of {key[0]} in {format_zxid(due.zxid)}"
            )
            # Behind a broken connection nothing shows it: the watch is set anew.
            watching.since = zxid
            del seen.due[key]
            self._await(seen, key, watching)

    def once_and_true(self, seen: SessionView, tokens: list[object], event: WatchedEvent) -> None:
        """Check that an event ends at least one watch, and that it has happened."""
        path, kind = event.path, event.type
        keys = [(path, kind is EventType.CHILD)]
        if kind is EventType.DELETED:
            keys.append((path, True))
        ended = [(key, seen.watching.pop(key)) for key in keys if key in seen.watching]
        for key in keys:
            seen.due.pop(key, None)
        text = f"{seen} is told of {kind!r} of {path} in {format_zxid(event.zxid)}"
        assert ended, f"WatchOnce: {text} and does not watch it"
        expected = {token: None for _, watching in ended for token in watching.tokens}
        assert len(tokens) == len(expected) and set(tokens) == set(expected), (
            f"WatchOnce: {text}, called {tokens} of {list(expected)}"
        )
        for key, watching in ended:
            told = self._told_of(key, watching, event)
            assert told, f"WatchTrue: {text}, which had nothing to tell"
            assert any(self._may_know(seen, path, each) for each in told), (
                f"WatchHidden: {text}, which it may not read"
            )
        exact = [w.due for _, w in ended if w.due is not None and w.due.zxid == event.zxid]
        assert all(kind in (due.kind, EventType.DELETED) for due in exact), f"WatchTrue: {text}"

    def _told_of(self, key: Key, watching: PendingWatch, event: WatchedEvent) -> list[Trigger]:
        """Return the triggers that the event may report."""
        since = watching.since
        if event.type is not EventType.DELETED:
            since = max(since, Zxid(event.zxid - 1))
        past = self._truth.triggers(key[0], is_child=key[1], after=since, upto=event.zxid)
        return [each for each in past if each.kind is event.type]

    def _may_know(self, seen: SessionView, path: str, trigger: Trigger) -> bool:
        """Return whether the client may know it; the state tells every watcher of a deletion."""
        truth = self._truth
        return (
            trigger.kind is EventType.DELETED
            or may_be_told(truth, seen, trigger.acls)
            or is_ever_shown(truth, seen, path, trigger)
        )

    def no_event_missed(self, seen: SessionView) -> None:
        """Check that in the end every client got all events that it watched for."""
        self.event_before_the_state_it_announces(seen, self._truth.zxid)

    def _await(self, seen: SessionView, key: Key, watching: PendingWatch) -> None:
        truth = self._truth
        for trigger in truth.triggers(key[0], is_child=key[1], after=watching.since):
            if must_be_told(truth, seen, trigger):
                watching.due = trigger
                seen.due[key] = watching
                return
        watching.due = None
        self._waiting.setdefault(key, []).append((seen, watching))
