"""A session with a ZooKeeper, through kazoo: many requests at a time, and errors as ours.

After a lost connection the next one is waited for, up to a limit. A read is sent again; a write is
not, because it may have been done: the copy looks what became of it. A request that is not answered
in time over a connection that stands is an error at once.
"""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from msgspec import Struct

from raykeeper.client.errors import (
    ConnectionLossError,
    KeeperError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    error_for,
)
from raykeeper.clusters.config import ConfigError
from raykeeper.commands.migration.errors import ZooKeeperUnreachableError
from raykeeper.commands.migration.order import Tls
from raykeeper.znodes.paths import path_fault

PORT: Final = 2181
LOST: Final = (ConnectionLossError, SessionExpiredError)
"""The errors of a lost connection, after which another one is waited for."""

_SESSION_TIMEOUT_S: Final = 30.0
_PROBE_S: Final = 2.0
_CLOSE_S: Final = 2.0
"""How long the end of a session may take. A server that does not answer ends it at its timeout."""
_ATTEMPTS_MAX: Final = 10
"""How often a connection may break while the same requests are sent."""


class Hosts(Struct, frozen=True):
    """The addresses of a ZooKeeper, and the path that all others are relative to, "" for none."""

    servers: tuple[tuple[str, int], ...]
    chroot: str

    def __str__(self) -> str:
        return ",".join(f"{f'[{h}]' if ':' in h else h}:{p}" for h, p in self.servers)


