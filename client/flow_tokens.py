"""The tokens of a flow's requests: what the client core is given back with their outcomes.

The invariant of this file: a run goes on once for each step, when all of its requests are settled.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raykeeper.client.core.effects import Answer
from raykeeper.client.core.outstanding import Ask
from raykeeper.client.errors import KeeperError

if TYPE_CHECKING:
    from raykeeper.client.flows import Host, Run, Together


class AnswerToken:
    """The token of one request of a flow."""

    __slots__ = ("_ask", "_run", "_shape")

    def __init__(self, run: "Run", ask: Ask, shape: Callable[[Answer], Any]) -> None:
        self._run = run
        self._ask = ask
        self._shape = shape

    def complete(self, answer: Answer) -> None:
        try:
            value = self._shape(answer)
        except KeeperError as error:
            self.fail(error)
            return
        self._run.go_on(value, None)

    def fail(self, error: KeeperError) -> None:
        if not self._run.asks_again(self._ask, self, error):
            self._run.go_on(None, error)

    def late(self, error: KeeperError) -> None:
        self._run.late(error)


class Batch:
    """Requests of a flow that were sent together."""

    def __init__(self, run: "Run", step: "Together") -> None:
        self._run = run
        self._step = step
        self._left = len(step.asks)
        self._outcomes: list[Any] = [None] * len(step.asks)

    def late(self, error: KeeperError) -> None:
        self._run.late(error)

    def submit(self, host: "Host") -> None:
        for place, ask in enumerate(self._step.asks):
            host.submit(ask, _Part(self, place, ask, self._step.shape))

    def asks_again(self, ask: Ask, token: object, error: KeeperError) -> bool:
        return self._run.asks_again(ask, token, error)

    def put(self, place: int, outcome: Any) -> None:
        self._outcomes[place] = outcome
        self._left -= 1
        if not self._left:
            self._run.go_on(self._outcomes, None)


class _Part:
    """The token of one of them."""

    __slots__ = ("_ask", "_batch", "_place", "_shape")

    def __init__(self, batch: Batch, place: int, ask: Ask, shape: Callable[[Answer], Any]) -> None:
        self._batch = batch
        self._place = place
        self._ask = ask
        self._shape = shape

    def complete(self, answer: Answer) -> None:
        try:
            outcome = self._shape(answer)
        except KeeperError as error:
            outcome = error
        self._batch.put(self._place, outcome)

    def fail(self, error: KeeperError) -> None:
        if not self._batch.asks_again(self._ask, self, error):
            self._batch.put(self._place, error)

    def late(self, error: KeeperError) -> None:
        self._batch.late(error)
