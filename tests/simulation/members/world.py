"""A world in which an operator changes the members all the time.

The operator is any client with the right to it. Its steps are random, some of them wrong; the
checks of every world judge what becomes of them (checks/members.py).
"""

from raykeeper.zab.feature_levels import LEVEL_MAX
from raykeeper.znodes.requests import ANY_VERSION, AddAuth, Reconfig, SessionId
from tests.harness.schedule import Trace
from tests.simulation.checks.truth import CONFIG
from tests.simulation.client import SimClient
from tests.simulation.plan import Plan
from tests.simulation.requests.acls import SUPER
from tests.simulation.world import World


class MembersWorld(World):
    """The general world, with members that change."""

    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        super().__init__(plan, trace)
        assert plan.members is not None
        self._random = self.schedule.stream("operator")
        self._proven: dict[SessionId, None] = {}
        for node in self.nodes:
            node.newest_level = LEVEL_MAX
            node.are_others_strangers = True
        self._plan_step()

    def _plan_step(self) -> None:
        assert self.plan.members is not None
        pause_ms = self._random.randint(1, 2 * self.plan.members.pause_ms)
        self.schedule.after(pause_ms, self._act)

    def _act(self) -> None:
        if self.schedule.now >= self.plan.safety_ms:
            return
        self._plan_step()
        able = [each for each in self.clients if _can_ask(each)]
        if able:
            self._ask(self._random.choice(able))

    def _ask(self, client: SimClient) -> None:
        assert client.core is not None
        session = client.core.client_id.session_id
        if session not in self._proven:
            self._proven[session] = None
            client._submit(AddAuth("digest", SUPER))
        client._submit(self._step())
        self.checks.counts["steps"] += 1
        client.core.flush(client.clock.mono())
        client._carry_out()

    def _step(self) -> Reconfig:
        random, truth = self._random, self.checks.truth
        every = [int(node.server_id) for node in self.nodes]
        voters = [int(node.server_id) for node in self.nodes if node.votes]
        observers = [] if truth.members is None else [int(each) for each in truth.members.observers]
        strangers = [server for server in every if server not in voters + observers]
        kind = random.random()
        version = random.choice([ANY_VERSION, ANY_VERSION, truth.znodes[CONFIG].mzxid])
        if kind < 0.1:
            return Reconfig(random.choice(every), random.choice(every), random.random() < 0.5, 7)
        if kind < 0.35 and strangers:
            return Reconfig(random.choice(strangers), 0, True, version)
        if kind < 0.6 and observers:
            return Reconfig(random.choice(observers), 0, False, version)
        if kind < 0.75 and observers:
            return Reconfig(random.choice(observers), random.choice(voters), False, version)
        if kind < 0.85:
            return Reconfig(random.choice(voters), 0, True, version)
        return Reconfig(0, random.choice(voters + observers), False, version)

    def _look_around(self) -> None:
        """Check that in the end all servers have the member list, said twice."""
        truth = self.checks.truth
        assert truth.members is None or truth.times_said > 1, "Membership: it is said only once"
        self.checks.counts["lists"] = truth.lists
        for node in self.nodes:
            assert node.server is not None
            delivered = node.server.peer.settings.members.delivered
            assert truth.members in (None, delivered), f"Membership: {node.server_id} {delivered}"


def _can_ask(client: SimClient) -> bool:
    is_there = client.is_connected and client.is_working and not client.is_frozen
    return is_there and not client.refuses_writes
