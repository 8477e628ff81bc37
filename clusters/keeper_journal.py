"""What the keepers of an ensemble have written into its tree, under `/zookeeper/keeper`.

    election            the keepers' election
    events/event-<n>    a decision each, the newest 100
    servers             where the servers were seen to run
    drains/<node>       the Ray nodes that an operator drains

Only the keeper that leads writes decisions and places: each write has the condition that its
leadership is still held. What it reads after its election has all that the keepers before it wrote.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client import Client
from raykeeper.client.errors import InvalidValueError, LostError, NoNodeError
from raykeeper.client.recipes.election import Leadership
from raykeeper.client.transaction import BlockingTransaction
from raykeeper.clusters.healing.healing import ENTRIES_KEPT
from raykeeper.clusters.healing.vocabulary import Decision, Entry, Seat
from raykeeper.zab.ids import Millis, ServerId

ROOT: Final = "/zookeeper/keeper"
ELECTION: Final = f"{ROOT}/election"
_EVENTS: Final = f"{ROOT}/events"
_SEATS: Final = f"{ROOT}/servers"
_DRAINS: Final = f"{ROOT}/drains"
_PREFIX: Final = "event-"


class _Seats(Struct):
    seats: dict[str, Seat] = {}


def create_paths(client: Client) -> None:
    """Create what is missing of the keepers' part of the tree."""
    for path in (ELECTION, _EVENTS, _DRAINS, _SEATS):
        client.ensure_path(path)


def read_entries(client: Client) -> list[Entry]:
    """Return the decisions, in order; none if there never was a keeper.

    Raises:
        InvalidValueError: the value of a znode is no decision.
    """
    try:
        names = client.get_children(_EVENTS)
    except NoNodeError:
        return []
    entries = []
    for name in sorted(names):
        path = f"{_EVENTS}/{name}"
        try:
            value, stat = client.get(path)
        except NoNodeError:  # it was the oldest, and a new one came
            continue
        entries.append(Entry(_number(name), stat.ctime, _decode(path, value, Decision)))
    return entries


def read_seats(client: Client) -> dict[ServerId, Seat]:
    """Return where the servers were seen to run.

    Raises:
        InvalidValueError: the value of the znode is of something else.
    """
    value, _ = client.get(_SEATS)
    seats = _decode(_SEATS, value, _Seats).seats if value else {}
    return {ServerId(int(server)): seat for server, seat in seats.items()}


def read_drains(client: Client) -> list[str]:
    """Return the ids of the nodes that are drained; none if there never was a keeper."""
    try:
        return sorted(client.get_children(_DRAINS))
    except NoNodeError:
        return []


def drain(client: Client, node: str) -> None:
    """Have the keeper move the voting servers away from a Ray node, and none to it."""
    create_paths(client)
    client.ensure_path(f"{_DRAINS}/{node}")


def end_drain(client: Client, node: str) -> bool:
    """Undo `drain`; return whether there was anything to undo."""
    try:
        client.delete(f"{_DRAINS}/{node}")
    except NoNodeError:
        return False
    return True


def forget_dead_drains(client: Client, nodes: Mapping[str, bool]) -> None:
    """Undo `drain` for the nodes that are dead; a node that returns has another id."""
    for node in read_drains(client):
        if not nodes.get(node, True):
            end_drain(client, node)


class Journal:
    """The writes of a keeper that leads."""

    def __init__(self, client: Client, leadership: "Leadership[Any]") -> None:
        """Write under the token of this leadership."""
        self._client = client
        self._leadership = leadership

    def note(self, decision: Decision) -> Entry:
        """Write a decision, and remove the oldest if there are too many.

        Raises:
            LostError: another keeper may lead; nothing was written.
            KeeperError: it is unknown whether it was written.
        """
        names = sorted(self._client.get_children(_EVENTS))
        value = msgspec.json.encode(decision)

        def write(transaction: BlockingTransaction) -> None:
            transaction.create(f"{_EVENTS}/{_PREFIX}", value, sequence=True)
            for name in names[: max(0, len(names) + 1 - ENTRIES_KEPT)]:
                transaction.delete(f"{_EVENTS}/{name}")

        path = str(self._commit(write)[0])
        _, stat = self._client.get(path)
        return Entry(_number(path.rpartition("/")[2]), stat.ctime, decision)

    def save_seats(self, seats: dict[ServerId, Seat]) -> Millis:
        """Write where the servers run; return the ensemble's time.

        Raises:
            LostError: another keeper may lead; nothing was written.
            KeeperError: it is unknown whether it was written.
        """
        value = msgspec.json.encode(_Seats({str(server): seat for server, seat in seats.items()}))
        (stat,) = self._commit(lambda transaction: transaction.set(_SEATS, value))
        return Millis(stat.mtime)

    def _commit(self, write: Callable[[BlockingTransaction], None]) -> list[Any]:
        with self._client.transaction() as transaction:
            transaction.when_held(self._leadership)
            write(transaction)
        if not transaction.succeeded:
            raise LostError("another keeper may lead")
        assert transaction.results is not None
        return transaction.results


def _number(name: str) -> int:
    return int(name.removeprefix(_PREFIX))


def _decode(path: str, value: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"the value of {path} is not the keeper's: {error}") from None
