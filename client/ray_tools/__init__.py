"""What Ray users build around named actors, built on an ensemble instead.

A tool is named by an ensemble and a path, so it may be made anywhere and passed to any task or
actor; each process that uses it has a session of its own, opened at the first use (tool.py).

elected_actor.py        one acts, a standby takes over, with
    candidate.py, leader_view.py   what runs in its actors, and what its callers know
gang.py                 all start or none, and again together after one dies
address_rendezvous.py           who listens where, with ports that are bound before they are
    published
worker_group.py         who is there
rate_limit.py           so many per second over all processes
concurrency_limit.py    so many at once; permits die with their holder
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
