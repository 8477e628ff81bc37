"""The search for a server with a leader, while one without serves the client read-only.

    paused ─due─> linking ─Connected─> its link takes the place of the other one
       ^             │
       └─────────────┘ it failed, was too slow, or has no leader either

Each server but the one that serves is asked for the session itself, on a second link, so nobody
is without an answer while the client moves.

ZooKeeper: `ClientCnxn.SendThread.pingRwServer`, which asks `isro` and then connects anew.
"""

from random import Random

from raykeeper.client.core.effects import CloseSearch, Effect, OpenSearch, SendSearch, TakeSearch
from raykeeper.client.core.joining import Joining
from raykeeper.client.core.rotation import Rotation
from raykeeper.zab.errors import MALFORMED
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.replies import Connected, decode_server_frame


class Search:
    """Which server is asked, and until when. It ends with the link that it found, or before."""

    def __init__(
        self,
        servers: list[ServerId],
        rng: Random,
        joining: Joining,
        timeout_ms: Millis,
        now: Millis,
    ) -> None:
        """`servers` are the others. The first one is asked when `wake` is called."""
        self.server = ServerId(0)
        """Who is asked now, or was last."""
        self.asked_at = Millis(0)
        """When Connect was sent to it."""
        self.due = now
        """When to call `wake`."""
        self._rotation = Rotation(servers, rng)
        self._joining = joining
        self._timeout_ms = timeout_ms
        self._is_linking = False

    def wake(self, now: Millis, out: list[Effect]) -> None:
        """Do what the time demands."""
        if now < self.due:
            return
        if self._is_linking:
            self._leave("it did not take the session in time", now, out)
        else:
            self._is_linking = True
            self.server = self._rotation.next()
            self.due = Millis(now + self._rotation.attempt_ms(self._timeout_ms))
            out.append(OpenSearch(self.server))

    def opened(self, last_zxid: Zxid, now: Millis, out: list[Effect]) -> None:
        """The second link is open."""
        self.asked_at = now
        out.append(SendSearch(self._joining.connect(last_zxid, read_only=False)))

    def heard(self, data: bytes, now: Millis, out: list[Effect]) -> Connected | KeeperError | None:
        """A frame came on the second link: the session, its end, or None for nothing of use."""
        if not self._is_linking:
            return None  # of the same batch as one that was of no use
        try:
            answer = decode_server_frame(data)
        except MALFORMED as error:
            self._leave(f"it sent what cannot be decoded: {error}", now, out)
            return None
        if not isinstance(answer, Connected):
            self._leave("it answered before it was connected", now, out)
            return None
        if (end := self._joining.end_by(answer)) is not None:
            return end
        if reason := self._joining.objection_to(answer, read_only=False):
            self._leave(reason, now, out)
            return None
        out.append(TakeSearch())
        return answer

    def failed(self, now: Millis) -> None:
        """The second link is lost, or was never opened."""
        self._is_linking = False
        self.due = Millis(now + self._rotation.pause_ms())

    def end(self, reason: str, out: list[Effect]) -> None:
        """Close the second link if there is one."""
        if self._is_linking:
            out.append(CloseSearch(reason))

    def _leave(self, reason: str, now: Millis, out: list[Effect]) -> None:
        self.end(reason, out)
        self.failed(now)
