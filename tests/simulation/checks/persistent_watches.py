"""Persistent watches: from the moment one is set it gets every event, in order, each once.

Connections and servers may change without a difference, except that RESYNC may stand for all
events up to its zxid if the server does not remember so far. Events of a znode that the watcher may
not read are never sent. Values and Stats are those before and after the change.
"""

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct

from raykeeper.client.core.outstanding import WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import WatchedEvent
from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.znodes.replies import Content, EventType
from raykeeper.znodes.requests import WatchKind, WatchMode
from tests.simulation.checks.event_visibility import may_be_told, must_be_told
from tests.simulation.checks.session_view import PendingWatch, PersistentWatchState, SessionView
from tests.simulation.checks.told_event import EventTold
from tests.simulation.checks.truth import PastZnode, Trigger, Truth

REMOVED = {
    EventType.DATA_WATCH_REMOVED: [WatchKind.DATA],
    EventType.CHILD_WATCH_REMOVED: [WatchKind.CHILD],
    EventType.PERSISTENT_WATCH_REMOVED: [WatchKind.PERSISTENT, WatchKind.RECURSIVE],
}
"""The kinds of watches whose removal each event reports."""
MODE_OF = {WatchKind.PERSISTENT: WatchMode.PERSISTENT, WatchKind.RECURSIVE: WatchMode.RECURSIVE}


Key = tuple[object, str, WatchMode]
"""Watcher, path and mode."""


class PastEvent(Struct, frozen=True):
    """An event that some watches had to get."""

    zxid: Zxid
    path: str
    trigger: Trigger

    def is_of(self, event: WatchedEvent) -> bool:
        """Return whether it is this event."""
        return (self.zxid, self.trigger.kind, self.path) == (event.zxid, event.type, event.path)

    def __str__(self) -> str:
        return f"{self.trigger.kind!r} of {self.path} in {format_zxid(self.zxid)}"


