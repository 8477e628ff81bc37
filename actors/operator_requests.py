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

_Outcome = TypeVar("_Outcome")


class OperatorRequests:
    """The calls that wait for an answer of the server."""

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        """`deliver` takes the events."""
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._transfers: dict[int, asyncio.Future[TransferOutcome]] = {}
        self._reconfigs: dict[int, asyncio.Future[ReconfigOutcome]] = {}

    async def transfer_leadership(
        self, to: ServerId | None, within_ms: int, lag_max: int
    ) -> TransferOutcome:
        """Have the server transfer the lead; return how that ended."""
        number = max(self._transfers, default=0) + 1
        answer: asyncio.Future[TransferOutcome] = self._loop.create_future()
        self._transfers[number] = answer
        self._deliver(TransferRequested(number, to, within_ms, lag_max))
        return await answer

    async def reconfig(self, op: Reconfig) -> ReconfigOutcome:
        """Have the server change the member list by one step; return how that ended."""
        number = max(self._reconfigs, default=0) + 1
        answer: asyncio.Future[ReconfigOutcome] = self._loop.create_future()
        self._reconfigs[number] = answer
        self._deliver(ReconfigRequested(number, op))
        return await answer

    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Return what performs the effects that answer."""
        return {
            TransferAnswered: self._on_transfer_answered,
            ReconfigAnswered: self._on_reconfig_answered,
        }

    def end(self) -> None:
        """Answer everybody: the server was stopped."""
        reason = "the server was stopped"
        for transfer in self._transfers.values():
            _answer(transfer, TransferOutcome(None, False, reason))
        for reconfig in self._reconfigs.values():
            _answer(reconfig, ReconfigOutcome(Code.CONNECTION_LOSS, reason))

    def _on_transfer_answered(self, effect: TransferAnswered) -> None:
        result = effect.result
        outcome = TransferOutcome(result.leader, result.is_done, result.reason)
        _answer(self._transfers.pop(effect.request), outcome)

    def _on_reconfig_answered(self, effect: ReconfigAnswered) -> None:
        result = effect.result
        outcome = ReconfigOutcome(int(result.code), result.reason, result.version)
        _answer(self._reconfigs.pop(effect.request), outcome)


def _answer(asked: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not asked.done():  # the caller may have given up
        asked.set_result(outcome)