def parse_hosts(text: str) -> Hosts:
    """Return the addresses that `text` names: `host:2181,host2:2181/chroot`; the port is 2181.

    Raises:
        ConfigError: it has another form.
    """
    names, slash, chroot = text.partition("/")
    if slash and chroot:
        chroot = f"/{chroot}"
        if (fault := path_fault(chroot)) is not None:
            raise ConfigError(f"HOSTS {text!r}: the path behind the addresses is wrong: {fault}")
    servers = []
    for each in names.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not colon or (each.count(":") > 1 and "[" not in each) or each.endswith("]"):
            host, port = each.strip(), str(PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ConfigError(
                f"HOSTS {text!r}: {each!r} is no address; expected such as zk1:2181,zk2:2181/app"
            )
        servers.append((host, int(port)))
    return Hosts(tuple(servers), chroot)


class ZooKeeperSession:
    """An open session. Requests leave in the order in which they are made."""

    def __init__(self, client: KazooClient, timeout_s: float) -> None:
        """Use `open_session`."""
        self.client = client
        self.timeout_s = timeout_s
        self._connected = threading.Event()
        client.add_listener(self._on_state)
        if client.connected:
            self._connected.set()

    def read(
        self, send: Callable[[str], IAsyncResult], paths: list[str]
    ) -> list[Any | KeeperError | None]:
        """Send a read for each path, and return what was answered: a result, an error, or None.

        None stands for a missing znode.

        Raises:
            ConnectionLossError: no server took the requests in time.
            OperationTimeoutError: a server took them and does not answer.
        """
        found: dict[str, Any] = {}
        left = paths
        for _ in range(_ATTEMPTS_MAX):
            self._wait_for_connection()
            replies = [(path, send(path)) for path in left]
            left = []
            for path, reply in replies:
                try:
                    found[path] = self.wait(reply, path)
                except NoNodeError:
                    found[path] = None
                except LOST:
                    left.append(path)
                except OperationTimeoutError:
                    raise
                except KeeperError as error:
                    found[path] = error
            if not left:
                return [found[path] for path in paths]
        raise ConnectionLossError(left[0], "the server ends the connection again and again")

    def wait(self, reply: IAsyncResult, path: str) -> Any:
        """Wait for a reply.

        Raises:
            KeeperError: the error that it is, or that there is none in time.
        """
        try:
            return reply.get(timeout=self.timeout_s)
        except KazooTimeoutError:
            raise OperationTimeoutError(path, definite=False) from None
        except KazooException as error:
            raise as_ours(error, path) from None

    def last_zxid(self) -> int:
        """Return the newest zxid of the ensemble, once this server has everything up to it."""
        self.read(self.client.sync_async, ["/"])
        return int(self.client.last_zxid)

    def close(self) -> None:
        """End the session."""
        _end(self.client)

    def _wait_for_connection(self) -> None:
        if not self._connected.wait(self.timeout_s):
            raise ConnectionLossError("", f"no server of ZooKeeper within {self.timeout_s:g} s")

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()


@contextlib.contextmanager
def open_session(
    hosts: Hosts, identities: list[tuple[str, str]], tls: Tls | None, timeout_s: float
) -> Iterator[ZooKeeperSession]:
    """Open a session while the block lasts, and prove identities.

    Raises:
        ZooKeeperUnreachableError: no server opens one within `timeout_s`.
    """
    logger = logging.getLogger("kazoo")
    logger.setLevel(logging.CRITICAL)  # each failed attempt is an error there; ours is told once
    files = {} if tls is None else _tls_options(tls)
    client = KazooClient(
        hosts=str(hosts),
        timeout=_SESSION_TIMEOUT_S,
        auth_data=identities,
        connection_retry=KazooRetry(max_tries=-1, max_delay=1.0),
        logger=logger,
        **files,
    )
    # `start` would wait for its thread, which waits 20 s for a server that takes connections only.
    client.start_async().wait(timeout_s)
    if not client.connected:
        _end(client)
        raise ZooKeeperUnreachableError(_why_unreachable(hosts, tls is not None))
    session = ZooKeeperSession(client, timeout_s)
    try:
        yield session
    finally:
        session.close()


def _end(client: KazooClient) -> None:
    """End a session; a server that does not answer is given `_CLOSE_S`."""

    def stop() -> None:
        with contextlib.suppress(KazooException, OSError):
            client.stop()
            client.close()

    ending = threading.Thread(target=stop, name="kazoo-end", daemon=True)
    ending.start()
    ending.join(_CLOSE_S)


def _tls_options(tls: Tls) -> dict[str, Any]:
    return {"use_ssl": True, "ca": tls.ca, "certfile": tls.certificate, "keyfile": tls.key}


def as_ours(error: Exception, path: str) -> KeeperError:
    """Return the error of ours that one of kazoo's stands for."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        ours = error_for(code, path)
        lost = (ConnectionLossError, OperationTimeoutError)
        return error_for(code, path, definite=False) if isinstance(ours, lost) else ours
    return ConnectionLossError(path, type(error).__name__, definite=False)


def _why_unreachable(hosts: Hosts, is_tls: bool) -> str:
    each = [f"{h}:{p} {_what_answers(h, p, is_tls)}" for h, p in hosts.servers]
    return f"no session with ZooKeeper: {'; '.join(each)}"


def _what_answers(host: str, port: int, is_tls: bool) -> str:
    """Return what a server does, by the word `srvr` that every ZooKeeper answers."""
    try:
        connection = socket.create_connection((host, port), _PROBE_S)
    except socket.gaierror:
        return "is unknown: no such host"
    except OSError as error:
        return f"takes no connections ({error.strerror or error})"
    answer = b""
    with connection:
        if is_tls:
            return "takes connections, but no session over TLS with these files"
        try:
            connection.sendall(b"srvr")
            answer = connection.makefile("rb").read(4096)
        except TimeoutError:
            return (
                f"takes connections, but answers nothing within {_PROBE_S:g} s: it stands still, "
                "or it is a port for TLS, which needs --tls-ca"
            )
        except OSError:
            pass  # it is ended: no answer
    if answer.startswith(b"Zookeeper version"):
        return "is ZooKeeper, but opens no session"
    if b"not currently serving requests" in answer:
        return "is ZooKeeper without a quorum"
    if b"not in the whitelist" in answer:
        return "is ZooKeeper, but opens no session; perhaps it has no quorum"
    return "does not answer as ZooKeeper does (a port for TLS needs --tls-ca)"