class PersistentWatches:
    """The persistent watches of all sessions."""

    def __init__(self, truth: Truth) -> None:
        self.known_from: dict[ServerId, Zxid] = {}
        """From where on a server, which may remember all it likes, remembers everything."""
        self._truth = truth
        self._past: list[PastEvent] = []

    def happened(self, touched: Iterable[tuple[str, bool, Trigger]]) -> None:
        """Record the changes of a committed transaction."""
        for path, is_child, trigger in touched:
            # A deletion is in both tables, but it is one event.
            if not (is_child and trigger.kind is EventType.DELETED):
                self._past.append(PastEvent(trigger.zxid, path, trigger))

    def is_set(self, seen: SessionView, ask: WatchAddition, zxid: Zxid) -> None:
        """Record a watch that was set as of `zxid`; one that exists already continues."""
        key = ask.watcher, ask.path, ask.mode
        following = seen.following.get(key)
        if following is None:
            seen.following[key] = PersistentWatchState(self._after(zxid), ask.with_values)
        elif ask.with_values:
            following.wants_values = True

    def set_again(self, seen: SessionView, zxid: Zxid) -> None:
        """Record that the watches of a client of ZooKeeper's protocol are set on a new connection.

        Unlike a native one it is not told what it has missed, unless its server knows all of it.
        """
        assert seen.connection is not None, "watches are set on a connection"
        if self._may_miss(seen):
            for following in seen.following.values():
                following.at = max(following.at, self._after(zxid))
        seen.connection.is_resuming = False

    def _may_miss(self, seen: SessionView) -> bool:
        """Return whether such a client, whose watches are being set again, may miss events."""
        core, connection = seen.client.core, seen.connection
        if core is None or connection is None or not connection.is_resuming:
            return False
        known_from = self.known_from.get(core._server)
        return known_from is None or known_from >= connection.since

    def _is_beside(
        self, seen: SessionView, key: Key, following: PersistentWatchState, event: WatchedEvent
    ) -> bool:
        """Return whether a client of ZooKeeper's protocol may get an event out of order.

        As its watches are set again it asks for all since the last reply that it got, and may have
        had events since. And it cannot tell events for one-shot watches, which its server has found
        in a state that it received; its connection ends right behind them.
        """
        core, connection = seen.client.core, seen.connection
        if core is None or connection is None:
            return False
        if self._place_of(seen, key, following, event) is not None:
            return False
        if connection.is_resuming and event.zxid > connection.since:
            before = self._past[self._after(Zxid(event.zxid - 1)) : following.at]
            if any(each.is_of(event) for each in before):
                return True
        known_from = self.known_from.get(core._server)
        return known_from is None or event.zxid <= known_from

    def removed(self, seen: SessionView, tokens: list[object], event: WatchedEvent) -> None:
        """Check that watchers learn of their removal right before the answer says so."""
        ask = seen.pending[0].ask
        assert isinstance(ask, WatchRemoval) and ask.path == event.path, (
            f"WatchOnce: {seen} is told of {event}, and asks for {ask}"
        )
        gone: dict[object, None] = {}
        for kind in _kinds_of(ask):
            if kind not in REMOVED[event.type]:
                continue
            for follower in followed(seen, ask, kind):
                gone[follower[0]] = None
                del seen.following[follower]
            key = ask.path, kind is WatchKind.CHILD
            watching = seen.watching.get(key)
            if kind in MODE_OF or watching is None:
                continue
            for token in _tokens(watching, ask):
                gone[token] = watching.tokens.pop(token)
            if not watching.tokens:
                del seen.watching[key]
                seen.due.pop(key, None)
        assert set(gone) == set(tokens), f"WatchOnce: {seen} is told of {event}: {tokens}, {gone}"

    def none_left(self, seen: SessionView, ask: WatchRemoval) -> None:
        """Check that no watcher is left, whether watches were removed or none existed."""
        for kind in _kinds_of(ask):
            assert not followed(seen, ask, kind), f"WatchTrue: {seen} still watches after {ask}"
            watching = seen.watching.get((ask.path, kind is WatchKind.CHILD))
            is_left = kind not in MODE_OF and watching is not None and _tokens(watching, ask)
            assert not is_left, f"WatchTrue: {seen} after {ask}"

    def in_order(self, seen: SessionView, told: EventTold) -> list[object]:
        """Check that an event is the next one of each watch it concerns; return the other watchers.

        An event that a server found by comparing states is for one-shot watches only; an event that
        is withheld from a persistent watch will be missed before long.
        """
        event, tokens = told.event, told.watchers
        assert len(tokens) == len(set(tokens)), f"WatchOnce: {seen} is told of {event}: {tokens}"
        for zxid in seen.torn.values():
            assert zxid == event.zxid, f"WatchTogether: {seen}, {event} within {format_zxid(zxid)}"
        if not any(key[0] in tokens for key in seen.following):
            return tokens
        due: dict[object, bool] = {}  # for each token, whether it wants values
        trigger = None
        may_miss = self._may_miss(seen)
        for key, following in seen.following.items():
            token, path, mode = key
            if event.type is EventType.RESYNC:
                if path == event.path:
                    following.at = max(following.at, self._after(event.zxid))
                    due[token] = False
            elif may_miss:
                # It may have missed some, and cannot tell what was found for one-shot watches.
                if _concerns(path, mode, event.type, event.path):
                    due[token] = False
            elif _concerns(path, mode, event.type, event.path):
                if not self._is_beside(seen, key, following, event):
                    trigger = self._next(seen, key, following, event)
                due[token] = due.get(token, False) or following.wants_values
        assert set(due) <= set(tokens), f"WatchOnce: {seen}, {event} is kept from {due}: {tokens}"
        rest = [token for token in tokens if token not in due]
        assert rest or due, f"WatchOnce: {seen} is told of {event} and does not watch it"
        if may_miss:
            return rest
        if event.type is EventType.RESYNC:
            assert not rest, f"WatchOnce: {seen}, {event}: {rest}"
            self._resync_is_needed(seen, event)
        elif trigger is not None:
            _together(seen, due, told)
            self._values(seen, event, trigger, is_wanted=any(due.values()))
        return rest

    def told_before(self, seen: SessionView, zxid: Zxid) -> None:
        """Check that a client sees nothing as of `zxid` before the events up to it."""
        assert not seen.torn, f"WatchTogether: {seen} is answered within {seen.torn}"
        for key, following in seen.following.items():
            self._skip(seen, key, following, zxid)
            at = following.at
            assert at >= len(self._past) or self._past[at].zxid > zxid, (
                f"WatchBeforeRead: {seen} is shown {format_zxid(zxid)}, {key} was not told of "
                f"{self._past[at]}"
            )

    def _skip(
        self, seen: SessionView, key: Key, following: PersistentWatchState, upto: Zxid
    ) -> None:
        """Advance to the watch's next event, not beyond `upto`."""
        past, at = self._past, following.at
        while at < len(past) and past[at].zxid <= upto and not self._must(seen, key, past[at]):
            at += 1
        following.at = at

    def _must(self, seen: SessionView, key: Key, each: PastEvent) -> bool:
        _, path, mode = key
        trigger = each.trigger
        is_meant = _concerns(path, mode, trigger.kind, each.path)
        return is_meant and must_be_told(self._truth, seen, trigger)

    def _next(
        self, seen: SessionView, key: Key, following: PersistentWatchState, event: WatchedEvent
    ) -> Trigger:
        """Advance behind an event; all earlier ones were hidden from the watch, or not for it."""
        past, at = self._past, self._place_of(seen, key, following, event)
        if at is not None:
            following.at = at + 1
            return past[at].trigger
        text = (
            f"{seen}, {key} is told of {event.type!r} of {event.path} in {format_zxid(event.zxid)}"
        )
        begin, end = following.at, self._after(event.zxid)
        others = [each for each in past[begin:end] if not each.is_of(event)]
        is_in_order = not any(self._must(seen, key, each) for each in others)
        is_hidden = is_in_order and len(others) < end - begin
        assert not is_hidden, f"WatchHidden: {text}, which it may not read"
        raise AssertionError(f"WatchInOrder: {text}, not " + ", ".join(map(str, past[begin:][:1])))

    def _place_of(
        self, seen: SessionView, key: Key, following: PersistentWatchState, event: WatchedEvent
    ) -> int | None:
        """Return the place of an event that is the next one that a watch may be told of."""
        past, at = self._past, following.at
        while at < len(past) and past[at].zxid <= event.zxid:
            each = past[at]
            if each.is_of(event):
                if may_be_told(self._truth, seen, each.trigger.acls):
                    return at
            elif self._must(seen, key, each):
                return None
            at += 1
        return None

    def _resync_is_needed(self, seen: SessionView, event: WatchedEvent) -> None:
        """Check that the server does not remember all changes since the client's last zxid."""
        core = seen.client.core
        assert core is not None
        known_from = self.known_from.get(core._server)
        assert known_from is None or known_from >= seen.zxid, (
            f"WatchInOrder: {seen} is told of {event}, it was shown {format_zxid(seen.zxid)}, "
            f"and server {core._server} remembers all from {format_zxid(known_from)} on"
        )

    def _values(
        self, seen: SessionView, event: WatchedEvent, trigger: Trigger, *, is_wanted: bool
    ) -> None:
        """Check that values are those of the change, and left out only of missed events."""
        pairs = ("old", event.old, trigger.old), ("new", event.new, trigger.new)
        for which, content, was in pairs:
            text = f"{seen} is told of {event}, {which} was {was}"
            if content is not None:
                assert _is(content, was), f"WatchValues: {text}"
            elif is_wanted and seen.is_settled:
                assert was is None, f"WatchValues: {text}"

    def _after(self, zxid: Zxid) -> int:
        return bisect_right(self._past, zxid, key=lambda each: each.zxid)


