"""A quiet stage for recipes: pure servers and pure clients on one clock, without delays.

Nothing is random and nothing runs in parallel: `rest` carries every frame until nothing moves. So a
test can count requests and events, stop at any point, and let any time pass.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import (
    CallWatchers,
    ChangeState,
    CloseLink,
    Complete,
    Fail,
    OpenLink,
    TimedOut,
)
from raykeeper.client.core.effects import SendFrame as Send
from raykeeper.client.core.flows import CallInCaller, Event, Flow
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.core.scheduler import Scheduler, Task
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.server.context import ServerOptions
from raykeeper.server.events import ClientDisconnected, ClientFrameArrived
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.replies import encode_server_frame
from tests.harness.pure_servers import PureServer, PureServers

STEP_MS = 50
OPTIONS = ServerOptions(session_report_ms=Millis(100), container_grace_ms=Millis(0))
"""Parents go at once with their last child, and recipes must bear it."""


class Outcome:
    """The outcome of an operation that was begun."""

    def __init__(self, calls: deque[Callable[[], object]] | None = None) -> None:
        self._calls = deque() if calls is None else calls  # user callbacks, in order
        self.is_done = False
        self.error: Exception | None = None
        self._value: Any = None
        self.run: Task
        self.when_told: Callable[[], object] = lambda: None
        """Called as soon as the caller is told the outcome."""

    @property
    def value(self) -> Any:
        """Return the result of the operation, or raise its error."""
        assert self.is_done, "it is still waiting"
        if self.error is not None:
            raise self.error
        return self._value

    def succeed(self, value: Any) -> None:
        assert not self.is_done
        if isinstance(value, CallInCaller):
            self._calls.append(lambda: self.run.caller_returned(self, *value.call()))
            return
        self.is_done, self._value = True, value
        self.when_told()

    def fail(self, error: Exception) -> None:
        assert not self.is_done
        self.is_done, self.error = True, error
        self.when_told()


class RecipeStage:
    """Servers, and members that are clients of them."""

    def __init__(self, servers: int = 1) -> None:
        self.servers = PureServers(servers, options=OPTIONS)
        self.servers.leader.track()
        self.members: list[Member] = []
        self._connections = count(1)
        self.reported: list[Exception] = []
        """What failed in the background."""

    def member(
        self,
        *,
        session_timeout_ms: int = 10_000,
        server: int = 1,
        request_timeout_ms: int = 600_000,
        chroot: str = "",
    ) -> "Member":
        """Return a client with a session."""
        limits = ClientLimits(request_timeout_ms=Millis(request_timeout_ms))
        member = Member(self, Millis(session_timeout_ms), ServerId(server), limits, Chroot(chroot))
        self.members.append(member)
        self.rest()
        return member

    def rest(self) -> None:
        """Run until nothing moves."""
        while sum(member.move() for member in self.members):
            self.servers.run()

    def pass_time(self, ms: int, step_ms: int = STEP_MS) -> None:
        """Let time pass."""
        until = self.servers.clock.now + ms
        while self.servers.clock.now < until:
            self.servers.pass_time(min(step_ms, until - self.servers.clock.now))
            for member in self.members:
                member.pass_time()
            self.rest()

    def connection(self) -> int:
        """Return a number for a new link."""
        return next(self._connections)


class Member(RecipeMethods[Blocking]):
    """A client whose recipe operations return or raise, if they need no act of another client."""

    _is_awaited = False

    def __init__(
        self,
        stage: RecipeStage,
        session_timeout_ms: Millis,
        server: ServerId,
        limits: ClientLimits,
        chroot: Chroot,
    ) -> None:
        self.stage = stage
        self.asked: Counter[str] = Counter()
        """How many requests of each kind were made."""
        self.events = 0
        """How many times a bell was rung by a watch."""
        self.called: list[tuple[Any, ...]] = []
        self.flows = Scheduler(self)
        self._clock = stage.servers.clock
        self._host: PureServer | None = None
        self._server = server
        self._connection = 0
        self._taken = 0
        self._timers: dict[int, tuple[Millis, Callable[[], None]]] = {}
        self._numbers: Iterator[int] = count()
        self._begun: Outcome | None = None
        self._calls: deque[Callable[[], object]] = deque()  # user callbacks, in order
        self._is_frozen = False
        self._is_dead = False
        self._is_carrying_out = False
        self._is_cut = False
        rng = Random(len(stage.members))
        password = rng.randbytes(16)
        options: dict[str, Any] = {"chroot": chroot, "learns_servers": False}
        self.core = ClientCore(password, session_timeout_ms, [server], rng, limits, **options)
        self.core.start(self.now())

    # What a recipe needs.

    def _run_flow(self, flow: Flow[Any], name: str) -> Any:
        begun, self._begun = self._begun, None  # a callback may run another one
        outcome = begun or Outcome(self._calls)
        outcome.run = self.flows.start(flow, outcome)
        self.stage.rest()
        if outcome is begun:
            return outcome
        if outcome.is_done:
            outcome.run.result_taken()
        assert outcome.is_done, f"{name} would wait"
        return outcome.value

    def begin(self, operation: Callable[..., Any], *args: Any, **options: Any) -> Outcome:
        """Begin an operation that may have to wait."""
        return self.begin_for(Outcome(self._calls), operation, *args, **options)

    def begin_for(
        self, outcome: Outcome, operation: Callable[..., Any], *args: Any, **options: Any
    ) -> Outcome:
        """Begin an operation with this outcome."""
        self._begun = outcome
        try:
            operation(*args, **options)
        finally:
            self._begun = None
        return outcome

    def do(self, flow: Flow[Any]) -> Any:
        """Run a flow."""
        return self._run_flow(flow, "the flow")

    def ask(self, ask: NewRequest) -> Any:
        """Send one request and return its reply."""

        def once() -> Flow[Any]:
            return (yield ask)

        return self.do(once())

    def _is_lost(self) -> bool:
        return self.core.is_lost(self.now())

    # The scheduler of its flows.

    def submit(self, ask: NewRequest, token: Any) -> None:
        kind = ask.kind.__name__ if isinstance(ask, Query) else type(ask).__name__
        self.asked[kind] += 1
        self.core.submit(ask, token, self.now())

    def now(self) -> Millis:
        return self._clock.now

    _now = now

    def _identity(self) -> bytes:
        return b""

    def call_at(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        number = next(self._numbers)
        self._timers[number] = (at, wake)
        return lambda: (self._timers.pop(number, None), None)[1]

    def call_user(self, callback: Callable[..., object], *arguments: Any) -> None:
        # Later, as in a client: a callback may run flows, and no flow runs inside another.
        self._calls.append(lambda: callback(*arguments))

    def report(self, error: Exception) -> None:
        self.stage.reported.append(error)

    # What a test does to the member.

    def close(self) -> None:
        """End the session."""
        self.core.close(self.now())
        self.stage.rest()

    def die(self) -> None:
        """Kill the process; its session ends by its timeout."""
        self._is_dead = True
        self.cut()

    def freeze(self) -> None:
        """Freeze the process; its link stays up."""
        self._is_frozen = True

    def thaw(self) -> None:
        """Thaw the process."""
        self._is_frozen = False
        self.stage.rest()

    def cut(self) -> None:
        """Break the link; there is no new one before `mend`."""
        self._is_cut = True
        if self._host is not None:
            host, self._host = self._host, None
            host.step(ClientDisconnected(self._connection))
            if not self._is_dead:
                self.core.link_failed("cut by the test", self.now())
        self.stage.servers.run()
        self.stage.rest()

    def mend(self, step_ms: int = STEP_MS) -> None:
        """Allow links again."""
        self._is_cut = False
        self.stage.pass_time(2_000, step_ms)

    def pass_time(self) -> None:
        """Run the timers that are due after the clock has moved."""
        if self._is_dead or self._is_frozen:
            return
        due = self.core.deadline()
        if due is not None and due <= self.now():
            self.core.wake(self.now())
        for number, (at, wake) in sorted(self._timers.items()):
            if at <= self.now() and self._timers.pop(number, None):
                wake()

    def move(self) -> bool:
        """Take arrived frames and carry out pending work; return whether there was any."""
        if self._is_dead or self._is_frozen or self._is_carrying_out:
            return False  # the running call also carries out the new effects, in order
        moved = self._carry_out()
        while self._calls:
            moved = True
            self._calls.popleft()()
        return moved

    def _carry_out(self) -> bool:
        self._is_carrying_out = True
        moved = self._take()
        self.core.flush(self.now())
        while self.core.out:
            moved = True
            effects, self.core.out[:] = list(self.core.out), []
            for effect in effects:
                self._one(effect)
            self.core.flush(self.now())
        self._is_carrying_out = False
        return moved

    def _take(self) -> bool:
        host = self._host
        if host is None:
            return False
        frames = host.frames.get(self._connection, [])
        new = frames[self._taken :]
        self._taken = len(frames)
        for frame in new:
            self.core.frame(encode_server_frame(frame), self.now())
        if self._connection in host.closed and self._host is not None:
            self._host = None
            self.core.link_failed("the server closed it", self.now())
            return True
        return bool(new)

    def _one(self, effect: object) -> None:
        match effect:
            case Complete():
                effect.token.complete(effect.reply)  # type: ignore[attr-defined]
            case Fail():
                effect.token.fail(effect.error)  # type: ignore[attr-defined]
            case TimedOut():
                effect.token.late(effect.error)  # type: ignore[attr-defined]
            case CallWatchers():
                for watcher in effect.watchers:
                    assert isinstance(watcher, Event)
                    self.events += 1
                    watcher.set(effect.event)
            case Send():
                if self._host is not None:
                    frame = ClientFrameArrived(self._connection, effect.data, "10.0.0.1")
                    self._host.step(frame)
            case OpenLink():
                if self._is_cut or self._server not in self.stage.servers.hosts:
                    self.core.link_failed("cut by the test", self.now())
                    return
                self._host = self.stage.servers[effect.server]
                self._connection, self._taken = self.stage.connection(), 0
                self.core.link_opened(self.now())
            case CloseLink():
                if self._host is not None:
                    host, self._host = self._host, None
                    host.step(ClientDisconnected(self._connection))
            case ChangeState():
                if effect.state is ClientState.LOST:
                    self.flows.session_ended(self.core.end_error())
                elif effect.state is ClientState.CONNECTED:
                    self.flows.connected(read_only=False)
                else:
                    self.flows.disconnected()
            case _:
                raise AssertionError(effect)
