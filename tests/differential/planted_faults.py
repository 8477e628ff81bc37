"""Faults that are planted in the server, each of which some program must find."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from raykeeper.jute.multi import Result
from raykeeper.jute.records import ErrorResponse
from raykeeper.server import jute_replies, read_processor
from raykeeper.server.client_send_queues import ClientSendQueues
from raykeeper.server.jute_translator import JuteTranslator
from raykeeper.znodes import op_preparer, prep_request_processor, reads
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.errors import Code
from raykeeper.znodes.op_preparer import OpPreparer
from raykeeper.znodes.outstanding_changes import OutstandingChanges
from raykeeper.znodes.replies import EventType, ExistsReply
from raykeeper.znodes.txns import ErrorTxn
from raykeeper.znodes.watch_replay import WatchReplay
from raykeeper.znodes.watches import WatchTable
from tests.simulation.mutations.mutation import Change


def _event_after_the_reply(right: Any) -> Any:
    def flush(self: ClientSendQueues, connection: Any) -> None:
        connection.frame_items.sort(key=lambda item: type(item).__name__ == "WatcherEvent")
        right(self, connection)

    return flush


def _events_twice(right: Any) -> Any:
    def write(self: Any, out: Any, event: Any) -> None:
        right(self, out, event)
        right(self, out, event)

    return write


def _no_child_events(right: Any) -> Any:
    def write(self: Any, out: Any, event: Any) -> None:
        if event.kind is not EventType.CHILD:
            right(self, out, event)

    return write


def _later_operations_succeed(right: Any) -> Any:
    def result(done: Any, opcode: int) -> Result:
        made: Result = right(done, opcode)
        if made.body == ErrorResponse(Code.RUNTIME_INCONSISTENCY):
            return Result(made.type, ErrorResponse(Code.OK))
        return made

    return result


def _bad_version_is_no_node(right: Any) -> Any:
    def set_data(self: OpPreparer, *asked: Any) -> Any:
        done = right(self, *asked)
        is_bad = isinstance(done, ErrorTxn) and done.code == Code.BAD_VERSION
        return replace(done, code=Code.NO_NODE.value) if is_bad else done

    return set_data


def _cversion_counts_creations(right: Any) -> Any:
    def stat_of(znode: Any) -> Any:
        stat = right(znode)
        return type(stat)(
            *[
                getattr(stat, name) + (stat.num_children if name == "cversion" else 0)
                for name in stat.__struct_fields__
            ]
        )

    return stat_of


def _exists_leaves_no_watch_on_nothing(right: Any) -> Any:
    def set_watch(watches: Any, number: int, request: Any, item: Any) -> None:
        if not (isinstance(item, ExistsReply) and item.stat is None):
            right(watches, number, request, item)

    return set_watch


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _right: value


PLANTED_FAULTS: dict[str, list[Change]] = {
    "an event comes after the reply": [(ClientSendQueues, "flush", _event_after_the_reply)],
    "each event comes twice": [(JuteTranslator, "_write_event", _events_twice)],
    "no event tells of children": [(JuteTranslator, "_write_event", _no_child_events)],
    "operations behind the failed one have no error": [
        (jute_replies, "_result", _later_operations_succeed)
    ],
    "a wrong version is a missing znode": [(OpPreparer, "set_data", _bad_version_is_no_node)],
    "sequence numbers have nine digits": [(op_preparer, "SEQUENCE_DIGITS", _constant(9))],
    "cversion forgets deletions": [(reads, "stat_of", _cversion_counts_creations)],
    "ACLs show hashes to everybody": [
        (reads, "mask_hashes", _constant(lambda acls, _identities: acls or OPEN_ACL))
    ],
    "removed watches stay": [(WatchTable, "remove", _constant(lambda *_: True))],
    "exists leaves no watch on a missing znode": [
        (read_processor, "set_watch_of_read", _exists_leaves_no_watch_on_nothing)
    ],
    "writes need no permission": [(op_preparer, "is_allowed", _constant(lambda *_: True))],
    "watches that are set again miss what was": [
        (WatchReplay, "_events_from_log", _constant(lambda *_: []))
    ],
    "an identity is not added": [
        (prep_request_processor, "identities_of", _constant(lambda _ids, _host: ()))
    ],
    "ephemerals outlive their session": [
        (OutstandingChanges, "ephemerals_of", _constant(lambda *_: []))
    ],
}
