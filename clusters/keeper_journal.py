"""What the keepers of an ensemble have written into its tree, under `/zookeeper/keeper`.

    election            the keepers' election
    events/event-<n>    a decision each, the newest 100
    servers             where the servers were seen to run
    drains/<node>       the Ray nodes that an operator drains

Only the keeper that leads writes decisions and places: each write has the condition that its
leadership is still held. What it reads after its election has all that the keepers before it wrote.
It is written as a recipe, so the simulator runs the same requests.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from raykeeper.client.core.compound_operations import create_if_missing
from raykeeper.client.core.flows import Flow
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import InvalidValueError, LostError
from raykeeper.client.recipes.election import Leadership
from raykeeper.client.recipes.primitives import delete, get_children, get_or_none, transact
from raykeeper.client.recipes.recipe import K, Recipe, operation
from raykeeper.clusters.healing.healing import ENTRIES_KEPT
from raykeeper.clusters.healing.vocabulary import Decision, Entry, ServerLocation
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    CreateMode,
    Delete,
    GetChildren,
    GetData,
    SetData,
    TxnOp,
)

ROOT: Final = "/zookeeper/keeper"
ELECTION: Final = f"{ROOT}/election"
EVENTS: Final = f"{ROOT}/events"
_SERVERS: Final = f"{ROOT}/servers"
_DRAINS: Final = f"{ROOT}/drains"
_PREFIX: Final = "event-"


class _Locations(Struct):
    locations: dict[str, ServerLocation] = field(default_factory=dict, name="seats")


class Journal(Recipe[K]):
    """The keepers' part of the tree, through one client."""

    @operation
    def create_paths(self) -> Flow[None]:
        """Create what is missing of it."""
        for path in (ELECTION, EVENTS, _DRAINS, _SERVERS):
            yield from create_if_missing(Create(path, b"", 0))

    @operation
    def read_entries(self) -> Flow[list[Entry]]:
        """Return the decisions, in order; none if there never was a keeper.

        Raises:
            InvalidValueError: the value of a znode is no decision.
        """
        names = yield from get_children(EVENTS)
        entries = []
        for name in sorted(names):
            path = f"{EVENTS}/{name}"
            found = yield from get_or_none(path)
            if found is not None:  # else it was the oldest, and a new one came
                value, stat = found
                entries.append(Entry(_number(name), stat.ctime, _decode(path, value, Decision)))
        return entries

    @operation
    def read_locations(self) -> Flow[dict[ServerId, ServerLocation]]:
        """Return where the servers were seen to run.

        Raises:
            InvalidValueError: the value of the znode is of something else.
        """
        value, _ = yield Query(GetData, _SERVERS)
        locations = _decode(_SERVERS, value, _Locations).locations if value else {}
        return {ServerId(int(server)): location for server, location in locations.items()}

    @operation
    def read_drains(self) -> Flow[list[str]]:
        """Return the ids of the nodes that are drained; none if there never was a keeper."""
        return sorted((yield from get_children(_DRAINS)))

    @operation
    def drain(self, node: str) -> Flow[None]:
        """Have the keeper move the voting servers away from a Ray node, and none to it."""
        yield from Journal.create_paths.flow(self)
        yield from create_if_missing(Create(f"{_DRAINS}/{node}", b"", 0))

    @operation
    def end_drain(self, node: str) -> Flow[bool]:
        """Undo `drain`; return whether there was anything to undo."""
        return (yield from delete(f"{_DRAINS}/{node}"))

    @operation
    def forget_dead_drains(self, nodes: Mapping[str, bool]) -> Flow[None]:
        """Undo `drain` for the nodes that are dead; a node that returns has another id."""
        for node in (yield from get_children(_DRAINS)):
            if not nodes.get(node, True):
                yield from delete(f"{_DRAINS}/{node}")

    @operation
    def write_decision(self, leadership: Leadership[Any], decision: Decision) -> Flow[Entry]:
        """Write a decision, and remove the oldest if there are too many.

        Raises:
            LostError: another keeper may lead; nothing was written.
            KeeperError: it is unknown whether it was written.
        """
        names = sorted((yield Query(GetChildren, EVENTS)))
        value = msgspec.json.encode(decision)
        ops: list[TxnOp] = [Create(f"{EVENTS}/{_PREFIX}", value, CreateMode.SEQUENTIAL)]
        oldest = names[: max(0, len(names) + 1 - ENTRIES_KEPT)]
        ops += [Delete(f"{EVENTS}/{name}", ANY_VERSION) for name in oldest]
        path, *_ = yield from _commit(leadership, ops)
        _, stat = yield Query(GetData, path)
        return Entry(_number(path.rpartition("/")[2]), stat.ctime, decision)

    @operation
    def save_locations(
        self, leadership: Leadership[Any], locations: Mapping[ServerId, ServerLocation]
    ) -> Flow[Millis]:
        """Write where the servers run; return the ensemble's time.

        Raises:
            LostError: another keeper may lead; nothing was written.
            KeeperError: it is unknown whether it was written.
        """
        value = msgspec.json.encode(
            _Locations({str(server): location for server, location in locations.items()})
        )
        (stat,) = yield from _commit(leadership, [SetData(_SERVERS, value, ANY_VERSION)])
        return Millis(stat.mtime)


def _commit(leadership: Leadership[Any], ops: list[TxnOp]) -> Flow[list[Any]]:
    """Write under the token of a leadership."""
    is_held, results = yield from transact(ops, [leadership._still_held_compare()])
    if not is_held:
        raise LostError("another keeper may lead")
    return results


def _number(name: str) -> int:
    return int(name.removeprefix(_PREFIX))


def _decode(path: str, value: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"the value of {path} is not the keeper's: {error}") from None