def followed(seen: SessionView, ask: WatchRemoval, kind: WatchKind) -> list[Key]:
    """Return the persistent watches of a kind that a request removes."""
    return [
        key
        for key in seen.following
        if key[1:] == (ask.path, MODE_OF.get(kind)) and ask.watcher in (None, key[0])
    ]


def _kinds_of(ask: WatchRemoval) -> list[WatchKind]:
    """Return the kinds of watches that a request removes."""
    if ask.kind is not WatchKind.ANY:
        return [ask.kind]
    return [kind for kinds in REMOVED.values() for kind in kinds]


def _tokens(watching: PendingWatch, ask: WatchRemoval) -> list[object]:
    """Return the watchers of a one-shot watch that a request removes."""
    return [token for token in watching.tokens if ask.watcher in (None, token)]


def _together(seen: SessionView, due: Iterable[object], told: EventTold) -> None:
    """Check that a transaction's events reach a watcher together, the last one marked."""
    event = told.event
    for token in due:
        is_after = token not in seen.torn and seen.whole.get(token) == event.zxid
        assert seen.speaks_jute or not is_after, (
            f"WatchTogether: {seen}, {token}: {event} comes after the last"
        )
        if token in told.are_told_more:
            seen.torn[token] = event.zxid
        else:
            seen.torn.pop(token, None)
            seen.whole[token] = event.zxid


def _is(content: Content, was: PastZnode | None) -> bool:
    return was is not None and (content.value, content.stat) == (was.value or b"", was.stat)


def _concerns(watched: str, mode: WatchMode, kind: EventType, path: str) -> bool:
    if mode is WatchMode.PERSISTENT or path == watched:
        return path == watched and (mode is WatchMode.PERSISTENT or kind is not EventType.CHILD)
    return kind is not EventType.CHILD and path.startswith(watched.rstrip("/") + "/")
