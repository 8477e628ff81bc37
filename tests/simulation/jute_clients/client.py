"""A simulated client of ZooKeeper's protocol: the workload of the others, as far as it can ask it.

A process takes over the session of the process before it, by its id and password. Now and then one
tries a session with a wrong password. Some read what arrives slowly.
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from raykeeper.client.core.effects import SendFrame
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import AddAuth, Create, SetData
from tests.harness.schedule import Schedule
from tests.simulation.client import SimClient
from tests.simulation.jute_clients.core import NO_PASSWORD, Habits, JuteCore, Replays, SetAgain
from tests.simulation.jute_clients.requests import in_this_protocol
from tests.simulation.jute_clients.server_end import ByteEnd, pieces_of
from tests.simulation.network import Network, SimLink
from tests.simulation.plan import ClientPlan

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.node import Node

INTRUDES: Final = 0.05
"""How many processes try the session of another client, with a wrong password."""
NULLS: Final = 0.2
"""How many values are null, which native clients cannot write."""
RETURNS: Final = 0.7
"""How many take the session of the process before over."""


class JuteSimClient(SimClient):
    """One process after another, each with a new session or with that of the one before."""

    core: Any

    def __init__(
        self,
        plan: ClientPlan,
        nodes: list["Node"],
        schedule: Schedule,
        network: Network,
        checks: "Checks",
    ) -> None:
        super().__init__(plan, nodes, schedule, network, checks)
        self._habits_of = schedule.stream(f"client.{plan.number}.habits")
        self._pieces = schedule.stream(f"client.{plan.number}.pieces")
        self._nulls = schedule.stream(f"client.{plan.number}.nulls")
        self._ends: dict[SimLink, ByteEnd] = {}
        self._read_ms = 0

    def start(self) -> None:
        """Begin a process."""
        random = self._habits_of
        taken = self._to_take()
        self.life += 1
        self._link = self._second = None
        self._wake_at = None
        self.pending = {}
        self._ends = {}
        self._read_ms = random.choice([0, 0, 0, 10, 100, 400])
        self._workload = self._work_of(f"{self.name}.{self.life}")
        habits = Habits(
            is_eager=random.random() < 0.3,
            is_old=random.random() < 0.2,
            adopts_any=random.random() < 0.3,
            accepts_read_only=random.random() < 0.3,
            redial_ms_max=random.choice([10, 100, 1_000]),
        )
        servers = [ServerId(i) for i in self._nodes]
        timeout = self._workload.session_timeout()
        self.core = JuteCore(timeout, servers, Random(random.random()), habits, taken)
        self._begin(self.core)
        self._plan_work(self.life)

    def _to_take(self) -> ClientId | None:
        left, self._left = self._left, None
        kind = self._habits_of.random()
        if kind < INTRUDES and self.others:
            other = self._habits_of.choice(self.others).core
            if other is None or not other.session_id:
                return None
            wrong = self._habits_of.choice([NO_PASSWORD, self._habits_of.randbytes(16)])
            self.log.counts["recipe.wrong_passwords"] += 1
            return ClientId(other.session_id, wrong)
        if left is None or left.session_id <= 0 or kind >= RETURNS:
            return None
        self.log.counts["recipe.sessions_taken_up"] += 1
        return left

    # What a client of this protocol believes.

    @property
    def has_let_go(self) -> bool:
        """Return whether what it was told last allows no belief in its session any more."""
        return not self.is_connected or self._schedule.now >= self.lets_go_at

    @property
    def lets_go_at(self) -> int:
        """Return until when it may believe in its session by what was sent to it last."""
        if not self.is_connected:
            return 0
        return self.heard_sent_at + self.core.silence_ms

    def until_end_ms(self, after_ms: int) -> int | None:
        """Return the time until `after_ms` after it gives its connection up; None without one."""
        if not self.is_connected:
            return None
        return max(0, self.core.heard_at + self.core.silence_ms - self.clock.mono() + after_ms)

    @property
    def refuses_writes(self) -> bool:
        """Return False: a server without a leader refuses them."""
        return False

    # Requests.

    def _submit(self, ask: NewRequest) -> None:
        """Send a request, if it has a counterpart and there is a connection."""
        asked = in_this_protocol(ask)
        is_served = self.core.is_connected and not self.core._is_closing
        if asked is None or not is_served:
            return
        if isinstance(asked, AddAuth) and self.core.habits.accepts_read_only:
            return  # the checks do not know of identities that one server alone knows
        is_value = isinstance(asked, Create | SetData) and not asked.path.startswith("/zookeeper")
        if is_value and self._nulls.random() < NULLS:
            asked = replace(asked, value=None)
        super()._submit(asked)

    def _may_close(self) -> bool:
        return self.is_connected

    def _one(self, effect: object) -> None:
        match effect:
            case SendFrame():
                if self._link is not None:
                    for piece in pieces_of(self._pieces, effect.data):
                        self._link.send(self.end, piece)
            case Replays():
                self._checks.clients.replays(self, effect.ask)
            case SetAgain():
                self.log.counts["recipe.watches_set_again"] += 1
                self._checks.clients.set_again(self, effect.zxid)
            case _:
                super()._one(effect)

    # The connection.

    def _accept(self, node: "Node", link: SimLink) -> None:
        end, password = node.accept_bytes(link)
        self._ends[link] = end
        self.behind_until = 0
        self._checks.clients.connects(self, (node.server_id, end.number), password)

    def _frame(self, link: SimLink, life: int, data: bytes) -> None:
        at = max(self.behind_until, self._schedule.now)
        if self.is_working:
            at += self._random.randint(0, self._read_ms)
        if at > self._schedule.now:
            self.behind_until = at
        if not self._read_ms:
            self._read(link, life, data)
        else:
            self._schedule.after(at - self._schedule.now, lambda: self._read(link, life, data))

    def _read(self, link: SimLink, life: int, data: bytes) -> None:
        if self._waits(lambda: self._read(link, life, data)):
            return
        if life != self.life:
            return
        sent_at = self._ends[link].is_read(len(data))
        if link is self._link and self.core is not None:
            self.heard_sent_at = sent_at
            super()._frame(link, life, data)

    def _closed(self, link: SimLink, life: int) -> None:
        """Learn of the end behind the last bytes."""
        if self.behind_until > self._schedule.now and link is self._link:
            delay = self.behind_until - self._schedule.now
            self._schedule.after(delay, lambda: self._closed(link, life))
        else:
            super()._closed(link, life)

    def _becomes(self, state: ClientState) -> None:
        if state is ClientState.SUSPENDED:
            self.heard_sent_at = 0
