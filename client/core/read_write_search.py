"""The search for a server with a leader, while a server without one serves the client read-only.

    paused ─due─> linking ─Connected─> the second link takes the place of the first
       ^             │
       └─────────────┘ the server failed, was too slow, or has no leader either

The search asks every other server for the session itself, on a second link, so the first one goes
on answering until the client moves.

ZooKeeper: `ClientCnxn.SendThread.pingRwServer`, which asks `isro` and then connects anew.
"""

from random import Random

from raykeeper.client.core.effects import (
    CloseSearchLink,
    Effect,
    OpenSearchLink,
    PromoteSearchLink,
    SendSearchFrame,
)
from raykeeper.client.core.host_provider import HostProvider
from raykeeper.client.core.session_handshake import SessionHandshake
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.replies import ConnectReply, decode_server_frame


class ReadWriteSearch:
    """The second link and its deadline. The search ends when that link is promoted, or before."""

    def __init__(
        self,
        servers: list[ServerId],
        rng: Random,
        joining: SessionHandshake,
        timeout_ms: Millis,
        now: Millis,
    ) -> None:
        """`servers` are the other servers. `wake` asks the first one."""
        self.server = ServerId(0)
        """The server that is asked now, or was asked last."""
        self.connect_sent_at = Millis(0)
        """When Connect was sent to that server."""
        self.due_at = now
        """The time at which to call `wake`."""
        self._rotation = HostProvider(servers, rng)
        self._joining = joining
        self._timeout_ms = timeout_ms
        self._has_link = False

    def set_servers(self, servers: list[ServerId]) -> None:
        """Ask these servers from now on."""
        self._rotation.set_servers(servers)

    def wake(self, now: Millis, out: list[Effect]) -> None:
        """Act on deadlines that have passed."""
        if now < self.due_at:
            return
        if self._has_link:
            self._give_up_link("it did not take the session in time", now, out)
        else:
            self._has_link = True
            self.server = self._rotation.next_server()
            self.due_at = Millis(now + self._rotation.connect_timeout_ms(self._timeout_ms))
            out.append(OpenSearchLink(self.server))

    def on_opened(self, last_zxid: Zxid, now: Millis, out: list[Effect]) -> None:
        """The second link is open."""
        self.connect_sent_at = now
        out.append(SendSearchFrame(self._joining.encode_connect(last_zxid, read_only=False)))

    def on_frame(
        self, data: bytes, now: Millis, out: list[Effect]
    ) -> ConnectReply | KeeperError | None:
        """Take a frame of the second link. Return the session, its end, or None for neither."""
        if not self._has_link:
            return None  # of the same batch as a frame that ended the link
        try:
            answer = decode_server_frame(data)
        except DECODE_ERRORS as error:
            self._give_up_link(f"it sent a frame that cannot be decoded: {error}", now, out)
            return None
        if not isinstance(answer, ConnectReply):
            self._give_up_link("it answered before it was connected", now, out)
            return None
        if (end := self._joining.session_error(answer)) is not None:
            return end
        if reason := self._joining.refusal_reason(answer, read_only=False):
            self._give_up_link(reason, now, out)
            return None
        out.append(PromoteSearchLink())
        return answer

    def on_failed(self, now: Millis) -> None:
        """The second link is lost, or could not be opened."""
        self._has_link = False
        self.due_at = Millis(now + self._rotation.backoff_ms())

    def end(self, reason: str, out: list[Effect]) -> None:
        """Close the second link if there is one."""
        if self._has_link:
            out.append(CloseSearchLink(reason))

    def _give_up_link(self, reason: str, now: Millis, out: list[Effect]) -> None:
        self.end(reason, out)
        self.on_failed(now)
