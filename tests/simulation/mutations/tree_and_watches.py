"""The tree, watches, and the order of replies and events."""

from typing import Any

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.session_watches import SessionWatches
from raykeeper.client.core.watch_tables import WatchTables
from raykeeper.server import client_requests
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.client_send_queues import ClientSendQueues
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.change_log import ChangeLog
from raykeeper.znodes.op_preparer import OpPreparer
from raykeeper.znodes.outstanding_changes import OutstandingChanges
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import CreateMode
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.txns import CloseSessionTxn
from raykeeper.znodes.watch_replay import WatchReplay
from raykeeper.znodes.watches import WatchTable
from tests.simulation.mutations.mutation import Mutation, instead


def _event_after_the_reply(right: Any) -> Any:
    def flush(self: ClientSendQueues, connection: Any) -> None:
        connection.frame_items.sort(key=lambda item: type(item).__name__ == "WatcherEvent")
        right(self, connection)

    return flush


def _read_before_own_writes(right: Any) -> Any:
    def requests(self: ClientRequests, connection: Any, heartbeat_seq: int, requests: Any) -> None:
        queue, connection.requests = connection.requests, type(connection.requests)()
        right(self, connection, heartbeat_seq, requests)
        queue.extend(connection.requests)
        connection.requests = queue

    return requests


def _none_of(kind: EventType) -> Any:
    def make(right: Any) -> Any:
        def trigger(self: WatchTable, changes: Any, *rest: Any) -> Any:
            return right(self, [each for each in changes if each.kind is not kind], *rest)

        return trigger

    return make


def _no_child_event(right: Any) -> Any:
    def trigger(self: WatchTable, changes: Any, *rest: Any) -> Any:
        fired = right(self, changes, *rest)
        if any(each.kind is EventType.CREATED for each in changes):
            return [each for each in fired if each[1].kind is not EventType.CHILD]
        return fired

    return trigger


def _no_event_at_the_end(right: Any) -> Any:
    def apply(self: State, zxid: Zxid, data: bytes) -> Any:
        txn = right(self, zxid, data)
        if isinstance(txn.body, CloseSessionTxn) and self.tree.changes:
            self.tree.changes.clear()
        return txn

    return apply


def _the_watch_stays(right: Any) -> Any:
    def take(self: WatchTables, kind: EventType, path: str, **only: Any) -> Any:
        before = dict(self._data.get(path, {}))
        watchers = right(self, kind, path, **only)
        if before:
            self._data[path] = before
        return watchers

    return take


def _outstanding_ephemerals_stay(right: Any) -> Any:
    def ephemerals_of(self: OutstandingChanges, owner: Any) -> Any:
        return [path for path in right(self, owner) if path in self._tree.znodes]

    return ephemerals_of


def _ephemerals_of_others_too(right: Any) -> Any:
    def ephemerals_of(self: OutstandingChanges, owner: Any) -> Any:
        mine = right(self, owner)
        others = {path for paths in self._tree.ephemerals.values() for path in paths}
        return mine + [path for path in sorted(others.difference(mine))[:1] if self.exists(path)]

    return ephemerals_of


def _create_without_an_owner(right: Any) -> Any:
    def create(self: OutstandingChanges, zxid: Zxid, time_ms: Any, path: str, *rest: Any) -> None:
        value, _owner, traits = rest
        right(self, zxid, time_ms, path, value, 0, traits)

    return create


def _watches_are_not_set_again(right: Any) -> Any:
    return lambda self, zxid, xids, bytes_max: []


def _one_shot_watches_only(right: Any) -> Any:
    return lambda self: [watch for watch in right(self) if watch[0] < 3]


def _no_resync(right: Any) -> Any:
    def by_state(self: WatchReplay, watches: WatchTable, since: Zxid) -> Any:
        fired = right(self, watches, since)
        return [each for each in fired if each[1].kind is not EventType.RESYNC]

    return by_state


def _set_again_from_the_newest(right: Any) -> Any:
    def serve(self: ClientCore, answer: Any, now: Any) -> None:
        self._watches._events_zxid = max(self.last_zxid, answer.zxid)
        right(self, answer, now)

    return serve


def _sequence_of_the_living(right: Any) -> Any:
    def create(self: OpPreparer, *before: Any) -> Any:
        op = before[-1]
        parent = self._tree.find(op.path[: op.path.rfind("/")] or "/")
        if parent is not None and op.flags & CreateMode.SEQUENTIAL:
            parent.child_create_count = parent.num_children
            self._tree.put(before[0], op.path[: op.path.rfind("/")] or "/", parent)
        return right(self, *before)

    return create


