"""Exactly once under a kill at every step of one write: one effect, and its own result.

Random faults hit every step of every write some day. Here each step is hit by plan: the world stops
before the n-th event after a client's request, a process is killed, and the world goes on until
the client has its answer; then n + 1, until the answer comes first. The events are each arriving
frame, each step of a server, each completed disk write: sent, forwarded, proposed, logged,
acknowledged, committed, applied, replied.

DESIGN section 7, "Exactly once".
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from raykeeper.client.core.public_types import ClientState
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis
from raykeeper.znodes.requests import ANY_VERSION, SetData, WriteOp
from raykeeper.znodes.txns import decode_txn
from tests.simulation.client import SimClient
from tests.simulation.node import Node
from tests.simulation.plan import ClientPlan, Plan, ServerPlan
from tests.simulation.world import World

PATIENCE_MS: Final = 20_000
"""Until something must have happened."""
AWAY_MS: Final = 20
"""How long who was killed is away."""
STEPS_MAX: Final = 200
"""Things that happen on the way of one write, at most."""


class Kill(Enum):
    """The process, or link, that is killed during a write."""

    LINK = "the link of the client"
    SERVER = "the server of the client"
    LEADER = "the leader"
    OTHERS = "all servers but that of the client"
    ALL = "all servers"
    CLIENT = "the client, whose session another one takes over"


class KillWorld(World):
    """The world of three servers without random faults, and of a client that a test directs."""

    def __init__(self, seed: int, observers: int = 0) -> None:
        super().__init__(_plan(seed, observers))
        self.client: SimClient = self.clients[0]
        self.client.is_working = False
        for node in self.nodes:
            node.start()
        self.client.start()
        self.rest()

    def rest(self) -> None:
        """Run until all servers follow one leader, and the client is connected to one of them."""
        self._until(self._is_at_rest)

    def do(self, op: WriteOp) -> None:
        """Perform a write without a fault."""
        self._ask(op)
        self._until(lambda: self.client.is_idle)

    def kill_during_write(self, op: WriteOp, kill: Kill, at: int, *, by_leader: bool) -> bool:
        """Request a write and kill a process before the `at`-th event after that.

        Returns whether that was before the answer. The client is connected to the leader, or to a
        follower.
        """
        self._connect_to(by_leader=by_leader)
        client, schedule = self.client, self.schedule
        before = len(self.checks.order)
        self._ask(op)
        start = schedule.steps
        self._until(lambda: client.is_idle or schedule.steps >= start + at)
        was_killed = not client.is_idle
        if was_killed:
            self._kill(kill)
        if kill is Kill.CLIENT and was_killed:
            self.rest()
            self.do(SetData("/after", b"", ANY_VERSION))
            assert self._writes_since(before) in (1, 2), op  # the last write is certainly done
        else:
            self._until(lambda: client.is_idle)
            assert self._writes_since(before) == 1, op
        self.rest()
        return was_killed

    def kill_during_close(self, kill: Kill, at: int, *, by_leader: bool) -> bool:
        """Do the same while the session is closed."""
        self._connect_to(by_leader=by_leader)
        client, schedule = self.client, self.schedule
        core = client.core
        assert core is not None
        session_id = core.session_id
        core.close(client.clock.mono())
        self.checks.clients.closed(client)
        client._carry_out()
        start = schedule.steps

        def is_over() -> bool:
            return core.state is ClientState.LOST

        self._until(lambda: is_over() or schedule.steps >= start + at)
        was_killed = not is_over()
        if was_killed:
            self._kill(kill)
        self._until(lambda: client.core is not None and client.core is not core)
        if kill is not Kill.CLIENT or not was_killed:
            closed_at = self.checks.truth.sessions[session_id].closed_at
            assert closed_at is not None, "it was told that it is closed"
        self.rest()
        return was_killed

    def _ask(self, op: WriteOp) -> None:
        client = self.client
        assert client.core is not None
        client._submit(op)
        client.core.flush(client.clock.mono())
        client._carry_out()

    def _kill(self, kill: Kill) -> None:
        server, leader, nodes = self._server, self._leader, self.nodes
        if kill is Kill.CLIENT:
            self.client.die()
            return
        if kill is Kill.LINK:
            self._break_link()
            return
        if kill is Kill.SERVER:
            nodes = [server] if server is not None else []
        elif kill is Kill.LEADER:
            nodes = [leader] if leader is not None else []
        elif kill is Kill.OTHERS:
            nodes = [node for node in nodes if node is not server]
        for node in nodes:
            if node.is_up:
                node.crash()
                self.schedule.after(AWAY_MS, node.start)

    def _connect_to(self, *, by_leader: bool) -> None:
        """Run until the client is connected to the leader, or to a follower."""
        while (self._server is self._leader) is not by_leader:
            self._break_link()
            self._until(lambda: not self.client.is_connected)
            self.rest()

    def _break_link(self) -> None:
        link = self.client._link
        if link is not None:
            link.break_up()

    def _writes_since(self, before: int) -> int:
        zab = self.checks.zab
        return sum(decode_txn(zab.committed[zxid]).number > 0 for zxid in zab.order[before:])

    @property
    def _server(self) -> Node | None:
        core = self.client.core
        return next((node for node in self.nodes if core and node.server_id == core._server), None)

    @property
    def _leader(self) -> Node | None:
        for node in self.nodes:
            if node.server is not None and node.server.peer.role is Role.LEADER:
                return node
        return None

    def _is_at_rest(self) -> bool:
        return self.client.is_connected and all(
            node.server is not None and node.server.peer.is_active for node in self.nodes
        )

    def _until(self, done: Callable[[], bool]) -> None:
        schedule = self.schedule
        assert schedule.run_until(Millis(schedule.now + PATIENCE_MS), done), "it never happened"


def _plan(seed: int, observers: int) -> Plan:
    servers = tuple(
        ServerPlan(
            server_id,
            is_voter=server_id <= 3,
            sync_ms_max=1,
            drift_ppm=0,
            snapshot_every_txns=1_000,
            window_txns_max=200,
            read_log_bytes_max=50_000,
            segment_bytes=50_000,
        )
        for server_id in range(1, 4 + observers)
    )
    client = ClientPlan(
        1, drift_ppm=0, pause_ms_max=1_000_000, burst_max=1, outstanding_max=1, timeout_ms=10_000
    )
    return Plan(seed, 0, 1, servers, (client,), (), notice_ms_max=10)
