"""Transfers of the lead: nothing is proposed meanwhile, the nominee has all, each is answered."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from raykeeper.server.effects import TransferAnswered, TransferResult
from raykeeper.server.events import TransferRequested
from raykeeper.server.server import Server
from raykeeper.zab.effects import Append, TraceEvent
from raykeeper.zab.ids import Millis, ServerId, format_zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.trace_events import TRANSFER_HANDED_OVER

if TYPE_CHECKING:
    from tests.simulation.node import Node


class Transfers:
    """The transfers of one process: what was asked of it, and what was answered."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._asked: dict[int, TransferRequested] = {}
        self._answers: dict[int, TransferResult] = {}
        self._until = Millis(0)

    def asks(self, to: ServerId | None, within_ms: int) -> TransferRequested:
        """Return the event of another request."""
        number = len(self._asked) + 1
        self._asked[number] = TransferRequested(number, to, within_ms, 1_000)
        return self._asked[number]

    def begins(self, request: TransferRequested, now: Millis) -> None:
        """Note when the process takes a request; it may refuse it, because one is under way."""
        self._until = max(self._until, Millis(now + request.within_ms))

    def ends_in_time(self, server: Server, now: Millis) -> None:
        """Check after a step that no transfer goes on that should have been abandoned."""
        if handing_over(server) is not None:
            assert now < self._until, f"HandOver: it goes on {now - self._until} ms too long"

    def answer_to(self, request: TransferRequested) -> TransferResult | None:
        """Return the answer to a request of this process, if it came."""
        return self._answers.get(request.request)

    def answered(self, node: "Node", effect: TransferAnswered) -> None:
        """Check and record an answer."""
        assert effect.request not in self._answers, f"Transfer: answered twice: {effect}"
        result, request = effect.result, self._asked[effect.request]
        self._answers[effect.request] = result
        if result.is_done:
            assert node.server is not None
            assert request.to in (None, result.leader), f"Transfer: {request} was not {result}"
            assert node.server.peer.leader == result.leader, f"Transfer: {result} is not so"
        self._counts["transfer.done" if result.is_done else "transfer.not_done"] += 1

    def all_answered(self, server_id: ServerId) -> None:
        """Check at rest that no request waits for an answer."""
        open_ = self._asked.keys() - self._answers.keys()
        assert not open_, f"Transfer: server {server_id} does not answer {sorted(open_)}"


def handing_over(server: Server) -> LeaderBroadcast | None:
    """Return the role of a server that may propose nothing more."""
    role = server.peer.broadcasting
    transfer = None if role is None else role._transfer
    return role if transfer is not None and transfer.is_handing_over else None


def proposes_nothing(
    node: "Node", before: LeaderBroadcast | None, effects: Iterable[object]
) -> None:
    """Check that a leader that was handing over before a step, and still is, proposed nothing."""
    assert node.server is not None
    if before is not None and handing_over(node.server) is before:
        appended = [effect for effect in effects if isinstance(effect, Append)]
        assert not appended, f"HandOver: server {node.server_id} proposes {appended[0].first}"


def nominee_has_all(node: "Node", nodes: Iterable["Node"], note: TraceEvent) -> None:
    """Check, as a leader hands over, that the nominee's disk has all that the leader logged."""
    if note.name != TRANSFER_HANDED_OVER:
        return
    assert node.server is not None
    nominee, _ = note.detail
    logged = node.server.peer.history.logged
    for other in nodes:
        if other.server_id != nominee or other.server is None:
            continue
        peer, epoch = other.server.peer, node.server.peer.epoch
        if peer.leader == node.server_id and peer.is_active and peer.epoch == epoch:
            assert peer.history.synced >= logged, (
                f"HandOver: server {nominee} has {format_zxid(peer.history.synced)} "
                f"of {format_zxid(logged)}"
            )
