"""Tools that Ray users otherwise build around named actors, built on an ensemble instead.

An ensemble and a path name a tool, so it can be made anywhere and passed to any task or actor.
Each process that uses a tool has a session of its own, opened at the first use (tool.py).

elected_actor.py        a service of which one actor acts and a standby takes over
    candidate.py        the code of its actors
gang.py                 all members start or none, and start again together after one dies
address_rendezvous.py   the addresses of all participants; a port is bound before it is published
worker_group.py         the list of live workers
rate_limit.py           a number of calls per second over all processes
concurrency_limit.py    a number of calls at once; permits die with their holder
"""

from raykeeper.client.ray_tools.address_rendezvous import Address, Rendezvous, RendezvousResult
from raykeeper.client.ray_tools.concurrency_limit import ConcurrencyLimit
from raykeeper.client.ray_tools.elected_actor import ElectedActor
from raykeeper.client.ray_tools.gang import Gang
from raykeeper.client.ray_tools.rate_limit import RateLimit
from raykeeper.client.ray_tools.worker_group import (
    Worker,
    WorkerGroup,
    WorkerMembership,
    WorkersChange,
)

__all__ = [
    "ElectedActor",
    "Gang",
    "Rendezvous",
    "RendezvousResult",
    "Address",
    "WorkerGroup",
    "Worker",
    "WorkerMembership",
    "WorkersChange",
    "RateLimit",
    "ConcurrencyLimit",
]
