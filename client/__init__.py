"""The client: sessions, requests and watches.

connect.py, ensembles.py        find an ensemble by name
client.py, async_client.py      the two facades: blocking, and to await
arguments.py, rounds.py, results.py   what they share: checks, composed operations, results
session.py, reply.py, dispatch.py, loop_thread.py   threads and order of the blocking one
driver.py                       the asyncio shell of
core.py                         the pure state machine of one session, with
    outstanding.py  requests without an answer, exactly once and in order
    watchers.py     the user's watch objects
    liveness.py     heartbeats, silence, the deadline to let go
    rotation.py     which server next, and when
    chroot.py       paths below a znode that is the client's root
    client_id.py    what it takes to take a session over
    effects.py      what it asks of the driver
"""

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.connect import connect
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import EventType, WatchedEvent
from raykeeper.znodes.stat import Stat

__all__ = [
    "connect",
    "Client",
    "AsyncClient",
    "ClientState",
    "WatchedEvent",
    "EventType",
    "Stat",
]
