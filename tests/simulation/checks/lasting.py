"""Persistent watches: told of everything from the moment they are set, in order, each once.

An unbroken connection or many, one server or several: it makes no difference, but that RESYNC may
stand for all up to its zxid.
"""

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct

from raykeeper.client.outstanding import Unwatch, Watch
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.zab.ids import Zxid, show_zxid
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import WatchKind, WatchMode
from tests.simulation.checks.seen import Following, Seen
from tests.simulation.checks.truth import Trigger

REMOVED = frozenset(
    {
        EventType.DATA_WATCH_REMOVED,
        EventType.CHILD_WATCH_REMOVED,
        EventType.PERSISTENT_WATCH_REMOVED,
    }
)
MODE_OF = {WatchKind.PERSISTENT: WatchMode.PERSISTENT, WatchKind.RECURSIVE: WatchMode.RECURSIVE}


class Happened(Struct, frozen=True):
    """What some watches had to be told."""

    zxid: Zxid
    kind: EventType
    path: str


class Lasting:
    """The persistent watches of all sessions."""

    def __init__(self) -> None:
        self._past: list[Happened] = []

    def happened(self, touched: Iterable[tuple[str, bool, Trigger]]) -> None:
        """A transaction was committed."""
        for path, is_child, trigger in touched:
            # A deletion is in both tables, and one event.
            if not (is_child and trigger.kind is EventType.DELETED):
                self._past.append(Happened(trigger.zxid, trigger.kind, path))

    def is_set(self, seen: Seen, ask: Watch, zxid: Zxid) -> None:
        """A watch was set as of `zxid`; one that is there already goes on."""
        key = ask.watcher, ask.path, ask.mode
        if key not in seen.following:
            seen.following[key] = Following(self._after(zxid))

    def removed(self, seen: Seen, tokens: list[object], event: WatchedEvent) -> None:
        """Watchers are told that they have been removed, right before the answer says so."""
        ask = seen.pending[0].ask
        assert isinstance(ask, Unwatch) and ask.path == event.path, (
            f"WatchOnce: {seen} is told of {event}, and asks for {ask}"
        )
        gone: dict[object, None] = {}
        if ask.kind in MODE_OF:
            for key in followed(seen, ask):
                gone[key[0]] = None
                del seen.following[key]
        else:
            key = ask.path, ask.kind is WatchKind.CHILD
            gone.update(seen.watching.pop(key).tokens)
            seen.due.pop(key, None)
        assert set(gone) == set(tokens), f"WatchOnce: {seen} is told of {event}: {tokens}, {gone}"

    def none_left(self, seen: Seen, ask: Unwatch) -> None:
        """Whether watches were removed or there are none: nobody is left."""
        assert not followed(seen, ask), f"WatchTrue: {seen} still watches after {ask}"
        key = ask.path, ask.kind is WatchKind.CHILD
        assert ask.kind in MODE_OF or key not in seen.watching, f"WatchTrue: {seen} after {ask}"

    def in_order(self, seen: Seen, tokens: list[object], event: WatchedEvent) -> list[object]:
        """An event is the next one of each watch that it concerns; returns the other watchers.

        One that a server found by a look at the state is for one-shot watches only; if another is
        kept from a persistent watch, it will be missed before long.
        """
        if not any(key[0] in tokens for key in seen.following):
            return tokens
        due: dict[object, None] = {}
        for key, following in seen.following.items():
            token, path, mode = key
            if event.type is EventType.RESYNC:
                if path == event.path:
                    following.at = max(following.at, self._after(event.zxid))
                    due[token] = None
            elif _concerns(path, mode, event.type, event.path):
                self._skip(key, following, event.zxid)
                told = Happened(event.zxid, event.type, event.path)
                is_next = following.at < len(self._past) and self._past[following.at] == told
                assert is_next, f"WatchInOrder: {seen}, {key} is told of {told}, not " + (
                    str(self._past[following.at : following.at + 1])
                )
                following.at += 1
                due[token] = None
        assert set(due) <= set(tokens), f"WatchOnce: {seen}, {event} is kept from {due}: {tokens}"
        rest = [token for token in tokens if token not in due]
        assert rest or due, f"WatchOnce: {seen} is told of {event} and does not watch it"
        assert event.type is not EventType.RESYNC or not rest, f"WatchOnce: {seen}, {event}: {rest}"
        return rest

    def told_before(self, seen: Seen, zxid: Zxid) -> None:
        """Nothing as of `zxid` is shown to a client before the events up to it."""
        for key, following in seen.following.items():
            self._skip(key, following, zxid)
            at = following.at
            assert at >= len(self._past) or self._past[at].zxid > zxid, (
                f"WatchBeforeRead: {seen} is shown {show_zxid(zxid)}, {key} was not told of "
                f"{self._past[at]}"
            )

    def _skip(self, key: tuple[object, str, WatchMode], following: Following, upto: Zxid) -> None:
        """Go to the next thing it must be told, not beyond `upto`."""
        _, path, mode = key
        past, at = self._past, following.at
        while at < len(past) and past[at].zxid <= upto:
            if _concerns(path, mode, past[at].kind, past[at].path):
                break
            at += 1
        following.at = at

    def _after(self, zxid: Zxid) -> int:
        return bisect_right(self._past, zxid, key=lambda each: each.zxid)


def followed(seen: Seen, ask: Unwatch) -> list[tuple[object, str, WatchMode]]:
    """The persistent watches that it is to remove."""
    return [
        key
        for key in seen.following
        if key[1:] == (ask.path, MODE_OF.get(ask.kind)) and ask.watcher in (None, key[0])
    ]


def _concerns(watched: str, mode: WatchMode, kind: EventType, path: str) -> bool:
    if mode is WatchMode.PERSISTENT or path == watched:
        return path == watched and (mode is WatchMode.PERSISTENT or kind is not EventType.CHILD)
    return kind is not EventType.CHILD and path.startswith(watched + "/")
