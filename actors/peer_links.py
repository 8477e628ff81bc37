"""One link to each other server: dialed by the higher id, accepted by the lower, kept up for ever.

ZooKeeper: `QuorumCnxManager`, where the higher id keeps its connection too. The dialing end of a
Ray-call link sends large batches more cheaply, and a leader is often the server with the highest
id. A server that was started anew dials at once, which ends its old links before any deadline.

Invariants: of each server there is at most one link, to its newest incarnation (rule D1); the core
hears LinkUp before the first frame of a link, LinkDown after the last, and of no other link in
between.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from raykeeper.links.contract import Dialer, Link, LinkError, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.limits import FRAME_BYTES_MAX
from raykeeper.server.events import Event, LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ServerId

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
FRAME_BYTES_TARGET: Final = FRAME_BYTES_MAX // 4
"""No larger frame is sent unless a single message is. One over the bound would break the link, and
so would its repeat on the next one."""
LINKED: Final = "linked"


class PeerLinks:
    """The links of server `server_id` to `others`."""

    def __init__(
        self,
        server_id: ServerId,
        others: list[ServerId],
        fence: Fence,
        deliver: Callable[[Event], None],
        log: Callable[..., None],
    ) -> None:
        """`deliver` takes the events, `log` a name and fields for a log line."""
        self.states: dict[ServerId, str] = dict.fromkeys(others, "not linked yet")
        """Of each other server: `LINKED`, or why it is not."""
        self._server_id = server_id
        self._fence = fence
        self._deliver = deliver
        self._log = log
        self._ends: dict[ServerId, _PeerLinkEvents] = {}
        self._dialing: list[asyncio.Task[None]] = []

    def start(self, dialer: Dialer) -> None:
        """Begin to dial the servers with a lower id."""
        loop = asyncio.get_running_loop()
        for peer in self.states:
            if peer < self._server_id:
                self._dialing.append(loop.create_task(self._keep_dialing(dialer, peer)))

    def carriers(self) -> dict[ServerId, str]:
        """What carries the link to each server that is linked."""
        return {peer: end.link.carrier for peer, end in sorted(self._ends.items())}

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        """Take the link of a server with a higher id, in the place of an older one.

        Raises:
            LinkRefused: it is no server that dials us, or was fenced.
        """
        peer = hello.server_id
        if peer not in self.states or peer < self._server_id:
            raise LinkRefused(f"server {self._server_id} expects no link from server {peer}")
        objection = self._fence.refusal_reason(peer, hello.incarnation)
        if objection:
            raise LinkRefused(objection)
        end = _PeerLinkEvents(self, peer)
        end.link = link
        self._register(end)
        return end

    def send(self, peer: ServerId, messages: list[PeerMessage]) -> None:
        """Send messages in one frame, or more if it grew too large; without a link drop them."""
        end = self._ends.get(peer)
        if end is None:
            return
        frame = encode_peer_frame(messages)
        if len(frame) > FRAME_BYTES_TARGET and len(messages) > 1:
            half = len(messages) // 2
            self.send(peer, messages[:half])
            self.send(peer, messages[half:])
        else:
            end.link.send_last(frame)

    def break_link(self, peer: ServerId, reason: str) -> None:
        """Drop the link, as the core has decided and so need not be told."""
        end = self._ends.pop(peer, None)
        if end is not None:
            self._record_down(end, reason)
            end.link.close(reason)

    def close(self, reason: str) -> None:
        """Drop all links and open no more."""
        for task in self._dialing:
            task.cancel()
        for peer in list(self._ends):
            self.break_link(peer, reason)

    def on_frames(self, end: "_PeerLinkEvents", frames: list[bytes]) -> None:
        """Frames of a link; for `_PeerLinkEvents`."""
        for frame in frames:
            if self._ends.get(end.peer) is not end:
                return
            try:
                messages = decode_peer_frame(frame)
            except DECODE_ERRORS as error:
                self.break_link(end.peer, f"malformed frame: {error}")
                self._deliver(LinkDown(end.peer))
                return
            self._deliver(PeerFrame(end.peer, messages))

    def on_closed(self, end: "_PeerLinkEvents", reason: str) -> None:
        """A link is gone; for `_PeerLinkEvents`."""
        if self._ends.get(end.peer) is end:
            del self._ends[end.peer]
            self._record_down(end, reason)
            self._deliver(LinkDown(end.peer))

    async def _keep_dialing(self, dialer: Dialer, peer: ServerId) -> None:
        pause_s = PAUSE_S_MIN
        while True:
            end = _PeerLinkEvents(self, peer)
            try:
                end.link = await dialer.dial(peer, end)
            except LinkError as error:
                self.states[peer] = str(error)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            else:
                pause_s = PAUSE_S_MIN
                self._register(end)
                await end.down.wait()
            await asyncio.sleep(pause_s)

    def _register(self, end: "_PeerLinkEvents") -> None:
        peer = end.peer
        older = self._ends.pop(peer, None)
        if older is not None:
            self._record_down(older, "a newer link came")
            older.link.close("a newer link came")
            self._deliver(LinkDown(peer))
        self._ends[peer] = end
        self.states[peer] = LINKED
        self._log("link.up", peer=peer, incarnation=end.link.incarnation, carrier=end.link.carrier)
        self._deliver(LinkUp(peer))

    def _record_down(self, end: "_PeerLinkEvents", reason: str) -> None:
        self.states[end.peer] = reason
        self._log("link.down", peer=end.peer, reason=reason)
        end.down.set()


class _PeerLinkEvents:
    """Our end of one link."""

    __slots__ = ("_links", "down", "link", "peer")

    link: Link

    def __init__(self, links: PeerLinks, peer: ServerId) -> None:
        self.peer = peer
        self.down = asyncio.Event()
        self._links = links

    def frames(self, frames: list[bytes]) -> None:
        self._links.on_frames(self, frames)

    def closed(self, reason: str) -> None:
        self._links.on_closed(self, reason)
