"""Sessions of kazoo, which are closed when the test ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

PATIENCE_S = 90.0


@contextmanager
def kazoo_clients() -> Iterator[Callable[..., KazooClient]]:
    """Yield what connects a client to `hosts`, with options of kazoo's."""
    opened: list[KazooClient] = []

    def connect(hosts: str, **options: Any) -> KazooClient:
        client = KazooClient(hosts=hosts, **options)
        opened.append(client)
        client.start(timeout=PATIENCE_S)
        return client

    try:
        yield connect
    finally:
        for client in opened:
            client.stop()
            client.close()
