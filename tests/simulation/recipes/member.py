"""A client whose processes run the scripts of a scenario; each process has a new session.

In all other respects it is a client of the simulated world: its clock drifts, its links break, it
is frozen and thawed, killed, and cut off.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Event
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientState, EventType
from raykeeper.client.errors import KeeperError
from raykeeper.zab.ids import Millis, ServerId
from tests.harness.schedule import Schedule
from tests.simulation.checks.told_event import EventTold
from tests.simulation.client import SimClient
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.plan import ClientPlan
from tests.simulation.recipes.process import Process

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.recipes.scenario import Scenario

SESSIONS_MS: Final = [1_000, 1_000, 2_000, 5_000]
LEAVES_AFTER_MS: Final = 4_000
"""A process that closes its session does so after half of that, on the average."""


class Member(SimClient):
    """One process after another."""

    def __init__(
        self,
        plan: ClientPlan,
        nodes: list[Node],
        schedule: Schedule,
        network: Network,
        checks: "Checks",
        scenario: "Scenario",
    ) -> None:
        super().__init__(plan, nodes, schedule, network, checks)
        self.program: Process | None = None
        self.scenario = scenario
        self._draws = schedule.stream(f"member.{plan.number}.{plan_name(scenario)}")
        self._flow_tokens: dict[int, Any] = {}
        self._has_asked = False
        self._is_busy = False

    def start(self) -> None:
        """Begin a process, with a session of its own."""
        random = self._draws
        self.life += 1
        self._link = self._second = None
        self._wake_at = None
        self.pending = {}
        self._flow_tokens = {}
        servers = [ServerId(i) for i in self._nodes]
        self.core = ClientCore(
            random.randbytes(16),
            Millis(self._plan.timeout_ms or random.choice(SESSIONS_MS)),
            servers,
            Random(random.random()),
            self._limits(),
        )
        program = self.program = Process(self, self.core, Random(random.random()))
        self._begin(self.core)
        program.begin(self.scenario.scripts(program))
        self._carry_out()
        if self.is_working and random.random() < 4 * self._plan.close_share:
            program.after(random.randint(0, LEAVES_AFTER_MS), self.leave)

    def leave(self) -> None:
        """Close the session, whatever is under way."""
        if self.core is not None and self.program is not None and self.is_working:
            self.program.is_leaving = True
            self.core.close(self.clock.mono())
            self._checks.clients.closed(self)

    def die(self, away_ms: int | None = None) -> None:
        """Kill the process."""
        if self.program is not None:
            self.program.is_killed = self.program.is_over = True
        super().die(away_ms)

    def plan(self, delay_ms: int, action: Callable[[], None], life: int) -> None:
        """Do something later in this life, when the process runs."""

        def do() -> None:
            if life != self.life or self.core is None or self._waits(do):
                return
            action()
            self._carry_out()

        self._schedule.after(delay_ms, do)

    def ask(self, ask: NewRequest, token: Any) -> None:
        """Submit a request of a flow; it is sent with others of the same moment."""
        self._submit(ask)
        self._flow_tokens[self._token] = token
        self._has_asked = True

    # Differences from the driver.

    def _carry_out(self) -> None:
        if self._is_busy:
            return
        self._is_busy, was_over = True, self.program is None or self.program.is_over
        try:
            while self.core is not None:
                self.core.flush(self.clock.mono())
                asked, self._has_asked = self._has_asked, False
                super()._carry_out()
                inject, self.after_next_request = self.after_next_request if asked else None, None
                if inject is not None:
                    inject()
                if not self._has_asked:
                    break
        finally:
            self._is_busy = False
        if self.program is not None and self.program.is_over and not was_over:
            self.program.all_have_ended()

    def _answered(self, token: object, ask: NewRequest, answer: SuccessReply) -> None:
        flow = self._flow_tokens.pop(token, None)  # type: ignore[call-overload]
        if flow is not None:
            flow.complete(answer)

    def _refused(self, token: object, error: KeeperError) -> None:
        flow = self._flow_tokens.pop(token, None)  # type: ignore[call-overload]
        if flow is not None:
            flow.fail(error)

    def _told(self, told: EventTold) -> None:
        event = told.event
        for watcher in told.watchers:
            assert isinstance(watcher, Event)
            if event.type is EventType.NONE:
                watcher.set(event)
            else:
                watcher.set(event._replace(more=watcher in told.are_told_more))

    def _becomes(self, state: ClientState) -> None:
        if self.program is None:
            return
        if state is ClientState.SUSPENDED:
            self.program.flows.disconnected()
        elif state is not ClientState.LOST:
            self.program.flows.connected(read_only=state is ClientState.CONNECTED_READ_ONLY)

    def _ended(self) -> None:
        if self.program is not None:
            self.program.ended()


def plan_name(scenario: "Scenario") -> str:
    """Return a name that keeps random streams apart from those of other recipes."""
    return type(scenario).__name__
