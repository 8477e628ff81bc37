"""The tokens of a flow's requests: what the client core is given back with their outcomes.

The invariant of this file: a run goes on once for each step, when all of its requests are settled.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.errors import KeeperError

if TYPE_CHECKING:
    from raykeeper.client.flows import Gather, SchedulerHost, Task


class RequestOutcomeToken:
    """The token of one request of a flow."""

    __slots__ = ("_ask", "_shape", "_task")

    def __init__(self, run: "Task", ask: NewRequest, shape: Callable[[SuccessReply], Any]) -> None:
        self._task = run
        self._ask = ask
        self._shape = shape

    def complete(self, answer: SuccessReply) -> None:
        try:
            value = self._shape(answer)
        except KeeperError as error:
            self.fail(error)
            return
        self._task.resume(value, None)

    def fail(self, error: KeeperError) -> None:
        if not self._task.resubmit_later(self._ask, self, error):
            self._task.resume(None, error)

    def late(self, error: KeeperError) -> None:
        self._task.request_timed_out(error)


class GatherToken:
    """Requests of a flow that were sent together."""

    def __init__(self, run: "Task", step: "Gather") -> None:
        self._task = run
        self._step = step
        self._left = len(step.requests)
        self._outcomes: list[Any] = [None] * len(step.requests)

    def late(self, error: KeeperError) -> None:
        self._task.request_timed_out(error)

    def submit(self, host: "SchedulerHost") -> None:
        for place, ask in enumerate(self._step.requests):
            host.submit(ask, _Part(self, place, ask, self._step.to_result))

    def asks_again(self, ask: NewRequest, token: object, error: KeeperError) -> bool:
        return self._task.resubmit_later(ask, token, error)

    def put(self, place: int, outcome: Any) -> None:
        self._outcomes[place] = outcome
        self._left -= 1
        if not self._left:
            self._task.resume(self._outcomes, None)


class _Part:
    """The token of one of them."""

    __slots__ = ("_ask", "_batch", "_place", "_shape")

    def __init__(
        self, batch: GatherToken, place: int, ask: NewRequest, shape: Callable[[SuccessReply], Any]
    ) -> None:
        self._batch = batch
        self._place = place
        self._ask = ask
        self._shape = shape

    def complete(self, answer: SuccessReply) -> None:
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
