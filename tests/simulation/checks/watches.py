"""Watches: which events a client is told, when, and how often.

A watch is due from the first change after the state it was set on. Its event comes before anything
that shows that change, once, and says what happened. After a broken connection, or a snapshot in
the place of the state, it may tell of a later change, and of one thing it may keep silent: a znode
that was missing, came and went again.
"""

from collections.abc import Iterable

from raykeeper.client.watched_event import WatchedEvent
from raykeeper.zab.ids import Zxid, show_zxid
from raykeeper.znodes.replies import EventType
from tests.simulation.checks.seen import Seen, Watching
from tests.simulation.checks.truth import Trigger, Truth

Key = tuple[str, bool]
"""A path, and whether it is in the table of children."""


class Watches:
    """All watches of all sessions."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._waiting: dict[Key, list[tuple[Seen, Watching]]] = {}

    def is_set(self, seen: Seen, key: Key, token: object, zxid: Zxid, *, is_missing: bool) -> None:
        """A read of a path as of `zxid` has set a watch."""
        watching = seen.watching.get(key)
        if watching is not None:
            watching.tokens[token] = None
            return
        watching = seen.watching[key] = Watching(zxid, {token: None}, is_missing)
        self._await(seen, key, watching)

    def happened(self, touched: Iterable[tuple[str, bool, Trigger]]) -> None:
        """A transaction was committed."""
        for path, is_child, trigger in touched:
            for seen, watching in self._waiting.pop((path, is_child), ()):
                if seen.watching.get((path, is_child)) is watching:
                    watching.due, watching.kind = trigger.zxid, trigger.kind
                    seen.due[path, is_child] = watching

    def event_before_the_state_it_announces(
        self, seen: Seen, zxid: Zxid, *, is_write: bool = False
    ) -> None:
        """Nothing as of `zxid` is shown to a client before the events up to `zxid`.

        The answer to a write may come again, from a state that is much newer.
        """
        for key, watching in list(seen.due.items()):
            assert watching.due is not None, key
            if watching.due > zxid:
                continue
            may_be_told_anew = is_write and watching.is_missing
            if may_be_told_anew and self._truth.is_ever_missing(
                key[0], watching.due, self._truth.zxid
            ):
                continue
            assert watching.is_missing and self._truth.at(key[0], zxid) is None, (
                f"WatchBeforeRead: {seen} is shown {show_zxid(zxid)} and was not told of "
                f"{watching.kind!r} of {key[0]} in {show_zxid(watching.due)}"
            )
            # Missing, made and deleted again behind a broken connection: it is set anew.
            watching.since = zxid
            del seen.due[key]
            self._await(seen, key, watching)

    def once_and_true(self, seen: Seen, tokens: list[object], event: WatchedEvent) -> None:
        """An event ends the watches it concerns, of which there are some, and it has happened."""
        path, kind = event.path, event.type
        keys = [(path, kind is EventType.CHILD)]
        if kind is EventType.DELETED:
            keys.append((path, True))
        ended = [seen.watching.pop(key) for key in keys if key in seen.watching]
        for key in keys:
            seen.due.pop(key, None)
        text = f"{seen} is told of {kind!r} of {path} in {show_zxid(event.zxid)}"
        assert ended, f"WatchOnce: {text} and does not watch it"
        expected = {token: None for watching in ended for token in watching.tokens}
        assert len(tokens) == len(expected) and set(tokens) == set(expected), (
            f"WatchOnce: {text}, called {tokens} of {list(expected)}"
        )
        for watching in ended:
            assert watching.due is not None and watching.due <= event.zxid, (
                f"WatchTrue: {text}, which was due at {watching.due}"
            )
        since = min(watching.since for watching in ended)
        after = since if kind is EventType.DELETED else Zxid(event.zxid - 1)
        assert self._truth.has_happened(path, kind, after, event.zxid), f"WatchTrue: {text}"
        exact = [watching for watching in ended if watching.due == event.zxid]
        assert all(kind in (w.kind, EventType.DELETED) for w in exact), f"WatchTrue: {text}"

    def no_event_missed(self, seen: Seen) -> None:
        """In the end every client was told all that it watched for."""
        self.event_before_the_state_it_announces(seen, self._truth.zxid)

    def _await(self, seen: Seen, key: Key, watching: Watching) -> None:
        trigger = self._truth.next_trigger(key[0], is_child=key[1], after=watching.since)
        if trigger is None:
            watching.due = watching.kind = None
            self._waiting.setdefault(key, []).append((seen, watching))
        else:
            watching.due, watching.kind = trigger.zxid, trigger.kind
            seen.due[key] = watching
