"""A thread of a user's program: a generator that calls recipes, waits, and gives up.

A call is the flow that a method of a recipe returns in a simulated process. The generator receives
the result of the flow, or its error is raised. With `Within` the caller gives up as a cancelled
task does: `GaveUpError` is raised at once, and the result of the call has no receiver. A result
needs time to reach the thread, and may come too late for a caller that has given up.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from raykeeper.client.core.flows import CallInCaller
from raykeeper.client.core.scheduler import Task
from raykeeper.client.errors import KeeperError, LostError

if TYPE_CHECKING:
    from tests.simulation.recipes.process import Process

Script = Generator[Any, Any, None]
"""Yields calls, `Within` and `Pause`."""

SLOW_SHARE = 0.1
"""How many results take some time to reach their thread."""


class Pause(Struct, frozen=True):
    """A wish to do nothing for a while."""

    ms: int
    is_exact: bool = False
    """Whether it must not end at the next beat of the scenario instead: it waits for a moment."""


class Within(Struct, frozen=True):
    """A call that is given up after `patience_ms`, never if that is None."""

    call: Any
    patience_ms: int | None


class GaveUpError(Exception):
    """Raised in a script whose patience for a call is over."""


class Running:
    """A running script."""

    def __init__(self, process: "Process", script: Script) -> None:
        self.is_done = False
        self.call: _Call | None = None
        """What it waits for."""
        self._process = process
        self._script = script

    def go_on(self, value: Any, error: Exception | None) -> None:
        """Run on to the next call or pause."""
        self.call = None
        try:
            wish = self._script.send(value) if error is None else self._script.throw(error)
        except StopIteration:
            self.is_done = True
            return
        except KeeperError:
            # Once the session is about to end, every call fails so.
            assert self._process.is_leaving, "Flows: a call failed, though the session lives"
            return
        except LostError:
            assert not self._process.may_act, "Flows: what nobody took is lost"
            return
        if isinstance(wish, Pause):
            go_on = lambda: self.go_on(None, None)  # noqa: E731
            if wish.is_exact:
                self._process.after(wish.ms, go_on)
            else:
                self._process.pause(wish.ms, go_on)
            return
        if not isinstance(wish, Within):
            wish = Within(wish, None)
        call = self.call = _Call(self._process, self)
        if wish.patience_ms is not None:
            self._process.after(wish.patience_ms, call.give_up)
        call.run = self._process.flows.start(wish.call, call)


class _Call:
    """The caller of a flow for which a script waits."""

    def __init__(self, process: "Process", caller: Running) -> None:
        self.has_outcome = False
        self.run: Task | None = None
        self._process = process
        self._caller = caller
        self._is_over = False  # the script has continued

    def succeed(self, value: Any) -> None:
        self._outcome(value, None)

    def fail(self, error: Exception) -> None:
        self._outcome(None, error)

    def give_up(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        assert self.run is not None
        self.run.cancel()
        self._caller.go_on(None, GaveUpError())

    def _outcome(self, value: Any, error: Exception | None) -> None:
        assert not self.has_outcome and not self._is_over, "Flows: a call has two outcomes"
        self.has_outcome = True
        random = self._process.random
        delay_ms = random.randint(1, 30) if random.random() < SLOW_SHARE else 0
        self._process.after(delay_ms, lambda: self._deliver(value, error))

    def _deliver(self, value: Any, error: Exception | None) -> None:
        if self._is_over:
            return
        assert self.run is not None
        if isinstance(value, CallInCaller):
            self.has_outcome = False
            self.run.caller_returned(self, *value.call())
            return
        self._is_over = True
        self.run.result_taken()
        self._caller.go_on(value, error)
