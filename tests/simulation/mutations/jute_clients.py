"""Clients of ZooKeeper's protocol: passwords, order, what they are told, and when."""

from typing import Any

from msgspec.structs import replace

from raykeeper.server import jute_lists
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.jute_translator import JuteTranslator
from raykeeper.znodes import snapshot
from raykeeper.znodes.replies import EventType, WatcherEvent
from tests.simulation.jute_clients.core import NO_PASSWORD
from tests.simulation.jute_clients.plans import JUTE
from tests.simulation.mutations.mutation import Mutation, instead


def _zero_password(right: Any) -> Any:
    def init(self: Any, *arguments: Any) -> None:
        right(self, *arguments)
        self._drawn_password = NO_PASSWORD

    return init


def _overtaking(right: Any) -> Any:
    def write(self: Any, *arguments: Any) -> Any:
        made = right(self, *arguments)
        waiting = self._unanswered
        if len(waiting) > 1:
            before, last = waiting[-2], waiting[-1]
            waiting[-2], waiting[-1] = replace(before, xid=last.xid), replace(last, xid=before.xid)
        return made

    return write


def _confirmed_by_itself(right: Any) -> Any:
    def take_requests(self: Any, connection: Any) -> Any:
        connection.confirmed_heartbeat = self.heartbeat_seq
        return right(self, connection)

    return take_requests


def _flushed(right: Any) -> Any:
    def take_requests(self: Any, connection: Any, *arguments: Any) -> None:
        right(self, connection, *arguments)
        if connection.translator is not None and connection.number in self._by_number:
            self._send_queues.schedule_flush(connection)

    return take_requests


def _events_last(right: Any) -> Any:
    def replies(self: Any, frame: Any) -> bytes:
        items = sorted(frame.items, key=lambda item: isinstance(item, WatcherEvent))
        told: bytes = right(self, replace(frame, items=items))
        return told

    return replies


def _counted_anew(right: Any) -> Any:
    def connected(self: Any, reply: Any) -> bytes:
        told: bytes = right(self, reply)
        self._number = max(0, self._number - 1)
        return told

    return connected


def _replaced_unseen(right: Any) -> Any:
    def connected(self: Any, reply: Any) -> bytes:
        newest = replace(reply, zxid=1 << 62) if reply.read_only else reply
        told: bytes = right(self, newest)
        return told

    return connected


def _never_null(right: Any) -> Any:
    return lambda value, *rest: right(value or b"", *rest)


def _gap_untold(right: Any) -> Any:
    def write(self: Any, out: Any, event: Any) -> None:
        if event.kind is not EventType.RESYNC:
            right(self, out, event)

    return write


MUTATIONS = [
    Mutation(
        "jute",
        "a new session has the password of zeros that its client sent",
        [(JuteTranslator, "__init__", _zero_password)],
        20,
        JUTE,
    ),
    Mutation(
        "jute",
        "a reply takes the xid of the request before",
        [(JuteTranslator, "_write", _overtaking)],
        20,
        JUTE,
    ),
    Mutation(
        "jute",
        "a ping is answered before the leader has confirmed it",
        [
            (JuteTranslator, "take_requests", _confirmed_by_itself),
            (ClientRequests, "take_requests", _flushed),
        ],
        100,
        JUTE,
    ),
    Mutation(
        "jute",
        "a client that was not heard for long is told all the same",
        [(JuteTranslator, "has_recent_heartbeat", instead(lambda self: True))],
        200,
        JUTE,
    ),
    Mutation(
        "jute",
        "an event leaves after the replies of its frame",
        [(JuteTranslator, "_encode_frame", _events_last)],
        20,
        JUTE,
    ),
    Mutation(
        "jute",
        "the first write of a connection has the number of the one before",
        [(JuteTranslator, "_encode_connect_reply", _counted_anew)],
        20,
        JUTE,
    ),
    Mutation(
        "jute",
        "a read-only server replaces a session that it has not seen yet",
        [(JuteTranslator, "_encode_connect_reply", _replaced_unseen)],
        50,
        JUTE,
    ),
    Mutation(
        "jute",
        "null data is empty data after a snapshot",
        [(snapshot, "Znode", _never_null)],
        100,
        JUTE,
    ),
    Mutation(
        "jute",
        "a client is not told that events are missing",
        [(JuteTranslator, "_write_event", _gap_untold)],
        200,
        JUTE,
    ),
    Mutation(
        "jute",
        "a list is kept though its znode has other children",
        [(jute_lists, "_children_of", instead(lambda stat: stat.czxid))],
        20,
        JUTE,
    ),
]
