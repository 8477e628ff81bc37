"""All links of one running server: to its peers and clients, over streams and over Ray calls.

`links` of the ensemble says which carriers there are. With `ray` the server does not listen; with
`direct` it refuses links over calls, and does not run where it cannot listen; with `auto` it takes
both, and dialers prefer a stream.

`peer_links.py` has the links of other servers, `client_links.py` those of clients.
"""

from collections.abc import Callable
from typing import Any

from raykeeper.actors.client_limit import ClientLimit
from raykeeper.actors.client_links import ClientLinks
from raykeeper.actors.peer_links import PeerLinks
from raykeeper.actors.replica_config import AUTO, DIRECT, RAY, ReplicaConfig
from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello, LinkKind, peer_hello, refusal_reason
from raykeeper.links.jute_listener import JuteListener
from raykeeper.links.limits import PEER_KEEPALIVE_MS, PEER_QUEUE_BYTES_MAX
from raykeeper.links.ray_calls import RayCallAcceptor
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_endpoints import StreamAddress, StreamListener
from raykeeper.links.upgradable_link import UpgradingAcceptor
from raykeeper.server.events import Event
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId


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
        self.peers = PeerLinks(config.server_id, self._fence, deliver, log)
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
        """Dial the servers of `peers` from now on; `find` looks up an actor's handle."""
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
