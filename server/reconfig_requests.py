"""Steps of the member list, as an operator asks for them, and the answers.

An operator who may start and stop servers needs no session and no ACL for it, as for a transfer of
the lead. What a step may be, is in `member_changes.py`.

Invariant: every request is answered once: at once if it is refused, when the list was said again
(docs/MEMBERS.md, M4), or when this server stops leading. Then nobody here knows the outcome, and
the operator looks at the version of the list.
"""

from raykeeper.server.context import ServerContext
from raykeeper.server.effects import ReconfigAnswered, ReconfigResult
from raykeeper.server.events import ReconfigRequested
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.txns import ReconfigErrorTxn


class ReconfigRequests:
    """The requests of operators that wait for the end of their step."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._waiting: dict[int, Zxid] = {}  # the version that each has made

    def request(self, event: ReconfigRequested, leader: LeaderRequestProcessor | None) -> None:
        """Begin the step, or answer why not; `leader` is None while this server does not lead."""
        if leader is None:
            self._answer(event.request, ReconfigResult(Code.SYSTEM_ERROR, self._who_leads()))
            return
        begun = leader.reconfig(event.op)
        if isinstance(begun, ReconfigErrorTxn):
            self._answer(event.request, ReconfigResult(begun.code, begun.detail))
        else:
            self._waiting[event.request] = begun

    def on_list_delivered(self) -> None:
        """Answer those whose list was said again."""
        said = self._context.state.members_said
        for request, version in [*self._waiting.items()]:
            if version <= said:
                del self._waiting[request]
                self._answer(request, ReconfigResult(Code.OK, "", version))

    def on_role_changed(self) -> None:
        """Answer those whose step this server does not end."""
        waiting, self._waiting = self._waiting, {}
        me = self._context.peer.settings.server_id
        reason = f"server {me} stopped leading before the step was over: look at the version"
        for request in waiting:
            self._answer(request, ReconfigResult(Code.CONNECTION_LOSS, reason))

    def _who_leads(self) -> str:
        peer = self._context.peer
        others = f"server {peer.leader} does" if peer.leader and peer.is_active else "none is known"
        return f"server {peer.settings.server_id} does not lead; {others}"

    def _answer(self, request: int, result: ReconfigResult) -> None:
        self._context.out.append(ReconfigAnswered(request, result))
