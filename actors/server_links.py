"""All links of one running server: to its peers and clients, over streams and over Ray calls.

`links` of the ensemble says which carriers there are. With `ray` the server does not listen; with
`direct` it refuses links over calls, and does not run where it cannot listen; with `auto` it takes
both, and dialers prefer a stream.

Peers: the server with the higher id dials, the one with the lower id accepts, and the link is kept
up for ever. In ZooKeeper's `QuorumCnxManager` the higher id keeps its connection, too. The dialing
end of a Ray-call link sends large batches more cheaply, and a leader is often the server with the
highest id. A server that was restarted dials at once, which ends its old links before any deadline.

Invariant: to each other server there is at most one link, to its newest incarnation (rule D1); the
core receives LinkUp before the first frame of a link, LinkDown after the last, and nothing of
another link in between. `client_links.py` has the links of clients.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from raykeeper.actors.client_limit import ClientLimit
from raykeeper.actors.client_links import ClientLinks
from raykeeper.actors.replica_config import AUTO, DIRECT, RAY, ReplicaConfig
from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import (
    RAY_CALLS,
    Dialer,
    Link,
    LinkError,
    LinkEvents,
    LinkRefused,
)
from raykeeper.links.hello import Fence, Hello, LinkKind, peer_hello, refusal_reason
from raykeeper.links.jute_listener import JuteListener
from raykeeper.links.limits import FRAME_BYTES_MAX, PEER_KEEPALIVE_MS, PEER_QUEUE_BYTES_MAX
from raykeeper.links.ray_calls import RayCallAcceptor
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_endpoints import StreamAddress, StreamListener
from raykeeper.links.upgradable_link import UpgradingAcceptor
from raykeeper.server.events import (
    Event,
    LinkDown,
    LinkUp,
    PeerFrame,
)
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.zab.errors import DECODE_ERRORS, RayKeeperError
from raykeeper.zab.ids import ServerId

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
FRAME_BYTES_TARGET: Final = FRAME_BYTES_MAX // 4
"""No larger frame is sent unless it holds a single message. A frame over the bound would break the
link, and so would its repeat on the next link."""
LINKED: Final = "linked"


class CannotListenError(RayKeeperError):
    """Raised when a server that shall use direct streams alone cannot listen on its node.

    The caller should correct the node's address or Ray's TLS files, or choose other `links`.
    """


class ServerLinks:
    """Accepts links of servers and clients, and dials servers."""

    def __init__(
        self,
        config: ReplicaConfig,
        incarnation: int,
        host: str,
        deliver: Callable[[Event], None],
        log: Callable[..., None],
        limit: ClientLimit,
    ) -> None:
        """Accept links on the running loop, and streams at `host` if the settings allow them.

        `deliver` takes the events, `log` a name and fields for a log line; `limit` is the one of
        clients.

        Raises:
            CannotListenError: only streams are allowed, and the server cannot listen there.
        """
        self.server_id = config.server_id
        self.incarnation = incarnation
        self._config = config
        self._fence = Fence()
        self.clients = ClientLinks(incarnation, limit, deliver)
        self.peers = PeerLinks(config.server_id, config.other_servers(), self._fence, deliver, log)
        self._upgrading = UpgradingAcceptor(self)
        self.calls = RayCallAcceptor(self._upgrading)
        self.stream_problem = ""
        """Why streams are not accepted though the settings allow them."""
        self.jute, self.jute_tls = (
            None if settings is None else JuteListener(self.clients, settings, log)
            for settings in config.zookeeper_settings(limit.handshakes_waiting_max)
        )
        """The ports for clients of ZooKeeper, in the clear and with TLS, if the settings ask for
        them."""
        self._listener: StreamListener | None = None
        if config.links != RAY:
            self._listen(host, log)

    @property
    def address(self) -> StreamAddress | None:
        """Where streams are accepted, None if they are not."""
        return self._listener.address if self._listener is not None else None

    def dial_peers(self, find: Callable[[ServerId], Any]) -> None:
        """Keep links to the other servers from now on; `find` looks up an actor's handle."""
        config = self._config
        hello = peer_hello(config.ensemble_uuid, config.server_id, self.incarnation)
        self.peers.start(
            AutoDialer(
                ServerDirectory(find),
                hello,
                PEER_KEEPALIVE_MS,
                fence=self._fence,
                queue_bytes_max=PEER_QUEUE_BYTES_MAX,
            )
        )

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        """Take a link of a server or a client.

        Raises:
            LinkRefused: not now, not over that carrier, or not from that caller.
        """
        if reason := refusal_reason(hello, self._config.ensemble_uuid):
            raise LinkRefused(reason)
        if self._config.links == DIRECT and link.carrier == RAY_CALLS:
            raise LinkRefused("the servers of this ensemble take direct streams only")
        if hello.kind is LinkKind.PEER:
            return self.peers.accept(hello, link)
        return self.clients.accept(link, hello.host, hello.process)

    def close(self, reason: str) -> None:
        """End all links, and take no more streams."""
        if self._listener is not None:
            self._listener.close()
        for port in (self.jute, self.jute_tls):
            if port is not None:
                port.close()
        self.peers.close(reason)
        self.clients.close_all(reason)

    def _listen(self, host: str, log: Callable[..., None]) -> None:
        try:
            self._listener = StreamListener(
                self._upgrading,
                host,
                waiting_max=self.clients.limit.handshakes_waiting_max,
                log=log,
            )
        except OSError as error:
            if self._config.links != AUTO:
                raise CannotListenError(f"cannot listen at {host}: {error}") from error
            self.stream_problem = f"cannot listen at {host}: {error}"
            log("streams.off", host=host, reason=error)


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
        """For each other server: `LINKED`, or why there is no link."""
        self._server_id = server_id
        self._fence = fence
        self._deliver = deliver
        self._log = log
        self._links: dict[ServerId, _PeerLink] = {}
        self._dialing: list[asyncio.Task[None]] = []

    def start(self, dialer: Dialer) -> None:
        """Begin to dial the servers with a lower id."""
        loop = asyncio.get_running_loop()
        for peer in self.states:
            if peer < self._server_id:
                self._dialing.append(loop.create_task(self._keep_dialing(dialer, peer)))

    def carriers(self) -> dict[ServerId, str]:
        """Return what carries the link to each linked server."""
        return {peer: entry.link.carrier for peer, entry in sorted(self._links.items())}

    def incarnations(self) -> dict[ServerId, int]:
        """Return the newest incarnation seen of each other server; a lower one is refused."""
        return self._fence.newest()

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        """Take the link of a server with a higher id, in the place of an older one.

        Raises:
            LinkRefused: the dialer is none of these servers, or was fenced.
        """
        peer = hello.server_id
        if peer not in self.states or peer < self._server_id:
            raise LinkRefused(f"server {self._server_id} expects no link from server {peer}")
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
        for task in self._dialing:
            task.cancel()
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

    async def _keep_dialing(self, dialer: Dialer, peer: ServerId) -> None:
        pause_s = PAUSE_S_MIN
        while True:
            entry = _PeerLink(self, peer)
            try:
                entry.link = await dialer.dial(peer, entry)
            except LinkError as error:
                self.states[peer] = str(error)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            else:
                pause_s = PAUSE_S_MIN
                self._register(entry)
                await entry.down.wait()
            await asyncio.sleep(pause_s)

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
        self.states[entry.peer] = reason
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
