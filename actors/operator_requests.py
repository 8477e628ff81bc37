"""What operators ask the running server for by calls of its actor: another leader, other members.

Each call becomes an event with a number, and waits for the effect with that number. The server
answers every one, `server/leadership_transfer.py` and `server/reconfig_requests.py` say when.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from raykeeper.actors.replica_status import ReconfigOutcome, TransferOutcome
from raykeeper.server.effects import ReconfigAnswered, TransferAnswered
from raykeeper.server.events import Event, ReconfigRequested, TransferRequested
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig

_STOPPED = "the server was stopped"
_Outcome = TypeVar("_Outcome")


class OperatorRequests:
    """The calls that wait for an answer of the server."""

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        """`deliver` takes the events."""
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        # By number: who waits, and what it is told if the server stops.
        self._waiting: dict[int, tuple[asyncio.Future[Any], Any]] = {}

    async def transfer_leadership(
        self, to: ServerId | None, within_ms: int, lag_max: int
    ) -> TransferOutcome:
        """Have the server transfer the lead; return how that ended."""
        return await self._ask(
            lambda number: TransferRequested(number, to, within_ms, lag_max),
            if_stopped=TransferOutcome(None, False, _STOPPED),
        )

    async def reconfig(self, op: Reconfig) -> ReconfigOutcome:
        """Have the server change the member list by one step; return how that ended."""
        return await self._ask(
            lambda number: ReconfigRequested(number, op),
            if_stopped=ReconfigOutcome(Code.CONNECTION_LOSS, _STOPPED),
        )

    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Return what performs the effects that answer."""
        return {
            TransferAnswered: self._on_transfer_answered,
            ReconfigAnswered: self._on_reconfig_answered,
        }

    def end(self) -> None:
        """Answer everybody: the server was stopped."""
        for answer, if_stopped in self._waiting.values():
            _answer(answer, if_stopped)

    async def _ask(self, event_of: Callable[[int], Event], if_stopped: _Outcome) -> _Outcome:
        number = max(self._waiting, default=0) + 1
        answer: asyncio.Future[_Outcome] = self._loop.create_future()
        self._waiting[number] = answer, if_stopped
        self._deliver(event_of(number))
        return await answer

    def _on_transfer_answered(self, effect: TransferAnswered) -> None:
        result = effect.result
        outcome = TransferOutcome(result.leader, result.is_done, result.reason)
        _answer(self._waiting.pop(effect.request)[0], outcome)

    def _on_reconfig_answered(self, effect: ReconfigAnswered) -> None:
        result = effect.result
        outcome = ReconfigOutcome(int(result.code), result.reason, result.version)
        _answer(self._waiting.pop(effect.request)[0], outcome)


def _answer(asked: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not asked.done():  # the caller may have given up
        asked.set_result(outcome)
