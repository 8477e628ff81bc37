"""Finds the servers of an ensemble: its named actors in the Ray cluster.

Ray is imported inside the functions only, so that the rest of the client loads without it.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from raykeeper.client import arguments
from raykeeper.client.errors import (
    ConnectionLossError,
    EnsembleNotFoundError,
    RayUnavailableError,
    WrongContextError,
)
from raykeeper.client.forks import refuse_inherited_ray
from raykeeper.client.joining import join_at
from raykeeper.client.ray_address import running_address
from raykeeper.client.ray_lookups import begin_listing, list_actors_async
from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import Dialer, Link, LinkEvents
from raykeeper.links.daemon_threads import to_daemon_thread
from raykeeper.links.hello import Hello, client_hello
from raykeeper.links.limits import CLIENT_KEEPALIVE_MS_MAX
from raykeeper.links.processes import this_process
from raykeeper.links.ray_names import NAMESPACE, replica_name, replicas_among
from raykeeper.links.server_directory import ServerDirectory, shared_directory
from raykeeper.zab.ids import Millis, ServerId

_NO_SESSION: Final = (
    ", which cannot hold a session: its calls go through a proxy. Call connect() inside a Ray task "
    "or actor, or start the program on a machine of the cluster (ray job submit)"
)


def begin_search(ensemble: str) -> Callable[[], list[ServerId]]:
    """Join the cluster, and begin to ask Ray for the servers of an ensemble.

    Returns:
        A function that waits for the ids of the servers that Ray knows, in order. It raises
        EnsembleNotFoundError if there are none, with the ensembles that there are, and
        ConnectionLossError if Ray does not answer in time; see client/ray_lookups.py.

    Raises:
        WrongContextError: there is no cluster, or it cannot be used from this process.
        ConnectionLossError: the cluster does not answer in time.
    """
    with as_lost_connection():
        join_cluster()
        listing = begin_listing()

    def wait() -> list[ServerId]:
        with as_lost_connection():
            actors = listing()
        return servers_among(ensemble, actors)

    return wait


def find_servers(ensemble: str) -> list[ServerId]:
    """Return what the search of `begin_search` finds.

    Raises:
        EnsembleNotFoundError: Ray knows none; the text lists the ensembles there are.
        WrongContextError: there is no cluster, or it cannot be used from this process.
        ConnectionLossError: Ray does not answer in time.
    """
    return begin_search(ensemble)()


async def find_servers_async(ensemble: str) -> list[ServerId]:
    """`find_servers`, to be awaited.

    Raises:
        EnsembleNotFoundError: Ray knows none; the text lists the ensembles there are.
        WrongContextError: there is no cluster, or it cannot be used from this process.
        ConnectionLossError: Ray does not answer in time.
    """
    with as_lost_connection():
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            join_cluster()  # which only checks that
        else:
            await to_daemon_thread(join_cluster)
        actors = await list_actors_async()
    return servers_among(ensemble, actors)


@contextmanager
def as_lost_connection() -> Iterator[None]:
    """Raise what a client expects that finds no server, in place of an error about Ray.

    Raises:
        ConnectionLossError: Ray does not answer in time.
    """
    try:
        yield
    except RayUnavailableError as error:
        raise ConnectionLossError("", str(error)) from error


def servers_among(ensemble: str, actors: list[dict[str, Any]]) -> list[ServerId]:
    """Return the servers of `ensemble` in Ray's list of named actors.

    Raises:
        EnsembleNotFoundError: the list has none.
    """
    servers = replicas_among(actors)
    if ensemble not in servers:
        known = ", ".join(servers) or "none runs in this Ray cluster"
        raise EnsembleNotFoundError(f'there is no ensemble "{ensemble}"; known ensembles: {known}')
    return servers[ensemble]


def dialer_of(ensemble: str, session_timeout_s: float, servers: Iterable[ServerId] = ()) -> Dialer:
    """Return the dialer that opens links to the servers of an ensemble.

    Soon after its first link it knows where all `servers` are, and finds them without Ray's GCS.

    Raises:
        BadArgumentsError: the span of time makes no sense.
    """
    import ray
    import ray.util

    timeout_ms = arguments.milliseconds("session_timeout_s", session_timeout_s)
    keepalive_ms = client_keepalive_ms(timeout_ms)
    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    who = ray.get_runtime_context()
    process = this_process(who.get_node_id(), who.get_worker_id())
    hello = client_hello(host=host, process=process)
    # After ray.shutdown() and ray.init() the handles of before are of no use.
    key = (ensemble, who.get_worker_id())
    return _EnsembleDialer(ensemble, list(servers), key, hello, keepalive_ms)


def client_keepalive_ms(timeout_ms: Millis) -> int:
    """Return within which time each end of the link of such a session shows that it is alive.

    An idle end sends a keepalive after half of it, but heartbeats and their confirmations leave
    each third of the session timeout, so keepalives are needed only for long timeouts: there they
    keep the time short after which a server that has vanished with its node is left.
    """
    return min(CLIENT_KEEPALIVE_MS_MAX, timeout_ms)


class _EnsembleDialer:
    """Dials the servers of an ensemble; shares what is known of them with the process's clients."""

    def __init__(
        self,
        ensemble: str,
        servers: list[ServerId],
        key: Hashable,
        hello: Hello,
        keepalive_ms: int,
    ) -> None:
        self._ensemble = ensemble
        self._servers = servers
        self._key = key
        self._hello = hello
        self._keepalive_ms = keepalive_ms
        self._dialer: Dialer | None = None
        self._directory: ServerDirectory | None = None

    async def dial(self, server: ServerId, events: LinkEvents) -> Link:
        """See `Dialer`. All calls are made on one loop."""
        if self._dialer is None:
            directory = self._shared_directory()
            directory.keep(self._servers)
            self._dialer = AutoDialer(directory, self._hello, self._keepalive_ms)
        return await self._dialer.dial(server, events)

    async def list_servers(self) -> list[ServerId]:
        """See `ServerFinder`."""
        return await self._shared_directory().list_servers()

    def keep(self, servers: Iterable[ServerId]) -> None:
        """See `ServerFinder`."""
        self._shared_directory().keep_only(servers)

    def _shared_directory(self) -> ServerDirectory:
        if self._directory is None:
            find = partial(_find_replica, self._ensemble)
            list_all = partial(_list_replicas, self._ensemble)
            self._directory = shared_directory(self._key, find, check_joined, list_all)
        return self._directory


