"""One swap, with a kill at every event on its way: `tests/simulation/every_step.py` for a step.

The world stops before the n-th event after an operator asked for the swap, a server is killed, and
the world goes on until the swap and the write behind it are answered and all servers have one list;
then n + 1, until the answers come first. A server that is killed for good stays away until a
majority without it has answered: so no single loss stops an ensemble of three in a swap.
"""

from enum import Enum
from typing import Final

from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import ANY_VERSION, AddAuth, Create, Reconfig, SetData
from tests.simulation.every_step import AWAY_MS, KillWorld
from tests.simulation.node import PROMOTION_WAIT_MS, Node
from tests.simulation.requests.acls import SUPER

PATH: Final = "/here"
TRIES: Final = 20
BEHIND: Final = 8
"""So many events after the swap the write is asked for."""


class Victim(Enum):
    """The servers that are killed."""

    LEADER = "the leader"
    LEAVING = "the server that leaves"
    JOINING = "the server that joins"
    ALL = "all servers"


class SwapWorld(KillWorld):
    """Three voters, and a fourth server that takes the place of one of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, observers=1)
        self.do(AddAuth("digest", SUPER))
        self.do(Create(PATH, b"", 0))

    def kill_during_swap(self, victim: Victim, at: int, *, for_good: bool) -> bool:
        """Ask for a swap, soon after it for a write, and kill before the `at`-th event.

        Returns whether that was before both answers.
        """
        joining, leaving = self._ready()
        client, schedule = self.client, self.schedule
        self._ask(Reconfig(joining, leaving, False, ANY_VERSION))
        start = schedule.steps
        self._until(lambda: schedule.steps >= start + min(at, BEHIND))
        self._ask(SetData(PATH, b"%d" % at, ANY_VERSION))
        self._until(lambda: client.is_idle or schedule.steps >= start + at)
        was_killed = not client.is_idle
        killed = self._victims(victim, joining, leaving) if was_killed else []
        for node in killed:
            node.crash()
            if not for_good:
                schedule.after(AWAY_MS, node.start)
        self._until(lambda: client.is_idle)
        if for_good:
            self.do(SetData(PATH, b"on", ANY_VERSION))
            for node in killed:
                node.start()
        self._until(self._has_one_list)
        assert self.checks.truth.znodes[PATH].value == (b"on" if for_good else b"%d" % at)
        return was_killed

    def _ready(self) -> tuple[int, int]:
        """Return an observer that may have a vote, and a voter that does not lead."""
        self.rest()
        for _ in range(TRIES):
            members = self.checks.truth.members
            voters = [int(node.server_id) for node in self.nodes if node.votes]
            others = [int(n.server_id) for n in self.nodes if int(n.server_id) not in voters]
            leader = self._leader
            if leader is not None and (members is None or others[0] in members.observers):
                leaving = [each for each in voters if each != leader.server_id]
                # It keeps up for long enough, with a digest that is compared after a write.
                for _ in range(2):
                    self.do(SetData(PATH, b"", ANY_VERSION))
                    until = Millis(self.schedule.now + 2 * PROMOTION_WAIT_MS)
                    self.schedule.run_until(until)
                return others[0], leaving[self.schedule.steps % len(leaving)]
            self.do(Reconfig(others[0], 0, True, ANY_VERSION))
            self.rest()
        raise AssertionError("the server that left does not become an observer")

    def _victims(self, victim: Victim, joining: int, leaving: int) -> list[Node]:
        leader = self._leader
        servers = {
            Victim.LEADER: [] if leader is None else [leader.server_id],
            Victim.LEAVING: [ServerId(leaving)],
            Victim.JOINING: [ServerId(joining)],
            Victim.ALL: [node.server_id for node in self.nodes],
        }[victim]
        return [node for node in self.nodes if node.server_id in servers and node.is_up]

    def _has_one_list(self) -> bool:
        """Return whether all servers have delivered the same list, which was said twice."""
        truth = self.checks.truth
        if not self._is_at_rest() or (truth.members is not None and truth.times_said < 2):
            return False
        lists = [n.server.peer.settings.members.delivered for n in self.nodes if n.server]
        return all(each == lists[0] for each in lists) and truth.members in (None, lists[0])
