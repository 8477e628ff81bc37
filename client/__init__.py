"""The client: sessions, requests and watches.

connect.py, ensembles.py    find an ensemble by name, in the cluster of ray_address.py
with_session.py, restart.py a session for one call; a call that is repeated with a new session
context_decorator.py        a context around each call of a function of any kind
task_sessions.py            closes the sessions that a Ray task left open
identity.py                 the line with which a session names its process
client.py, async_client.py  the two clients: blocking, and to await; both share
    operations.py           each operation: signature, documentation, check of the arguments
    request_builder.py, arguments.py    the checks and requests behind them
    recipe_methods.py       the recipes as methods
    call_forms.py           refuses `with` for `async with`, and calls that were not awaited
    unexpected_names.py     says which argument was meant
session_objects.py          what belongs to a session: how it shows, and that it is not passed on
transaction.py, access.py   several operations as one; ACLs as users write them
subtree_copy.py             copies a subtree, also into another ensemble
    subtree_copier.py       the engine of every copy
    subtree_walk.py         visits the znodes of a subtree in batches
    copy_places.py          the two ends of a copy
fencing.py, fair_mutex.py   a guard that refuses stale tokens; a lock for threads and tasks
recipes/                    the recipes, one file each
ray_tools/, async_flow_runner.py    for Ray's tasks and actors: elected actors, gangs, limits, …
session_options.py          the options of a session
session.py                  a session, for both clients; for the blocking one with
    request_future.py, callback_thread.py, loop_thread.py   threads, and the order of callbacks
driver.py, active_link.py, scheduler_host.py    the asyncio shell of
core/                       the pure state machine of one session, and the engine of recipes and of
                            composed operations: flows.py, scheduler.py
"""

from raykeeper.client.access import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Acl,
    Identity,
    Permission,
    make_acl,
    make_digest_acl,
    make_scrypt_acl,
)
from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.connect import connect
from raykeeper.client.core.public_types import (
    ClientId,
    ClientState,
    Content,
    EventType,
    WatchedEvent,
)
from raykeeper.client.core.results import Quota
from raykeeper.client.fencing import DurableFencedResource, FencedResource
from raykeeper.client.recipes.acquirable import Held, LostEvent
from raykeeper.client.recipes.barrier import Barrier
from raykeeper.client.recipes.configuration import Configuration, LiveConfiguration, Versioned
from raykeeper.client.recipes.counter import Counter
from raykeeper.client.recipes.double_barrier import DoubleBarrier, Entered
from raykeeper.client.recipes.election import Election, Leader, Leadership, Observation
from raykeeper.client.recipes.group import Group, GroupChange, GroupWatch, Member, Membership
from raykeeper.client.recipes.leader_latch import LeaderLatch
from raykeeper.client.recipes.lease import HeldLease, Lease
from raykeeper.client.recipes.live import Live
from raykeeper.client.recipes.lock import Contender, Lock
from raykeeper.client.recipes.lock_queue import HeldElement, LockQueue
from raykeeper.client.recipes.multi_configuration import Configurations, LiveConfigurations
from raykeeper.client.recipes.multi_lock import MultiHeld, MultiLock
from raykeeper.client.recipes.partitioner import Partition, Partitioner
from raykeeper.client.recipes.picking import Instance, RandomPick, RoundRobin, Sticky
from raykeeper.client.recipes.publication import Published, PublishedVersion
from raykeeper.client.recipes.queue import Element, PriorityQueue, Queue
from raykeeper.client.recipes.read_write_lock import ReadWriteLock
from raykeeper.client.recipes.recipe import Awaited, Blocking
from raykeeper.client.recipes.reentrant_lock import ReentrantHeld, ReentrantLock
from raykeeper.client.recipes.rendezvous import Generation, Participant, Rendezvous
from raykeeper.client.recipes.semaphore import Semaphore
from raykeeper.client.recipes.services import (
    Registration,
    ServiceChange,
    ServiceDiscovery,
    ServiceWatch,
)
from raykeeper.client.recipes.simple_lock import SimpleLock
from raykeeper.client.recipes.tree_cache import ChildrenCache, TreeCache
from raykeeper.client.recipes.tree_mirror import CachedZnode, ChangeKind, TreeChange
from raykeeper.client.recipes.two_phase_commit import CommitProgress, Decision, TwoPhaseCommit
from raykeeper.client.subtree_copier import CopyReport
from raykeeper.client.subtree_copy import copy_subtree
from raykeeper.client.transaction import AsyncTransaction, BlockingTransaction
from raykeeper.client.with_session import with_session
from raykeeper.znodes.ensemble_config import EnsembleConfig
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.requests import WatchKind
from raykeeper.znodes.stat import Stat

__all__ = [
    "connect",
    "with_session",
    "copy_subtree",
    "CopyReport",
    "Client",
    "AsyncClient",
    "BlockingTransaction",
    "AsyncTransaction",
    "ClientState",
    "ClientId",
    "WatchedEvent",
    "EventType",
    "Content",
    "WatchKind",
    "Stat",
    "Acl",
    "Identity",
    "Permission",
    "make_acl",
    "make_digest_acl",
    "make_scrypt_acl",
    "CREATOR_ALL_ACL",
    "OPEN_ACL_UNSAFE",
    "READ_ACL_UNSAFE",
    "Quota",
    "QuotaLimits",
    "EnsembleConfig",
    "Blocking",
    "Awaited",
    "Held",
    "LostEvent",
    "Contender",
    "Lock",
    "SimpleLock",
    "ReadWriteLock",
    "ReentrantLock",
    "ReentrantHeld",
    "MultiLock",
    "MultiHeld",
    "Semaphore",
    "Lease",
    "HeldLease",
    "FencedResource",
    "DurableFencedResource",
    "Counter",
    "Published",
    "PublishedVersion",
    "Live",
    "TreeCache",
    "ChildrenCache",
    "TreeChange",
    "ChangeKind",
    "CachedZnode",
    "Barrier",
    "DoubleBarrier",
    "Entered",
    "TwoPhaseCommit",
    "Decision",
    "CommitProgress",
    "Queue",
    "PriorityQueue",
    "LockQueue",
    "HeldElement",
    "Element",
    "Election",
    "Leader",
    "Leadership",
    "Observation",
    "LeaderLatch",
    "Configuration",
    "LiveConfiguration",
    "LiveConfigurations",
    "Configurations",
    "Versioned",
    "Group",
    "GroupChange",
    "GroupWatch",
    "Member",
    "Membership",
    "Partitioner",
    "Partition",
    "Rendezvous",
    "Generation",
    "Participant",
    "ServiceDiscovery",
    "ServiceChange",
    "ServiceWatch",
    "Registration",
    "Instance",
    "RoundRobin",
    "RandomPick",
    "Sticky",
]
