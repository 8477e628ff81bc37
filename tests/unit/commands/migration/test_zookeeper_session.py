"""Addresses of a ZooKeeper, and what is said when no session opens."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError

from raykeeper.client import errors
from raykeeper.clusters.config import ConfigError
from raykeeper.commands.migration.errors import ZooKeeperUnreachableError
from raykeeper.commands.migration.zookeeper_session import (
    Hosts,
    as_ours,
    open_session,
    parse_hosts,
)

WAITS_OF_KAZOO_S = 15.0
"""Less than the 20 s for which its thread waits for an answer."""


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk1", (("zk1", 2181),), ""),
        ("zk1:99", (("zk1", 99),), ""),
        ("zk1:2181, zk2/", (("zk1", 2181), ("zk2", 2181)), ""),
        ("zk1,zk2:1/app/x", (("zk1", 2181), ("zk2", 1)), "/app/x"),
        ("[::1]:99,[fe80::1]", (("::1", 99), ("fe80::1", 2181)), ""),
        ("::1", (("::1", 2181),), ""),
    ],
)
def test_addresses(text: str, servers: tuple[tuple[str, int], ...], chroot: str) -> None:
    assert parse_hosts(text) == Hosts(servers, chroot)


def test_addresses_as_kazoo_takes_them() -> None:
    assert str(parse_hosts("a,[::1]:9/app")) == "a:2181,[::1]:9"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' is no address"),
        ("a,,b", "'' is no address"),
        ("a:b", "'a:b' is no address"),
        ("a:0", "no address"),
        ("a:65536", "no address"),
        (":2181", "no address"),
        ("a/app/", "behind the addresses"),
        ("a//app", "behind the addresses"),
    ],
)
def test_wrong_addresses(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_hosts(text)


@contextmanager
def server_that_says(answer: bytes) -> Iterator[str]:
    """Take connections, answer whatever comes, and close."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                with connection:
                    if connection.recv(1 << 16):
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "does not answer as ZooKeeper does"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as ZooKeeper does"),
        (b"This ZooKeeper instance is not currently serving requests\n", "without a quorum"),
        (b"srvr is not executed because it is not in the whitelist.\n", "perhaps it has no quorum"),
        (b"Zookeeper version: 3.8.0\nMode: standalone\n", "opens no session"),
    ],
)
def test_a_server_without_a_session_is_described(answer: bytes, told: str) -> None:
    with server_that_says(answer) as address:
        _refused(address, f"{address} .*{told}")


def test_a_server_that_stands_still_is_described_in_time() -> None:
    """The system takes connections for a process that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        began = time.monotonic()
        _refused(f"127.0.0.1:{port}", rf"{port} takes connections, but answers nothing within 2 s")
        assert time.monotonic() - began < WAITS_OF_KAZOO_S


def test_a_port_that_nobody_listens_on_and_a_host_that_nobody_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    _refused(f"127.0.0.1:{port}", rf"{port} takes no connections \(.*refused")
    _refused("no-such-host.invalid", "no-such-host.invalid:2181 is unknown")


def _refused(hosts: str, told: str) -> None:
    with (
        pytest.raises(ZooKeeperUnreachableError, match=told),
        open_session(parse_hosts(hosts), [], None, 0.3),
    ):
        pass


def test_errors_of_kazoo_become_ours() -> None:
    missing = as_ours(NoNodeError(), "/a")
    assert (type(missing), missing.path, missing.definite) == (errors.NoNodeError, "/a", True)
    for error in (ConnectionLoss(), OSError()):
        lost = as_ours(error, "/a")
        assert (type(lost), lost.definite) == (errors.ConnectionLossError, False)
    assert isinstance(as_ours(ConnectionClosedError(), "/a"), errors.SessionExpiredError)