def _find_replica(ensemble: str, server: ServerId) -> Any:
    import ray

    check_joined()
    return ray.get_actor(replica_name(ensemble, server), namespace=NAMESPACE)


def _list_replicas(ensemble: str) -> list[ServerId]:
    import ray.util

    check_joined()
    actors: list[dict[str, Any]] = ray.util.list_named_actors(all_namespaces=True)
    return replicas_among(actors).get(ensemble, [])


def check_joined() -> None:
    """Refuse to ask Ray after `ray.shutdown()`: Ray would start or join some cluster by itself.

    Raises:
        WrongContextError: this process has left its cluster, or has that of its parent.
    """
    import ray

    refuse_inherited_ray()
    if not ray.is_initialized():
        raise WrongContextError(
            "Ray is shut down in this process, so servers cannot be looked up: call ray.init() and "
            "connect() again"
        )


def join_cluster() -> None:
    """Connect this process to the Ray cluster of its machine unless it is connected.

    Raises:
        WrongContextError: there is none, the process is a `ray://` client, or it was forked off
            one that uses Ray.
        RayUnavailableError: the cluster does not answer in time.
    """
    refuse_inherited_ray()
    import ray
    from ray.util.client import ray as ray_client

    if ray_client.is_connected():  # type: ignore[no-untyped-call]
        raise WrongContextError(f"this process is connected through ray://{_NO_SESSION}")
    if ray.is_initialized():
        return
    address = running_address()
    if address is None:
        raise WrongContextError(
            "no Ray cluster runs on this machine: call ray.init() or start one "
            "(ray start --head, raykeeper up) before connect()"
        )
    if address.startswith("ray://"):
        raise WrongContextError(f"RAY_ADDRESS is {address}{_NO_SESSION}")
    join_at(address, WrongContextError)
