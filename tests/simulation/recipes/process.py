"""One process of a member: the real flows on the real client core, in virtual time.

It is the client of the recipes (`process.lock(path)`), and the scheduler of their flows. When it is
killed, nothing of it continues; when its session ends, all its flows must end.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.flows import Flow
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.core.scheduler import Scheduler
from raykeeper.client.errors import KeeperError
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis
from tests.simulation.recipes.script import Running, Script

if TYPE_CHECKING:
    from tests.simulation.recipes.member import Member


class Process(RecipeMethods[Blocking]):
    """The recipes of one session, and the scripts that use them."""

    _is_awaited = False

    def __init__(self, member: "Member", core: ClientCore, random: Random) -> None:
        self.member = member
        self.name = f"{member.name}.{member.life}"
        self.core = core
        self.random = random
        self.flows = Scheduler(self)
        self.scripts: list[Running] = []
        self.is_over = False
        """It was killed, or its session has ended."""
        self.is_leaving = False
        """It closes its session."""
        self.is_killed = False
        self.timers = 0
        """How many alarms its flows have set."""
        self._life = member.life
        self._is_seen = False

    def begin(self, scripts: list[Script]) -> None:
        """Run the scripts concurrently, from now on."""
        self.scripts = [Running(self, script) for script in scripts]
        for script in self.scripts:
            script.go_on(None, None)

    @property
    def is_done(self) -> bool:
        """Return whether its session lives and all its scripts have ended."""
        return not self.is_over and all(script.is_done for script in self.scripts)

    @property
    def may_act(self) -> bool:
        """Return whether it would find, by its own clock, that its session lives."""
        core = self.core
        return not (
            self.is_killed
            or core.state is ClientState.LOST
            or core._close_by is not None
            or core._was_reported_lost
            or core._deadlines.is_expired(self.now())
        )

    @contextmanager
    def seen_from_outside(self) -> Iterator[None]:
        """Mark questions in this block as an observer's: the process's own make the core let go."""
        self._is_seen = True
        try:
            yield
        finally:
            self._is_seen = False

    def ended(self) -> None:
        """Handle the end of the session."""
        self.is_over = True
        self.flows.session_ended(self.core.end_error())

    def all_have_ended(self) -> None:
        """Check, after the end was carried out, that no flow or script waits any more."""
        assert not self.flows._waiting_tasks, f"Flows: {self.name} outlives its session"
        for script in self.scripts:
            call = script.call
            assert call is None or call.has_outcome, f"Flows: {self.name} is told nothing"

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something in this process later, if it still exists and runs."""
        self.member.plan(delay_ms, lambda: None if self.is_over else action(), self._life)

    def pause(self, ms: int, action: Callable[[], None]) -> None:
        """Do something later, at the beat of the scenario."""
        self.after(self.member.scenario.pause_ms(ms), action)

    # The client that recipes need.

    def _run_flow(self, flow: Flow[Any], name: str) -> Any:
        """Return a call, for a script to yield."""
        return flow

    def _is_lost(self) -> bool:
        """Return whether the session is over, or may be by now."""
        if self._is_seen:
            return not self.may_act
        return self.core.is_lost(self.now())

    # The scheduler of its flows.

    def submit(self, ask: NewRequest, token: Any) -> None:
        """Submit a request."""
        self.member.ask(ask, token)

    def now(self) -> Millis:
        """Return the time of this machine."""
        return self.member.clock.mono()

    _now = now

    def _identity(self) -> bytes:
        return b""

    def call_at(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` at that time; return a function that cancels it."""
        alarm = [wake]
        self.timers += 1

        def ring() -> None:
            if alarm:
                cancel()
                wake()

        def cancel() -> None:
            if alarm:
                alarm.clear()
                self.timers -= 1

        self.after(self.member.clock.delay_until(at), ring)
        return cancel

    def call_user(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call a callback, in order. If it calls a recipe, that is a flow, which runs."""

        def call() -> None:
            returned = callback(*arguments)
            if isinstance(returned, Generator):
                self.flows.start(returned)

        self.after(0, call)

    def report(self, error: Exception) -> None:
        """Check that an operation without a waiter fails only because the session ends."""
        if isinstance(error, KeeperError) and self.is_leaving:
            return
        words = f"{type(error).__name__}: {error}" if isinstance(error, RayKeeperError) else ""
        raise AssertionError(f"Flows: {self.name} fails in the background: {words}") from error
