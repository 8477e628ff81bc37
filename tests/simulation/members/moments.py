"""The moments of a step of the member list, for faults that strike just then."""

from collections.abc import Iterator
from typing import Final

from raykeeper.zab.effects import Append
from raykeeper.zab.ids import ServerId, Zxid
from tests.simulation.members.possible_lists import PossibleLists
from tests.simulation.node import Node

LOGGED: Final = "step.logged"
LOGGED_AGAIN: Final = "step.logged_again"
DELIVERED: Final = "step.delivered"
SAID_AGAIN: Final = "step.said_again"
PROMOTED: Final = "step.promoted"
"""A server has logged a list; logged it once more; delivered it; delivered it once more; logged one
that has another voter."""
MOMENTS: Final = (LOGGED, LOGGED_AGAIN, DELIVERED, SAID_AGAIN, PROMOTED)


class Moments:
    """What each server has made of the lists so far."""

    def __init__(self, lists: PossibleLists) -> None:
        self._lists = lists
        self._awaited: dict[ServerId, list[tuple[Zxid, str]]] = {}

    def of(self, node: Node, effects: list[object]) -> Iterator[str]:
        """Yield the moments that a step of this server was."""
        awaited = self._awaited.setdefault(node.server_id, [])
        for effect in effects:
            if isinstance(effect, Append):
                for each in self._lists.lists_in(effect):
                    again = each.is_repeated
                    awaited.append((each.zxid, SAID_AGAIN if again else DELIVERED))
                    yield LOGGED_AGAIN if again else LOGGED
                    before, after = self._lists.change
                    if not again and after.keys() - before.keys():
                        yield PROMOTED
        server = node.server
        while awaited and server is not None and awaited[0][0] <= server.state.zxid:
            zxid, name = awaited.pop(0)
            if zxid in self._lists.committed:
                yield name
