"""The limit of disk damage while members change: every list that may count bears it."""

from collections.abc import Iterable

from raykeeper.znodes.requests import Reconfig
from tests.simulation.damage import Damage, VoterDisks
from tests.simulation.members.possible_lists import PossibleLists, Voters
from tests.simulation.node import Node


class SeatDamage(Damage):
    """Decides by seats: a voter on another disk than a list names is lost for that list."""

    def __init__(self, nodes: Iterable[Node], lists: PossibleLists) -> None:
        self._nodes = {node.server_id: node for node in nodes}
        self._possible = lists

    def is_borne(self, *more: Reconfig) -> bool:
        """Return whether every list bears the present damage, also those that `more` makes."""
        found = self._possible.possible(*more)
        return found is not None and all(self.disks_of(each).bear() for each in found)

    def disks_of(self, voters: Voters) -> VoterDisks:
        """Return the disks of one list."""
        seats = [(self._nodes[server], disk) for server, disk in voters.items()]
        return VoterDisks({node: is_lost_as(node, disk) for node, disk in seats})

    def _lists(self) -> list[VoterDisks]:
        found = self._possible.possible()
        return [_NOTHING] if found is None else [self.disks_of(each) for each in found]


def is_lost_as(node: Node, disk: str) -> bool:
    """Return whether this disk of a server is not there, or is not whole."""
    return node.disk.disk != disk or node.disk.is_damaged or node.is_flipped


class _Nothing(VoterDisks):
    """A list that bears no loss."""

    def bear(
        self, node: Node | None = None, *, lost: int = 0, uncertain: int = 0, forgotten: int = 0
    ) -> bool:
        return False


_NOTHING = _Nothing({})
