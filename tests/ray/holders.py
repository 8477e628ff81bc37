"""Processes that hold an ephemeral znode, and what can become of them without their end.

Ray pickles them by value, so that a worker need not find this file.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import psutil
import ray
from ray import cloudpickle

from raykeeper.client import AsyncClient, Client, connect, with_session

cloudpickle.register_pickle_by_value(sys.modules[__name__])

TIMEOUT_S = 60.0
"""Of a session that shall not time out in a test."""
SHORT_S = 2.0
"""Of one that shall."""


class Holder:
    """An actor with a `Client`; `path` is its ephemeral."""

    def __init__(self, ensemble: str, path: str, timeout_s: float = TIMEOUT_S) -> None:
        self._client = connect(ensemble, session_timeout_s=timeout_s)
        self._client.create(path, ephemeral=True)
        self._freezes = False

    def pid(self) -> int:
        return os.getpid()

    def cut_link(self) -> None:
        """Its streams to servers break; it can open new ones."""
        _cut_streams()

    def cut_link_and_freeze(self) -> None:
        """They break, and it does nothing about it any more."""
        _cut_streams()
        os.kill(os.getpid(), signal.SIGSTOP)

    def freeze_at_the_end(self) -> None:
        """Do so when Ray tells it to exit."""
        self._freezes = True

    def cut_off(self) -> None:
        """All its connections over TCP break, those to Ray's other processes too."""
        for each in psutil.Process().net_connections("tcp"):
            if each.raddr:
                _shut(each.fd)
        time.sleep(3_600)

    def __ray_shutdown__(self) -> None:
        if self._freezes:
            self.cut_link_and_freeze()


class AsyncHolder:
    """An async actor with an `AsyncClient`."""

    _client: AsyncClient

    async def hold(self, ensemble: str, path: str) -> int:
        self._client = await AsyncClient.connect(ensemble, session_timeout_s=TIMEOUT_S)
        await self._client.create(path, ephemeral=True)
        return os.getpid()


class Replica:
    """An actor that is registered again whenever it was suspended for too long."""

    def start(self, ensemble: str, name: str) -> int:
        registered: Any = with_session(ensemble, SHORT_S, restart_on_loss=True)(_registered)
        threading.Thread(target=registered, args=(name,), daemon=True).start()
        return os.getpid()


class AsyncReplica:
    """An async actor that is."""

    async def start(self, ensemble: str, name: str) -> int:
        registered: Any = with_session(ensemble, SHORT_S, restart_on_loss=True)(_registered_async)
        self._registered = asyncio.create_task(registered(name))
        return os.getpid()


def hold_in_a_task(ensemble: str, path: str) -> None:
    """A task that does not come to its end."""
    _hold(ensemble, path)
    time.sleep(3_600)


def hold_in_a_driver(ensemble: str, path: str) -> None:
    """A driver, likewise."""
    ray.init(log_to_driver=False)
    client = _hold(ensemble, path)
    sys.stdin.read()
    client.close()


def start(ensemble: str, path: str, timeout_s: float = TIMEOUT_S, **options: Any) -> Any:
    """A `Holder`."""
    return ray.remote(num_cpus=0, **options)(Holder).remote(ensemble, path, timeout_s)


def _registered(client: Client, name: str) -> None:
    with client.services("/replicas").register(name, "10.0.0.7", 80, name="1") as me:
        me.lost.wait()


async def _registered_async(client: AsyncClient, name: str) -> None:
    async with await client.services("/replicas").register(name, "10.0.0.7", 80, name="1") as me:
        await me.lost.wait()


def _hold(ensemble: str, path: str) -> Client:
    client = connect(ensemble, session_timeout_s=TIMEOUT_S)
    client.create(path, b"%d" % os.getpid(), ephemeral=True)
    return client


def _cut_streams() -> None:
    for each in gc.get_objects():
        if isinstance(each, socket.socket) and each.family == socket.AF_INET:
            _shut(each.fileno())


def _shut(fd: int) -> None:
    with socket.socket(fileno=os.dup(fd)) as other:
        other.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    hold_in_a_driver(*sys.argv[1:])
