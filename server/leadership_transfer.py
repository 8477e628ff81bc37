"""A transfer of the lead, as an operator asks for it: what waits meanwhile, and the answer.

While the leader hands over it prepares nothing. Requests of other servers' clients are held here,
those of its own clients in the leader outbox. If the transfer is abandoned, they are prepared in
the order in which they came. If another leader is elected, they are dropped: the servers of the
clients have every unanswered request, and send it to the new leader once they follow it.

Invariant: every request is answered once, in at most twice the time that it allows.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from raykeeper.server.context import ServerContext
from raykeeper.server.effects import TransferAnswered, TransferResult
from raykeeper.server.events import SessionsOverdue, TransferRequested
from raykeeper.server.peer_messages import (
    EndDeadSessions,
    ForwardConnect,
    ForwardWrites,
    ServerMessage,
)
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis, ServerId

_PREPARED: Final = (ForwardConnect, ForwardWrites, EndDeadSessions)
"""The messages of which a leader makes transactions."""


class HeldMessage(Struct, frozen=True):
    """A message of another server that waits for the end of a transfer."""

    sender: ServerId
    message: ServerMessage


class LeadershipTransfer:
    """The requests to transfer the lead, and what is held while this server hands over."""

    def __init__(
        self,
        context: ServerContext,
        prepare: Callable[[ServerId, ServerMessage], None],
        expire: Callable[[SessionsOverdue], None],
    ) -> None:
        """`prepare` and `expire` handle what was held, after an abandoned transfer."""
        self._context = context
        self._prepare = prepare
        self._expire = expire
        self._request: TransferRequested | None = None
        self._nominee = ServerId(0)
        self._answer_at: Millis | None = None  # while no leader is known
        self._held: list[HeldMessage | SessionsOverdue] = []
        self._held_bytes = 0

    @property
    def deadline(self) -> Millis | None:
        """When to call `wake`; None if never."""
        return self._answer_at

    @property
    def is_handing_over(self) -> bool:
        """Whether this server leads and prepares nothing more."""
        role = self._context.peer.broadcasting
        return role is not None and role.is_handing_over

    def request(self, event: TransferRequested) -> None:
        """Begin to transfer the lead, or answer why not."""
        context, peer = self._context, self._context.peer
        me = peer.settings.server_id
        if peer.broadcasting is None:
            leader = peer.leader if peer.is_active else None
            self._answer(event.request, leader, False, f"server {me} does not lead")
        elif event.to == me:
            self._answer(event.request, me, True, f"server {me} leads already")
        elif event.to in peer.settings.members.delivered.observers:
            reason = f"server {event.to} is an observer, which has no vote"
            self._answer(event.request, me, False, reason)
        else:
            now = context.now.mono
            until = Millis(now + event.within_ms)
            begun = peer.transfer_leadership(event.to, until, event.lag_max)
            if isinstance(begun, str):
                self._answer(event.request, me, False, begun)
            else:
                self._request, self._nominee = event, begun

    def hold(self, sender: ServerId, message: ServerMessage) -> bool:
        """Hold a message if it must wait; return whether it does.

        What waits has a bound: beyond it the transfer is abandoned.
        """
        if not (isinstance(message, _PREPARED) and self.is_handing_over):
            return False
        self._held.append(HeldMessage(sender, message))
        if isinstance(message, ForwardWrites):
            self._held_bytes += sum(len(each.write.op) for each in message.writes)
            if self._held_bytes > self._context.options.transfer_held_bytes_max:
                self._context.peer.abandon_transfer("too many bytes of writes wait for its end")
        return True

    def hold_overdue(self, event: SessionsOverdue) -> bool:
        """Hold proposals to expire sessions if they must wait; return whether they do."""
        if self.is_handing_over:
            self._held.append(event)
        return self.is_handing_over

    def on_abandoned(self, reason: str) -> None:
        """Go on: answer the operator, and handle what was held."""
        held, self._held, self._held_bytes = self._held, [], 0
        self._end(self._context.peer.settings.server_id, reason)
        for each in held:
            if isinstance(each, HeldMessage):
                self._prepare(each.sender, each.message)
            else:
                self._expire(each)

    def on_role_changed(self, role: Role) -> None:
        """Drop what is held when this server leads no more, and await the next leader."""
        self._held, self._held_bytes = [], 0
        # Once: elections may be vain for ever.
        if self._request is not None and self._answer_at is None and role is Role.LOOKING:
            self._answer_at = Millis(self._context.now.mono + self._request.within_ms)

    def on_activated(self) -> None:
        """Answer the operator: there is a leader."""
        leader = self._context.peer.leader
        self._end(leader, "" if leader == self._nominee else f"server {leader} was elected instead")

    def wake(self, now: Millis) -> None:
        """Answer the operator if there is no leader for too long."""
        if self._answer_at is not None and now >= self._answer_at:
            self._end(None, "no leader was elected in time")

    def _end(self, leader: ServerId | None, reason: str) -> None:
        request, self._request, self._answer_at = self._request, None, None
        if request is not None:
            self._answer(request.request, leader, not reason, reason)

    def _answer(self, request: int, leader: ServerId | None, is_done: bool, reason: str) -> None:
        result = TransferResult(leader, is_done, reason)
        self._context.out.append(TransferAnswered(request, result))