def _prepare_against_the_past(right: Any) -> Any:
    def keep(self: OutstandingChanges, zxid: Any, path: str, record: Any) -> None:
        right(self, zxid, path, record)
        if len(path) > 3:
            record.version = max(0, record.version - 1)

    return keep


def _version_is_ignored(right: Any) -> Any:
    def set_data(self: OpPreparer, zxid: Any, time_ms: Any, identities: Any, op: Any) -> Any:
        return right(self, zxid, time_ms, identities, type(op)(op.path, op.value, -1))

    return set_data


def _another_outcome(right: Any) -> Any:
    def written(number: int, outcome: Any) -> Any:
        return right(number, type(outcome)(outcome.zxid, 0, outcome.path, outcome.stat))

    return written


def _pzxid_stays(right: Any) -> Any:
    def delete(self: Tree, zxid: Zxid, path: str) -> Any:
        parent = self.znodes.get(path[: path.rfind("/")] or "/")
        before = parent.pzxid if parent is not None else None
        found = right(self, zxid, path)
        if parent is not None:
            parent.pzxid = before
        return found

    return delete


MUTATIONS = [
    Mutation(
        "watches",
        "an event comes after the reply",
        [(ClientSendQueues, "flush", _event_after_the_reply)],
    ),
    Mutation(
        "watches",
        "a deletion fires no watch",
        [(WatchTable, "trigger", _none_of(EventType.DELETED))],
    ),
    Mutation(
        "watches", "a creation fires no child watch", [(WatchTable, "trigger", _no_child_event)]
    ),
    Mutation(
        "watches",
        "a new value fires no watch",
        [(WatchTable, "trigger", _none_of(EventType.CHANGED))],
    ),
    Mutation(
        "watches",
        "the end of a session fires no watch",
        [(State, "apply", _no_event_at_the_end)],
    ),
    Mutation(
        "watches",
        "a fired watch stays",
        [(WatchTables, "take", _the_watch_stays)],
    ),
    Mutation(
        "ephemerals",
        "the end of a session leaves an outstanding ephemeral",
        [(OutstandingChanges, "ephemerals_of", _outstanding_ephemerals_stay)],
    ),
    Mutation(
        "ephemerals",
        "the end of a session deletes an ephemeral of another",
        [(OutstandingChanges, "ephemerals_of", _ephemerals_of_others_too)],
    ),
    Mutation(
        "ephemerals",
        "an outstanding ephemeral may have children",
        [(OutstandingChanges, "create", _create_without_an_owner)],
        500,
    ),
    Mutation(
        "watches",
        "one-shot watches are not set again on a new connection",
        [(WatchTables, "set_watches", _watches_are_not_set_again)],
    ),
    Mutation(
        "watches",
        "the change log is empty",
        [(ChangeLog, "changes_after", instead(lambda self, zxid, paths, below: []))],
        100,
    ),
    Mutation(
        "watches",
        "persistent watches are not set again on a new connection",
        [(WatchTables, "_watches", _one_shot_watches_only)],
        200,
    ),
    Mutation(
        "watches",
        "persistent watches get no resync",
        [(WatchReplay, "events_from_state", _no_resync)],
        200,
    ),
    Mutation(
        "watches",
        "a removal removes the watches of others",
        [(SessionWatches, "_drop_intended", instead(lambda self, kind, path, watcher: True))],
        200,
    ),
    Mutation(
        "watches",
        "watches are set again from the zxid of the new connection",
        [(ClientCore, "_serve", _set_again_from_the_newest)],
        100,
    ),
    Mutation(
        "order",
        "a read overtakes the writes before it",
        [(ClientRequests, "take_requests", _read_before_own_writes)],
    ),
    Mutation(
        "tree",
        "sequence numbers count the existing children",
        [(OpPreparer, "create", _sequence_of_the_living)],
    ),
    Mutation(
        "tree",
        "a write is prepared without the outstanding changes",
        [(OutstandingChanges, "put", _prepare_against_the_past)],
    ),
    Mutation("tree", "a version is ignored", [(OpPreparer, "set_data", _version_is_ignored)]),
    Mutation("tree", "a deletion leaves the parent's pzxid", [(Tree, "delete", _pzxid_stays)]),
    Mutation(
        "replies",
        "a refusal is reported as success",
        [(client_requests, "_write_reply", _another_outcome)],
    ),
]
