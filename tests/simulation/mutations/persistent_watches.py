"""Persistent watches: what is missed and told later, values, transactions, hidden znodes."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from raykeeper.client.core.watch_tables import WatchTables
from raykeeper.zab.ids import Zxid
from raykeeper.znodes import watches
from raykeeper.znodes.change_log import ChangeLog, EventContents, ZnodeChange
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.replies import Content
from raykeeper.znodes.requests import PersistentWatch
from raykeeper.znodes.watch_replay import WatchReplay
from raykeeper.znodes.watches import RECURSIVE, _Firing
from raykeeper.znodes.znode import Znode, stat_of
from tests.simulation.mutations.mutation import Mutation, instead


def _but_the_first(right: Any) -> Any:
    def by_history(self: WatchReplay, *rest: Any) -> Any:
        events = right(self, *rest)
        return events and events[1:]

    return by_history


def _from_one_before(right: Any) -> Any:
    def after(self: ChangeLog, zxid: Zxid, *rest: Any) -> Any:
        found = right(self, Zxid(zxid - 1), *rest)
        return right(self, zxid, *rest) if found is None else found

    return after


def _noting_of_what(right: Any) -> Any:
    def of_value(self: Any, happening: ZnodeChange) -> Any:
        self.near = happening.path, parent_of(happening.path)
        return right(self, happening)

    return of_value


def _children_only(right: Any) -> Any:
    def lasting(self: Any, table: Any, path: str, *rest: Any) -> None:
        if table is not self._watches.tables[RECURSIVE] or path in self.near:
            right(self, table, path, *rest)

    return lasting


def _as_it_is_now(right: Any) -> Any:
    def of(self: EventContents, happening: ZnodeChange) -> Any:
        old, new = right(self, happening)
        znode = self._znodes.get(happening.path)
        is_there = new is not None and znode is not None
        return old, Content(znode.value, stat_of(znode)) if is_there else new

    return of


def _same_value(self: EventContents, znode: Znode, happening: ZnodeChange) -> bool:
    return znode.mzxid == happening.zxid


def _without_values(right: Any) -> Any:
    def watches_of(self: WatchTables) -> Any:
        for place, path, watch in right(self):
            is_lasting = isinstance(watch, PersistentWatch)
            yield place, path, replace(watch, with_values=False) if is_lasting else watch

    return watches_of


_ANY: Callable[[Any], Any] = instead(lambda *_asked: True)

MUTATIONS = [
    Mutation(
        "watches",
        "the first event that was missed is not told",
        [(WatchReplay, "_events_from_log", _but_the_first)],
    ),
    Mutation(
        "watches",
        "the last event before the connection broke is told again",
        [(ChangeLog, "changes_after", _from_one_before)],
    ),
    Mutation(
        "watches",
        "what happened is forgotten at once",
        [(ChangeLog, "changes_after", instead(lambda self, zxid, paths, below: None))],
    ),
    Mutation(
        "watches",
        "a recursive one sees children and no more",
        [(_Firing, "of_value", _noting_of_what), (_Firing, "_persistent", _children_only)],
    ),
    Mutation(
        "watches",
        "an event that was missed has the value of later",
        [(EventContents, "_is_as_of", _ANY)],
    ),
    Mutation(
        "watches",
        "an event that was missed has the Stat of later",
        [(EventContents, "_is_as_of", instead(_same_value))],
    ),
    Mutation(
        "watches",
        "a new value in a transaction is the last one",
        [(EventContents, "before_and_after", _as_it_is_now)],
    ),
    Mutation(
        "watches",
        "values are not asked for again on a new connection",
        [(WatchTables, "_watches", _without_values)],
    ),
    Mutation(
        "watches",
        "nothing keeps the events of a transaction together",
        [(watches, "_marked", instead(lambda fired: fired))],
    ),
    Mutation("watches", "hidden znodes are told of", [(_Firing, "_may_read", _ANY)]),
]
