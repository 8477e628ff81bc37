"""One run: servers, clients, a random mix of faults, then quiet, in which all must converge."""

from raykeeper.zab.ids import Millis, ServerId
from tests.simulation.checks import Checks
from tests.simulation.client import SimClient
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.schedule import Schedule

CONVERGE_MS = 60_000


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.schedule = Schedule(seed)
        random = self.schedule.random
        self.network = Network(self.schedule)
        self.network.delay_ms_max = random.choice([1, 5, 20])
        self.checks = Checks(self.schedule)
        voters = random.choice([1, 2, 3, 3, 3, 3, 4, 5])
        ids = tuple(ServerId(i) for i in range(1, voters + 1))
        extra = random.choice([0, 0, 0, 1])
        self.nodes = [
            Node(ServerId(i), ids, self.schedule, self.network, self.checks, votes=i <= voters)
            for i in range(1, voters + extra + 1)
        ]
        for node in self.nodes:
            node.peers = [peer for peer in self.nodes if peer is not node]
            node.disk.sync_ms_max = random.choice([0, 2, 10, 40])
        self.clients = [
            SimClient(f"c{i}", self.nodes, self.schedule, self.network, self.checks)
            for i in range(random.randint(1, 4))
        ]
        # Each run draws its own mix: how often each fault happens, per second, or never.
        self.rates = {
            name: random.choice([0.0, 0.05, 0.3, 1.0])
            for name in (
                "crash",
                "blackout",
                "cut",
                "cut_one_way",
                "break",
                "client_dies",
                "tracker",
            )
        }

    def run(self, faults_ms: int = 20_000) -> None:
        """The safety phase with faults, then the liveness phase without.

        Raises:
            AssertionError: a promise was broken, or the world did not converge.
        """
        for node in self.nodes:
            self.schedule.after(self.schedule.random.randint(0, 50), node.start)
        for client in self.clients:
            self.schedule.after(self.schedule.random.randint(0, 100), client.start)
        self._plan_fault()
        self.schedule.run_until(Millis(faults_ms))
        self.rates = dict.fromkeys(self.rates, 0.0)
        self.network.heal()
        for node in self.nodes:
            if not node.is_up:
                node.start()
        for client in self.clients:
            client.is_working = False
        until = Millis(self.schedule.now + CONVERGE_MS)
        done = self.schedule.run_until(until, self._is_quiet)
        assert done, f"no convergence in {CONVERGE_MS} ms: {self._why()}"
        # The last events may still be on their way.
        self.schedule.run_until(Millis(self.schedule.now + 5_000))
        self.checks.finish(self.nodes)

    def _is_quiet(self) -> bool:
        # Looked at now and then only: it is not cheap.
        if self.schedule.steps % 64:
            return False
        return all(client.is_idle for client in self.clients) and self.checks.converged(self.nodes)

    def _why(self) -> str:
        servers = [
            f"{n.server_id}:{n.server.peer.role.value}/{n.server.peer.is_active}"
            f"@{n.server.state.zxid}"
            if n.server
            else f"{n.server_id}:down"
            for n in self.nodes
        ]
        return f"{servers}, unanswered {[len(c.pending) for c in self.clients]}"

    # Faults.

    def _plan_fault(self) -> None:
        self.schedule.after(100, self._maybe)

    def _maybe(self) -> None:
        random = self.schedule.random
        for name, rate in self.rates.items():
            if random.random() < rate / 10:
                getattr(self, f"_{name}")()
        self._plan_fault()

    def _crash(self) -> None:
        random = self.schedule.random
        node = random.choice(self.nodes)
        if node.is_up:
            node.crash()
            self.schedule.after(random.choice([10, 300, 3_000]), lambda: self._restart(node))

    def _blackout(self) -> None:
        """Several servers, perhaps all, lose power at once and come back one by one."""
        random = self.schedule.random
        for node in random.sample(self.nodes, random.randint(1, len(self.nodes))):
            if node.is_up:
                node.crash()
                self.schedule.after(
                    random.randint(10, 4_000), lambda node=node: self._restart(node)
                )

    def _restart(self, node: Node) -> None:
        if not node.is_up:
            node.start()

    def _cut(self) -> None:
        """A server is parted from some of the others, both ways."""
        random = self.schedule.random
        node = random.choice(self.nodes)
        for peer in random.sample(self.nodes, random.randint(1, len(self.nodes))):
            if peer is not node:
                self._part(("server", node.server_id), ("server", peer.server_id))
                self._part(("server", peer.server_id), ("server", node.server_id))

    def _cut_one_way(self) -> None:
        random = self.schedule.random
        ends = [("server", node.server_id) for node in self.nodes]
        ends += [("client", client.name) for client in self.clients]
        one, other = random.choice(ends), random.choice(ends)
        if one != other:
            self._part(one, other)

    def _part(self, one: object, other: object) -> None:
        self.network.cut(one, other)
        lasts = self.schedule.random.choice([500, 2_000, 8_000])
        self.schedule.after(lasts, lambda: self.network.mend(one, other))

    def _break(self) -> None:
        self.network.break_some()

    def _client_dies(self) -> None:
        client = self.schedule.random.choice(self.clients)
        if client.core is not None:
            client.die()

    def _tracker(self) -> None:
        self.schedule.random.choice(self.nodes).lose_tracker()
