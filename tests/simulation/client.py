"""A client in the simulated world: the real `ClientCore` with a random workload."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import (
    CallWatchers,
    ChangeState,
    CloseLink,
    CloseSearchLink,
    Complete,
    Effect,
    Fail,
    KeepServers,
    ListServers,
    OpenLink,
    OpenSearchLink,
    PromoteSearchLink,
    SendFrame,
    SendSearchFrame,
    SuccessReply,
)
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import ANY_VERSION, SetData
from tests.harness.schedule import Schedule
from tests.simulation.checks.told_event import EventTold
from tests.simulation.client_log import ClientLog
from tests.simulation.clock import SimClock
from tests.simulation.network import Network, SimLink, client_end
from tests.simulation.plan import ClientPlan
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.node import Node


READ_ONLY_SHARE: Final = 0.2
"""How many processes take a server without a leader, for reading."""


def _joined(effects: list[Effect]) -> list[Effect | EventTold]:
    """Join the watchers of an event, some of which get further events of its transaction."""
    joined: list[Effect | EventTold] = []
    for effect in effects:
        if not isinstance(effect, CallWatchers):
            joined.append(effect)
            continue
        event, watchers = effect.event, effect.watchers
        last = joined[-1] if joined else None
        if not (isinstance(last, EventTold) and last.is_of(event) and last.joins(watchers)):
            last = EventTold(event, [], [])
            joined.append(last)
        last.watchers.extend(watchers)
        if event.more:
            last.are_told_more.extend(watchers)
    return joined


class SimClient:
    """A client that opens one session after another: the next begins when one is LOST or closed."""

    def __init__(
        self,
        plan: ClientPlan,
        nodes: list["Node"],
        schedule: Schedule,
        network: Network,
        checks: "Checks",
    ) -> None:
        self.number = plan.number
        self.speaks_jute = plan.speaks_jute
        self.heard_sent_at = 0
        """When the newest bytes that a client of ZooKeeper's protocol has read were sent."""
        self.behind_until = 0
        """When such a client has read, or will have read, what it was late to read."""
        self.name = f"c{plan.number}"
        self.end = client_end(plan.number)
        self.clock = SimClock(schedule, plan.drift_ppm, plan.number * 77_000_000)
        self.log = ClientLog(self.name, schedule)
        self.core: ClientCore | None = None
        self.is_working = True
        self.life = 0
        self.pending: dict[int, NewRequest] = {}
        self._nodes = {node.server_id: node for node in nodes}
        self._plan = plan
        self._random = schedule.stream(f"client.{plan.number}")
        self._schedule = schedule
        self._network = network
        self._checks = checks
        self._link: SimLink | None = None
        self._second: SimLink | None = None  # the search for a server with a leader
        self._dials = 0
        self._searches = 0
        self._token = 0
        self._wake_at: Millis | None = None
        self._beside = schedule.stream(f"client.{plan.number}.beside")
        self._contract = schedule.stream(f"client.{plan.number}.contract")
        self._watches = schedule.stream(f"client.{plan.number}.watches")
        self._listings = schedule.stream(f"client.{plan.number}.listings")
        self.servers_at_start: Callable[[], list[ServerId]] = lambda: list(self._nodes)
        """The servers that a new process knows."""
        self._workload = self._work_of(self.name)
        self.after_next_request: Callable[[], None] | None = None
        """Called once, when requests have left."""
        self.after_answer: Callable[[NewRequest], None] = lambda _ask: None
        """Called when a request was answered, or refused."""
        self.others: list[SimClient] = []
        self._left: ClientId | None = None  # the session of the previous process
        self._is_opening = False  # until the session is open, writes get no numbers
        self._held: list[Callable[[], None]] | None = None  # waiting actions of a frozen process

    def start(self) -> None:
        """Open a session, or take over one of another process, dead or alive."""
        random = self._random
        taken = self._to_take()
        self.life += 1
        self._link = self._second = None
        self._wake_at = None
        self.pending = {}
        self._workload = self._work_of(f"{self.name}.{self.life}")
        timeout = self._workload.session_timeout()
        self.core = ClientCore(
            random.randbytes(16),
            timeout,
            self.servers_at_start(),
            Random(random.random()),
            self._limits(),
            takeover=taken,
            read_only=taken is None and self._contract.random() < READ_ONLY_SHARE,
        )
        self._is_opening = taken is not None
        self._begin(self.core)
        self._plan_work(self.life)

    def _begin(self, core: ClientCore) -> None:
        self._checks.clients.started(self)
        core.start(self.clock.mono())
        self._carry_out()

    def _limits(self) -> ClientLimits:
        return ClientLimits(
            request_timeout_ms=Millis(600_000), outstanding_max=self._plan.outstanding_max
        )

    def die(self, away_ms: int | None = None) -> None:
        """Kill the process, which sends nothing any more. The next one begins `away_ms` later."""
        self._drop_link()
        self._drop_second()
        self.life += 1
        self._left = self.core.client_id if self.core is not None else None
        self.core = None
        self._held = None
        self._checks.clients.died(self)
        if away_ms is None:
            away_ms = self._random.randint(0, 2_000)
        self._schedule.after(away_ms, self.start)

    @property
    def process(self) -> tuple[int, int]:
        """Return the name of the process."""
        return self.number, self.life

    @property
    def is_frozen(self) -> bool:
        """Return whether the process is frozen."""
        return self._held is not None

    @property
    def has_let_go(self) -> bool:
        """Return whether the session may be over by the client's own clock: it must do nothing."""
        return self.core is None or self.core._deadlines.is_expired(self.clock.mono())

    @property
    def lets_go_at(self) -> int:
        """Return when, in the world's time, the client gives its session up by its own clock."""
        let_go_at = self.core._deadlines.expires_at if self.core is not None else None
        return 0 if let_go_at is None else self.clock.moment_of(let_go_at)

    def until_end_ms(self, after_ms: int) -> int | None:
        """Return the time until `after_ms` after it must give its session up; None without one."""
        end = self.core._deadlines.expires_at if self.is_connected and self.core else None
        return None if end is None else self.clock.delay_until(Millis(end + after_ms))

    def freeze(self) -> None:
        """Freeze the process (SIGSTOP): its events wait."""
        self._held = []

    def thaw(self) -> None:
        """Thaw the process (SIGCONT): its threads run in any order, so a timer may come first."""
        held, self._held = self._held or [], None
        if self.core is not None and self._random.random() < 0.5:
            self.core.wake(self.clock.mono())
            self._carry_out()
        for action in held:
            action()

    def _waits(self, action: Callable[[], None]) -> bool:
        """Return whether the process is frozen; then `action` runs when it is thawed."""
        if self._held is None:
            return False
        self._held.append(action)
        return True

    @property
    def servers_lost(self) -> int:
        """Return how often the client lost a server that served it."""
        return self.log.counts["state.SUSPENDED"]

    @property
    def is_idle(self) -> bool:
        """Return whether every request was answered."""
        return self.core is not None and not self.pending

    @property
    def refuses_writes(self) -> bool:
        """Return whether the client itself would refuse a write now."""
        return self.core is not None and self.core._outstanding.is_read_only

    @property
    def is_connected(self) -> bool:
        """Return whether a server that has a leader serves it."""
        return self.core is not None and self.core.state is ClientState.CONNECTED

    def write_once(self) -> None:
        """Send one more write after the end of the workload."""
        if self.core is not None:
            self._submit(SetData("/n0", b"the last one", ANY_VERSION))
            self.core.flush(self.clock.mono())
            self._carry_out()

    # The workload.

    def _to_take(self) -> ClientId | None:
        """Choose the session to take over: of the previous process, or sometimes of another."""
        left, self._left = self._left, None
        if self._contract.random() < 0.03 and self.others:
            other = self._contract.choice(self.others).core
            left = other.client_id if other is not None else None
        elif self._contract.random() < 0.3:
            return None
        return left if left is not None and left.session_id else None

    def _work_of(self, name: str) -> Workload:
        streams = self._random, self._beside, self._contract, self._watches
        return Workload(self._plan, name, *streams)

    def _plan_work(self, life: int) -> None:
        self._schedule.after(
            self._random.randint(0, self._plan.pause_ms_max), lambda: self._work(life)
        )

    def _work(self, life: int) -> None:
        if life != self.life or self.core is None or self._waits(lambda: self._work(life)):
            return
        if self._is_opening:
            self._is_opening = not self.is_connected
        elif self.is_working and len(self.pending) < self._plan.pipeline_max:
            for _ in range(self._random.randint(1, self._plan.burst_max)):
                self._submit(self._workload.next())
            self.core.flush(self.clock.mono())
            self._carry_out()
            if self._random.random() < self._plan.close_share and self._may_close():
                self.core.close(self.clock.mono())
                self._checks.clients.closed(self)
                self._carry_out()
            inject, self.after_next_request = self.after_next_request, None
            if inject is not None:
                inject()
        self._plan_work(life)

    def _may_close(self) -> bool:
        return True

    def _submit(self, ask: NewRequest) -> None:
        assert self.core is not None
        self._token += 1
        self.pending[self._token] = ask
        self.log.asks(self._token, ask)
        self._checks.clients.submitted(self, self._token, ask)
        self.core.submit(ask, self._token, self.clock.mono())

    # The driver.

    def _carry_out(self) -> None:
        core, life = self.core, self.life
        if core is None:
            return
        while core.out:
            effects, core.out[:] = _joined(core.out), []
            for effect in effects:
                self._one(effect)
                if life != self.life:
                    return
        self._arm()

    def _one(self, effect: object) -> None:
        match effect:
            case Complete():
                ask = self.pending.pop(effect.token)  # type: ignore[call-overload]
                self.log.is_answered(effect.token, effect.reply)
                self._checks.clients.completed(self, ask, effect.reply)
                self._answered(effect.token, ask, effect.reply)
                self.after_answer(ask)
            case Fail():
                ask = self.pending.pop(effect.token)  # type: ignore[call-overload]
                self.log.is_refused(effect.token, effect.error)
                self._checks.clients.failed(self, ask, effect.error)
                self._refused(effect.token, effect.error)
                self.after_answer(ask)
            case EventTold():
                self.log.sees(effect.event)
                if effect.event.type is not EventType.NONE:
                    self._checks.clients.event(self, effect)
                self._told(effect)
            case ChangeState():
                self.log.becomes(effect.state)
                self._checks.clients.becomes(self, effect.state)
                self._becomes(effect.state)
                if effect.state is ClientState.LOST:
                    self._checks.clients.lost(self, effect.cause)
                    self._ended()
                    life = self.life
                    self._schedule.after(self._random.randint(0, 500), lambda: self._restart(life))
            case OpenLink():
                self._drop_link()
                self._dial(effect.server)
            case SendFrame():
                if self._link is not None:
                    self._link.send(self.end, effect.data)
            case CloseLink():
                self._checks.clients.leaves(self, effect.reason)
                self._drop_link()
            case KeepServers():
                self.log.counts["servers.learned"] += 1
            case ListServers():
                self._list_servers()
            case OpenSearchLink():
                self._searches += 1
                self._dial(effect.server, is_search=True)
            case SendSearchFrame():
                if self._second is not None:
                    self._second.send(self.end, effect.data)
            case CloseSearchLink():
                self._drop_second()
            case PromoteSearchLink():
                second, self._second = self._second, None
                self._drop_link()
                self._link = second
            case _:
                raise AssertionError(effect)

    def _list_servers(self) -> None:
        """Ask Ray which servers run; now and then it does not know."""
        life = self.life
        found = [] if self._listings.random() < 0.2 else [*self._nodes]

        def arrive() -> None:
            if life != self.life or self.core is None or self._waits(arrive):
                return
            self.log.counts["servers.listed"] += 1
            self.core.servers_listed(found, self.clock.mono())
            self._carry_out()

        self._schedule.after(self._listings.randint(1, 50), arrive)

    # Differences of a member of recipes (recipes/member.py).

    def _answered(self, token: object, ask: NewRequest, answer: SuccessReply) -> None:
        self._workload.answered(ask, answer)

    def _refused(self, token: object, error: KeeperError) -> None:
        pass

    def _told(self, told: EventTold) -> None:
        pass

    def _becomes(self, state: ClientState) -> None:
        """Handle a new state of the handle."""

    def _ended(self) -> None:
        """Handle the state LOST."""

    def _restart(self, life: int) -> None:
        if life == self.life:
            self.start()

    def _drop_link(self) -> None:
        self._dials += 1
        if self._link is not None:
            self._link.close(self.end)
            self._link = None

    def _drop_second(self) -> None:
        self._searches += 1
        if self._second is not None:
            self._second.close(self.end)
            self._second = None

    def _dial(self, server: ServerId, *, is_search: bool = False) -> None:
        life, node = self.life, self._nodes[server]
        turn = self._searches if is_search else self._dials

        def arrive() -> None:
            if turn != (self._searches if is_search else self._dials):
                return
            if life != self.life or self.core is None or self._waits(arrive):
                return
            now = self.clock.mono()
            link = None
            if node.is_answering:
                link = self._network.connect(self.end, node.end)
            if link is None:
                (self.core.search_link_failed if is_search else self.core.link_failed)(
                    "refused", now
                )
                self._carry_out()
                return
            if is_search:
                self._second = link
            else:
                self._link = link
            link.attach(
                self.end,
                lambda data: self._frame(link, life, data),
                lambda: self._closed(link, life),
            )
            self._accept(node, link)
            (self.core.search_link_opened if is_search else self.core.link_opened)(now)
            self._carry_out()

        self._schedule.after(self._random.randint(1, 10), arrive)

    def _accept(self, node: "Node", link: SimLink) -> None:
        node.accept_client(link, self.process)

    def _frame(self, link: SimLink, life: int, data: bytes) -> None:
        if self._waits(lambda: self._frame(link, life, data)):
            return
        if life != self.life or self.core is None:
            return
        if link is self._link:
            self.core.frame(data, self.clock.mono())
        elif link is self._second:
            self.core.search_frame(data, self.clock.mono())
        else:
            return
        self.core.flush(self.clock.mono())
        self._carry_out()

    def _closed(self, link: SimLink, life: int) -> None:
        if self._waits(lambda: self._closed(link, life)):
            return
        if life != self.life or self.core is None:
            return
        if link is self._link:
            self._link = None
            self.core.link_failed("link broken", self.clock.mono())
        elif link is self._second:
            self._second = None
            self._searches += 1
            self.core.search_link_failed("link broken", self.clock.mono())
        else:
            return
        self._carry_out()

    def _arm(self) -> None:
        assert self.core is not None
        due = self.core.deadline()
        if due is None or due == self._wake_at:
            return
        self._wake_at = due
        life = self.life
        self._schedule.after(self.clock.delay_until(due), lambda: self._wake(life, due))

    def _wake(self, life: int, at: Millis) -> None:
        if life != self.life or self.core is None or self._waits(lambda: self._wake(life, at)):
            return
        if self._wake_at == at:
            self._wake_at = None
        self.core.wake(self.clock.mono())
        self._carry_out()
