"""The links of one running server to the others of its ensemble, which may come and go.

Of two servers the one with the higher id dials, the one with the lower id accepts, and the link is
kept up as long as the member list has both. In ZooKeeper's `QuorumCnxManager` the higher id keeps
its connection, too. The dialing end of a Ray-call link sends large batches more cheaply, and a
leader is often the server with the highest id. A server that was restarted dials at once, which
ends its old links before any deadline.

Two servers may have different lists, so the lists of the two do not decide alone who dials:

- A server that is in no list of its own dials everybody in it: a newcomer, which nobody dials yet.
- Any other dials a server with a higher id too, if that has not dialed for `PATIENCE_S`: it may
  know a newer list, without this server or without its own, and would never dial.
- A server accepts any higher id, and a lower one that its own list lacks. Another lower one it
  dials itself. So two that dial each other are both accepted only while their lists change; then
  the link that the higher id dialed stays.

What a server outside of every list sends is harmless: it counts nowhere. A server that leaves the
list keeps its link until that breaks, for by it the server learns that it was removed.

Invariant: to each other server there is at most one link, to its newest incarnation (rule D1); the
core receives LinkUp before the first frame of a link, LinkDown after the last, and nothing of
another link in between.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from raykeeper.links.contract import Dialer, Link, LinkError, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.limits import FRAME_BYTES_MAX
from raykeeper.server.events import Event, LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import SERVER_ID_MAX, ServerId

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
PATIENCE_S: Final = 5.0
"""How long a server waits for one with a higher id to dial, each time before it dials itself."""
FRAME_BYTES_TARGET: Final = FRAME_BYTES_MAX // 4
"""No larger frame is sent unless it holds a single message. A frame over the bound would break the
link, and so would its repeat on the next link."""
LINKED: Final = "linked"


class PeerLinks:
    """The links of server `server_id` to other servers."""

    def __init__(
        self,
        server_id: ServerId,
        fence: Fence,
        deliver: Callable[[Event], None],
        log: Callable[..., None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`deliver` takes the events, `log` a name and fields for a log line."""
        self.states: dict[ServerId, str] = {}
        """For each other server of the lists, and each that is linked: `LINKED`, or why there is
        no link."""
        self._server_id = server_id
        self._servers: dict[ServerId, None] = {}
        self._is_listed = False
        self._fence = fence
        self._deliver = deliver
        self._log = log
        self._patience_s = patience_s
        self._links: dict[ServerId, _PeerLink] = {}
        self._dialer: Dialer | None = None
        self._dialing: dict[ServerId, asyncio.Task[None]] = {}

    def start(self, dialer: Dialer) -> None:
        """Begin to dial the servers of the lists."""
        self._dialer = dialer
        self._begin_to_dial()

    def set_servers(self, servers: Iterable[ServerId]) -> None:
        """Keep links with these servers from now on, which are those of all lists that count.

        This server is among them if a list has it.
        """
        self._servers = dict.fromkeys(servers)
        self._is_listed = self._server_id in self._servers
        self._servers.pop(self._server_id, None)
        for peer in [*self.states]:
            if peer not in self._servers and peer not in self._links:
                del self.states[peer]
        for peer in self._servers:
            self.states.setdefault(peer, "not linked yet")
        self._begin_to_dial()

    def carriers(self) -> dict[ServerId, str]:
        """Return what carries the link to each linked server."""
        return {peer: entry.link.carrier for peer, entry in sorted(self._links.items())}

    def incarnations(self) -> dict[ServerId, int]:
        """Return the newest incarnation seen of each other server; a lower one is refused."""
        return self._fence.newest()

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        """Take the link of a server with a higher id, in the place of an older one.

        Also of one with a lower id that no list has here: then this server does not dial it.

        Raises:
            LinkRefused: the dialer is dialed by this server, was fenced, or is this server.
        """
        peer, me = hello.server_id, self._server_id
        if peer == me or not 1 <= peer <= SERVER_ID_MAX:
            raise LinkRefused(f"server {me} takes no link of a server {peer}")
        if peer < me and peer in self._servers:
            raise LinkRefused(f"server {me} dials server {peer}, and expects no link from it")
        if reason := self._fence.refusal_reason(peer, hello.incarnation):
            raise LinkRefused(reason)
        entry = _PeerLink(self, peer)
        entry.link = link
        self._register(entry)
        return entry

    def send(self, peer: ServerId, messages: list[PeerMessage]) -> None:
        """Send messages in one frame, or more if it grew too large; without a link drop them."""
        entry = self._links.get(peer)
        if entry is None:
            return
        frame = encode_peer_frame(messages)
        if len(frame) > FRAME_BYTES_TARGET and len(messages) > 1:
            half = len(messages) // 2
            self.send(peer, messages[:half])
            self.send(peer, messages[half:])
        else:
            entry.link.send_last(frame)

    def break_link(self, peer: ServerId, reason: str) -> None:
        """Drop the link without an event, as the core has decided it."""
        entry = self._links.pop(peer, None)
        if entry is not None:
            self._record_down(entry, reason)
            entry.link.close(reason)

    def close(self, reason: str) -> None:
        """Drop all links and open no more."""
        for task in self._dialing.values():
            task.cancel()
        self._dialer = None
        for peer in list(self._links):
            self.break_link(peer, reason)

    def on_frames(self, entry: "_PeerLink", frames: list[bytes]) -> None:
        """Deliver frames of a link; for `_PeerLink`."""
        for frame in frames:
            if self._links.get(entry.peer) is not entry:
                return
            try:
                messages = decode_peer_frame(frame)
            except DECODE_ERRORS as error:
                self.break_link(entry.peer, f"malformed frame: {error}")
                self._deliver(LinkDown(entry.peer))
                return
            self._deliver(PeerFrame(entry.peer, messages))

    def on_closed(self, entry: "_PeerLink", reason: str) -> None:
        """Record that a link is gone; for `_PeerLink`."""
        if self._links.get(entry.peer) is entry:
            del self._links[entry.peer]
            self._record_down(entry, reason)
            self._deliver(LinkDown(entry.peer))

    def _begin_to_dial(self) -> None:
        if self._dialer is None:
            return
        loop = asyncio.get_running_loop()
        for peer in self._servers:
            if peer not in self._dialing:
                task = loop.create_task(self._keep_dialing(self._dialer, peer))
                self._dialing[peer] = task

    async def _keep_dialing(self, dialer: Dialer, peer: ServerId) -> None:
        """Dial a server whenever there is no link to it, as long as a list has it."""
        pause_s = PAUSE_S_MIN
        if not self._is_ours_to_dial(peer):
            await asyncio.sleep(self._patience_s)
        while peer in self._servers:
            if (linked := self._links.get(peer)) is not None:
                await linked.down.wait()
                pause_s = PAUSE_S_MIN
            elif await self._dial(dialer, peer):
                continue
            else:
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            await asyncio.sleep(pause_s if self._is_ours_to_dial(peer) else self._patience_s)
        del self._dialing[peer]

    def _is_ours_to_dial(self, peer: ServerId) -> bool:
        return peer < self._server_id or not self._is_listed

    async def _dial(self, dialer: Dialer, peer: ServerId) -> bool:
        """Dial a server once; return whether it is linked."""
        entry = _PeerLink(self, peer)
        try:
            entry.link = await dialer.dial(peer, entry)
        except LinkError as error:
            if self.states.get(peer, LINKED) != LINKED:
                self.states[peer] = str(error)
            return peer in self._links
        if peer > self._server_id and peer in self._links:
            # It has dialed meanwhile. Both ends must give way to the same link of the two.
            entry.link.close("the server with the higher id has dialed")
        else:
            self._register(entry)
        return True

    def _register(self, entry: "_PeerLink") -> None:
        peer = entry.peer
        older = self._links.pop(peer, None)
        if older is not None:
            self._record_down(older, "a newer link came")
            older.link.close("a newer link came")
            self._deliver(LinkDown(peer))
        self._links[peer] = entry
        self.states[peer] = LINKED
        link = entry.link
        self._log("link.up", peer=peer, incarnation=link.incarnation, carrier=link.carrier)
        self._deliver(LinkUp(peer))

    def _record_down(self, entry: "_PeerLink", reason: str) -> None:
        if entry.peer in self._servers:
            self.states[entry.peer] = reason
        else:
            self.states.pop(entry.peer, None)
        self._log("link.down", peer=entry.peer, reason=reason)
        entry.down.set()


class _PeerLink:
    """One link to a peer, and the receiver of its events."""

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
