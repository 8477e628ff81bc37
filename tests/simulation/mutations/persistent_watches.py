"""Persistent watches: missed events, values, transactions, hidden znodes."""

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


def _remember_the_path(right: Any) -> Any:
    def of_value(self: Any, change: ZnodeChange) -> Any:
        self.near = change.path, parent_of(change.path)
        return right(self, change)

    return of_value


def _children_only(right: Any) -> Any:
    def lasting(self: Any, table: Any, path: str, *rest: Any) -> None:
        if table is not self._watches.tables[RECURSIVE] or path in self.near:
            right(self, table, path, *rest)

    return lasting


def _with_the_last_value(right: Any) -> Any:
    def of(self: EventContents, change: ZnodeChange) -> Any:
        old, new = right(self, change)
        znode = self._znodes.get(change.path)
        is_there = new is not None and znode is not None
        return old, Content(znode.value, stat_of(znode)) if is_there else new

    return of


def _same_value(self: EventContents, znode: Znode, change: ZnodeChange) -> bool:
    return znode.mzxid == change.zxid


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
        "the first missed event is not sent",
        [(WatchReplay, "_events_from_log", _but_the_first)],
    ),
    Mutation(
        "watches",
        "the last event before the disconnect is sent again",
        [(ChangeLog, "changes_after", _from_one_before)],
    ),
    Mutation(
        "watches",
        "changes are forgotten at once",
        [(ChangeLog, "changes_after", instead(lambda self, zxid, paths, below: None))],
    ),
    Mutation(
        "watches",
        "a recursive watch sees children only",
        [(_Firing, "of_value", _remember_the_path), (_Firing, "_persistent", _children_only)],
    ),
    Mutation(
        "watches",
        "a missed event has a later value",
        [(EventContents, "_is_as_of", _ANY)],
    ),
    Mutation(
        "watches",
        "a missed event has a later Stat",
        [(EventContents, "_is_as_of", instead(_same_value))],
    ),
    Mutation(
        "watches",
        "an event of a transaction carries the last value",
        [(EventContents, "before_and_after", _with_the_last_value)],
    ),
    Mutation(
        "watches",
        "values are not requested again on a new connection",
        [(WatchTables, "_watches", _without_values)],
    ),
    Mutation(
        "watches",
        "events of a transaction are not kept together",
        [(watches, "_marked", instead(lambda fired: fired))],
    ),
    Mutation("watches", "events of hidden znodes are sent", [(_Firing, "_may_read", _ANY)]),
]
