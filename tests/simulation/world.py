"""One run: servers and clients under a plan's faults, then a quiet phase until all converge.

A few plans end with the loss of more disks than an ensemble can survive.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from raykeeper.server import jute_clients, jute_lists
from raykeeper.server.server_trace_events import COUNTER_EXHAUSTED
from raykeeper.zab import ids, leader_broadcast, recent_log
from raykeeper.zab.ids import Millis, ServerId, format_zxid
from raykeeper.znodes.requests import SessionId
from tests.harness.schedule import Schedule, Trace
from tests.simulation.checks import Checks
from tests.simulation.checks.drains import connections_of
from tests.simulation.checks.sessions import reconnects_come_to_an_end
from tests.simulation.client import SimClient
from tests.simulation.damage import Damage
from tests.simulation.faults import PATIENCE_MS, Faults
from tests.simulation.jute_clients.client import JuteSimClient
from tests.simulation.lost_majority import LostMajority
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.plan import Plan

READ_AHEAD_BYTES = 200
DRAINED_PER_S = 50
SETTLE_MS = 1_500
"""How long after the last transaction its events may still be on their way."""


class Report(Struct, frozen=True):
    """The counts of a run that broke no promise."""

    seed: int
    steps: int
    virtual_ms: int
    converged_ms: int
    """How long it took after the last fault."""
    faults: dict[str, int]
    """Of each kind, how many were injected; one that found no target is not."""
    notes: dict[str, int]
    """Of each name, as the servers gave them."""
    counts: dict[str, int]
    """What the clients and the checks saw: acked writes, reads, sessions and so on."""


class World:
    """The servers, clients and faults of one plan."""

    def __init__(
        self, plan: Plan, trace: Trace | None = None, network: type[Network] = Network
    ) -> None:
        self.plan = plan
        self.schedule = Schedule(plan.seed, trace)
        self.network = network(self.schedule, plan.delay_ms_max, plan.notice_ms_max)
        self.checks = Checks(self.schedule)
        voters = tuple(ServerId(each.server_id) for each in plan.servers if each.is_voter)
        self.nodes = [
            Node(server, voters, plan.timing, self.schedule, self.network, self.checks)
            for server in plan.servers
        ]
        for node in self.nodes:
            node.peers = [peer for peer in self.nodes if peer is not node]
        self.clients = self._new_clients()
        for client in self.clients:
            client.others = [other for other in self.clients if other is not client]
        self.faults = self._new_faults()

    def _new_clients(self) -> list[SimClient]:
        return [
            (JuteSimClient if client.speaks_jute else SimClient)(
                client, self.nodes, self.schedule, self.network, self.checks
            )
            for client in self.plan.clients
        ]

    def _new_faults(self) -> Faults:
        parts = self.schedule, self.network, self.nodes, self.clients
        return Faults(*parts, Damage(self.nodes))

    def run(self) -> Report:
        """The safety phase with faults, then the liveness phase without.

        Raises:
            AssertionError: a promise was broken, or the world did not converge.
        """
        with _counters_of(self.plan.counter_bits), _small_bounds():
            return self._run()

    def _run(self) -> Report:
        schedule = self.schedule
        random = schedule.stream("start")
        for node in self.nodes:
            schedule.after(random.randint(0, 50), node.start)
        for client in self.clients:
            schedule.after(random.randint(0, 100), client.start)
        for fault in self.plan.faults:
            schedule.after(fault.at_ms, lambda fault=fault: self.faults.inject(fault))
        schedule.run_until(Millis(self.plan.safety_ms))
        schedule.say("the faults end")
        self.faults.end()
        for client in self.clients:
            client.is_working = False
        faulty_until = schedule.now
        lost_before = [client.servers_lost for client in self.clients]
        exhausted_before = self.checks.notes[COUNTER_EXHAUSTED]
        self._finish_work()
        self._converge()
        converged_ms = schedule.now - faulty_until
        schedule.say("all have converged")
        self.checks.calm(self.in_use())
        self._end_sessions()
        self._settle(faulty_until)
        self._look_around()
        self.checks.calm([])
        if any(node.is_flipped for node in self.nodes):
            # Trees are compared when they change.
            for client in self.clients:
                client.write_once()
            self._converge()
            self._settle(self.schedule.now)
        elections = self.checks.notes[COUNTER_EXHAUSTED] - exhausted_before
        for client, before in zip(self.clients, lost_before, strict=True):
            reconnects_come_to_an_end(client.name, client.servers_lost - before, elections)
        if self.plan.transfers_in_calm:
            self._transfer_in_turn()
        if self.plan.drains_in_calm and len(self.nodes) > 1:
            self._drain_in_turn()
        if self.plan.loses_majority:
            self._lose_majority()
        self.checks.finish(self.nodes)
        return self._report(converged_ms)

    def in_use(self) -> list[Node]:
        """Return the servers that must run in the end."""
        return self.nodes

    # Additions of a world of recipes (recipes/world.py).

    def _finish_work(self) -> None:
        """Wait until all requests of the clients are answered."""

    def _look_around(self) -> None:
        """Check that clients have left nothing behind."""

    def _lose_majority(self) -> None:
        told_ms = self.plan.timing.told_ms
        lost = LostMajority(self.schedule, self.nodes, self.clients, self.checks, told_ms)
        if not lost.is_possible:
            return
        lost.lose()
        lost.nobody_decides()
        lost.bring_back()
        self._converge()
        self._settle(self.schedule.now)

    def _transfer_in_turn(self) -> None:
        """Have the lead transferred to each voter in turn: in calm each transfer is done."""
        bound_ms = self.plan.timing.converge_ms
        for nominee in (node for node in self.nodes if node.votes):
            until = Millis(self.schedule.now + bound_ms)
            assert self.schedule.run_until(until, self._follow_one_leader), self._why()
            (leader,) = (n for n in self.nodes if n.server and n.server.peer.broadcasting)
            answer = leader.transfer(nominee.server_id, bound_ms)
            until = Millis(self.schedule.now + 2 * bound_ms)
            self.schedule.run_until(until, lambda answer=answer: answer() is not None)
            result = answer()
            assert result is not None and result.is_done, f"Transfer: in calm it is {result}"
            self._converge()
        for node in self.nodes:
            node.transfers.all_answered(node.server_id)
        self._settle(self.schedule.now)

    def _follow_one_leader(self) -> bool:
        """Return whether no server follows an earlier leader, of whose end it has not heard."""
        peers = [node.server.peer for node in self.nodes if node.server]
        return all(peer.is_active for peer in peers) and len({peer.epoch for peer in peers}) == 1

    def _drain_in_turn(self) -> None:
        """Drain each server in turn: in calm its clients go elsewhere, and keep their sessions.

        Where a force of a disk takes a large part of a session timeout, one may end on its way. So
        may that of a client of ZooKeeper, which pauses for up to a second before it dials.
        """
        for node in self.nodes:
            before = self._native_sessions()
            node.drain(DRAINED_PER_S, PATIENCE_MS)
            until = Millis(self.schedule.now + self.plan.timing.converge_ms)
            for client in self.clients:
                client.write_once()
            done = self.schedule.run_until(until, lambda node=node: self._has_drained(node))
            assert done, f"Drain: server {node.server_id} keeps {connections_of(node)}"
            self._converge()
            after = self._native_sessions()
            if self.plan.outlives_moves:
                assert before == after, f"Drain: sessions {before} are {after}"
            self.checks.counts["drain.done"] += 1
            node.end_drain()
            self._settle(self.schedule.now)

    def _native_sessions(self) -> list[SessionId]:
        native = [client for client in self.clients if not client.speaks_jute]
        return [client.core.session_id for client in native if client.core]

    def _has_drained(self, node: Node) -> bool:
        return not connections_of(node) and self._is_joined()

    def _report(self, converged_ms: int) -> Report:
        counts: Counter[str] = Counter()
        for client in self.clients:
            counts.update(client.log.counts)
        counts.update(self.checks.counts)
        counts["acked"] = self.checks.clients.acked
        counts["repairs"] = sum(node.disk.repairs for node in self.nodes)
        counts["txns"] = len(self.checks.order)
        return Report(
            self.plan.seed,
            self.schedule.steps,
            self.schedule.now,
            converged_ms,
            dict(self.faults.injected),
            dict(self.checks.notes),
            dict(counts),
        )

    def _is_quiet(self) -> bool:
        # Checked only sometimes: it is expensive.
        if self.schedule.steps % 64:
            return False
        return (
            all(client.is_idle for client in self.clients)
            and all(node.disk.is_idle for node in self.nodes)  # a fault may still slow one down
            and self.checks.converged(self.in_use())
            and not any(node.votes and node.disk.waits_for_vote for node in self.nodes)
        )

    def _converge(self) -> None:
        bound_ms = self.plan.timing.converge_ms
        done = self.schedule.run_until(Millis(self.schedule.now + bound_ms), self._is_quiet)
        assert done, f"no convergence in {bound_ms} ms: {self._why()}"

    def _settle(self, since: int) -> None:
        """Wait until all pending work is done: what the last transaction, or `since`, has begun."""
        while (left := self._restless_until(since) - self.schedule.now) > 0:
            self.schedule.run_until(Millis(self.schedule.now + left))
            assert self.schedule.now < 10 * self.plan.timing.converge_ms, f"no rest: {self._why()}"

    def _restless_until(self, since: int) -> int:
        """Return until when work is pending, as far as it is known now."""
        is_at_rest = self._is_joined() and self.checks.converged(self.in_use())
        if not is_at_rest:
            return self.schedule.now + SETTLE_MS
        read_at = [client.behind_until for client in self.clients]
        return max(since, self.checks.last_txn_at, *read_at) + SETTLE_MS

    def _end_sessions(self) -> None:
        """Check that sessions of dead clients end, and that no znode outlives its time."""
        bound_ms = self.plan.timing.end_ms
        done = self.schedule.run_until(Millis(self.schedule.now + bound_ms), self._have_ended)
        assert done, f"Endings: a session or a znode is still there after {bound_ms} ms"

    def _have_ended(self) -> bool:
        return self.schedule.steps % 64 == 0 and self.checks.all_have_ended()

    def _is_joined(self) -> bool:
        return all(client.is_connected for client in self.clients)

    def _why(self) -> str:
        servers = [
            f"{n.server_id}:{n.server.peer.role.value}/{n.server.peer.is_active}"
            f"@{format_zxid(n.server.state.zxid)}{' without vote' * n.disk.waits_for_vote}"
            if n.server
            else f"{n.server_id}:down"
            for n in self.nodes
        ]
        return f"{servers}, unanswered {[len(c.pending) for c in self.clients]}"


@contextmanager
def _counters_of(bits: int) -> Iterator[None]:
    """Limit the counters of zxids to `bits` bits."""
    right = ids.COUNTER_BITS
    try:
        _set_counters(bits)
        yield
    finally:
        _set_counters(right)


@contextmanager
def _small_bounds() -> Iterator[None]:
    """Have servers pause reading from clients of ZooKeeper's protocol often, and keep all lists."""
    ahead, kept_from = jute_clients.READ_AHEAD_BYTES, jute_lists.KEPT_FROM
    try:
        vars(jute_clients)["READ_AHEAD_BYTES"] = READ_AHEAD_BYTES
        vars(jute_lists)["KEPT_FROM"] = 0
        yield
    finally:
        vars(jute_clients)["READ_AHEAD_BYTES"] = ahead
        vars(jute_lists)["KEPT_FROM"] = kept_from


def _set_counters(bits: int) -> None:
    vars(ids)["COUNTER_BITS"] = bits
    for module in (ids, leader_broadcast, recent_log):
        vars(module)["COUNTER_MAX"] = (1 << bits) - 1
