"""One of each object that a user gets: how it shows, and whether another process may have it.

A row makes the object of a client, blocking or awaited. A class of values (a Struct, a NamedTuple,
an enum) needs no row: `sample` makes one of any.
"""

import enum
import socket
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

import raykeeper.client
import raykeeper.clusters
import raykeeper.clusters.backups
import raykeeper.clusters.doctor
from raykeeper.client import FencedResource, RandomPick, RoundRobin, Sticky, ray_tools
from raykeeper.client.recipes.queue import Element
from raykeeper.clusters import Ensemble, EnsembleConfig

MODULES: list[ModuleType] = [
    *(raykeeper.client, ray_tools, raykeeper.clusters),
    *(raykeeper.clusters.doctor, raykeeper.clusters.backups),
]
WORDS = {"Blocking", "Awaited"}
"""Classes that stand in annotations only."""
GUARDED = "pass its `token` on, which a FencedResource or a transaction checks"
PATH = "pass the path on, and watch it there"
STARTED = "was started in this process: make another"

Wait = Callable[[Any], Any]
"""Returns the result of a call of either client."""


Passing = str | Callable[[Any], Any]
"""What the error says that refuses to pass it on; or what a copy of it does elsewhere."""
Make = Callable[[Any, Wait], Any]
"""Makes it of a client."""


def call(name: str, *arguments: Any) -> Callable[[Any], Any]:
    """Return what calls that method of a copy."""
    return lambda copy: getattr(copy, name)(*arguments)


def acquire(lock: Any) -> None:
    with lock as held:
        assert held.token > 0


def is_tool(tool: Any) -> None:
    assert (tool.ensemble, tool.path) == ("coord", "/x")


def released(held: Any, wait: Wait) -> Any:
    wait(held.release())
    return held


def started(background: Any, wait: Wait) -> Any:
    wait(background.start())
    return background


def closed(background: Any, wait: Wait) -> Any:
    wait(background.close())
    return background


def led(latch: Any, wait: Wait) -> Any:
    wait(started(latch, wait).wait())
    return latch


def entered(barrier: Any, wait: Wait) -> Any:
    wait(barrier.enter())
    return barrier


def met(client: Any, wait: Wait) -> Any:
    own = socket.socket()
    own.close()
    return ray_tools.RendezvousResult(wait(client.rendezvous("/x", 1).join()), own)


def worker(client: Any, wait: Wait) -> Any:
    flow = client.group("/x")._join("me", b"", None, ray_tools.WorkerMembership)
    return wait(client._run_flow(flow, "join"))


def element(client: Any, wait: Wait) -> Any:
    wait(client.lock_queue("/x").put(b"job"))
    return wait(client.lock_queue("/x").get())


def partition(client: Any, wait: Wait) -> Any:
    (owned,) = wait(started(client.partitioner("/x", ["a"]), wait).wait())
    return owned


ROWS: dict[str, tuple[Passing, Make]] = {
    # What other processes make anew.
    "<Lock: /x>": (acquire, lambda c, w: c.lock("/x")),
    "<SimpleLock: /x>": (acquire, lambda c, w: c.simple_lock("/x")),
    "<ReentrantLock: /x>": (acquire, lambda c, w: c.reentrant_lock("/x")),
    "<Side: /x>": (acquire, lambda c, w: c.read_write_lock("/x").read),
    "<Semaphore: /x, 2 permits>": (acquire, lambda c, w: c.semaphore("/x", 2)),
    "<Lease: /x>": (acquire, lambda c, w: c.lease("/x", 60)),
    "<Election: /x>": (acquire, lambda c, w: c.election("/x")),
    "<Rendezvous: /x, size 1>": (acquire, lambda c, w: c.rendezvous("/x", 1)),
    "<ReadWriteLock: /x>": (call("contenders"), lambda c, w: c.read_write_lock("/x")),
    "<MultiLock: /x, /y>": (call("contenders"), lambda c, w: c.multi_lock(iter(["/y", "/x"]))),
    "<LeaderLatch: /x, not started>": (call("start"), lambda c, w: c.leader_latch("/x")),
    "<Group: /x>": (call("members"), lambda c, w: c.group("/x")),
    "<ServiceDiscovery: /x, not used yet>": (call("names"), lambda c, w: c.services("/x")),
    "<Partitioner: /x, not started>": (call("start"), lambda c, w: c.partitioner("/x", iter("ab"))),
    "<Configuration: /x, of dict>": (
        call("set", {"a": 1}),
        lambda c, w: c.configuration("/x", dict),
    ),
    "<Configurations: /x, /y>": (
        call("set", {"/x": {}}),
        lambda c, w: c.configurations({"/x": dict, "/y": dict}),
    ),
    "<Published: /x>": (call("publish", {"a": b"1"}), lambda c, w: c.published("/x")),
    "<Counter: /x>": (call("increment"), lambda c, w: c.counter("/x")),
    "<Barrier: /x>": (call("create"), lambda c, w: c.barrier("/x")),
    "<DoubleBarrier: /x, size 1, outside>": (
        call("enter"),
        lambda c, w: c.double_barrier("/x", 1),
    ),
    "<Queue: /x>": (call("size"), lambda c, w: c.queue("/x")),
    "<PriorityQueue: /x>": (call("size"), lambda c, w: c.priority_queue("/x")),
    "<LockQueue: /x>": (call("size"), lambda c, w: c.lock_queue("/x")),
    "<TwoPhaseCommit: /x>": (call("begin", ["a"]), lambda c, w: c.two_phase_commit("/x")),
    "<DurableFencedResource: /x, newest token 0>": (
        call("check", 5),
        lambda c, w: c.fenced_resource("/x"),
    ),
    # What is held.
    "<Held: the lock /x, token #, held>": (GUARDED, lambda c, w: w(c.lock("/x").acquire())),
    "<Held: the lock /x, token #, released>": (
        GUARDED,
        lambda c, w: released(w(c.lock("/x").acquire()), w),
    ),
    "<ReentrantHeld: the lock /x, token #, held>": (
        GUARDED,
        lambda c, w: w(c.reentrant_lock("/x").acquire()),
    ),
    "<HeldLease: the lease /x, token #, # s left, held>": (
        GUARDED,
        lambda c, w: w(c.lease("/x", 60).acquire()),
    ),
    "<Leadership: the leadership of /x, epoch 1, token #, held>": (
        GUARDED,
        lambda c, w: w(c.election("/x").lead()),
    ),
    "<MultiHeld: one of /x, /y, tokens # #, held>": (
        "pass its `tokens` on",
        lambda c, w: w(c.multi_lock(["/x", "/y"]).acquire()),
    ),
    "<LostEvent: the lock /x, not set>": (
        "pass `held.token` on",
        lambda c, w: w(c.lock("/x").acquire()).lost,
    ),
    "<AnyLostEvent: one of /x, not set>": (
        "pass `held.tokens` on",
        lambda c, w: w(c.multi_lock(["/x"]).acquire()).lost,
    ),
    "<BrokenEvent: the meeting in /x, not set>": (
        "pass `held.token` on",
        lambda c, w: w(c.rendezvous("/x", 1).join()).broken,
    ),
    "<Membership: the membership /x/me, token #, held>": (
        GUARDED,
        lambda c, w: w(c.group("/x").join("me")),
    ),
    "<Registration: the membership /x/web/me, token #, held>": (
        GUARDED,
        lambda c, w: w(c.services("/x").register("web", "a", 1, name="me")),
    ),
    "<WorkerMembership: the membership /x/me, token #, held>": (GUARDED, worker),
    "<HeldElement: the element /x/elements/e-#-#, token #, held>": (GUARDED, element),
    "<Generation: the place in the rendezvous /x, rank 0 of 1 in generation 1, token #, held>": (
        GUARDED,
        lambda c, w: w(c.rendezvous("/x", 1).join()),
    ),
    "<RendezvousResult: /x, rank 0 of 1 in generation 1>": ("pass its `addresses` on", met),
    "<Partition: /x/owners/a, token #, owned>": ("pass its `name` and `token` on", partition),
    "<Entered: /x, round #, inside>": (
        "pass its `round` on",
        lambda c, w: w(c.double_barrier("/x", 1).enter()),
    ),
    # What goes on in this process.
    "<LeaderLatch: /x, leads in epoch 1>": (STARTED, lambda c, w: led(c.leader_latch("/x"), w)),
    "<LeaderLatch: /x, closed>": (
        "was closed: make another",
        lambda c, w: closed(c.leader_latch("/x"), w),
    ),
    "<Partitioner: /x, owns 1 of 1 partitions>": (
        STARTED,
        lambda c, w: led(c.partitioner("/x", ["a"]), w),
    ),
    "<ServiceDiscovery: /x, closed>": (
        "was closed: make another",
        lambda c, w: closed(c.services("/x"), w),
    ),
    "<DoubleBarrier: /x, size 1, inside>": (
        "has entered /x: make another",
        lambda c, w: entered(c.double_barrier("/x", 1), w),
    ),
    "<Observation: the observation of /x, nobody leads>": (
        PATH,
        lambda c, w: w(c.election("/x").observe(str)),
    ),
    "<GroupWatch: the watch of /x, running>": (PATH, lambda c, w: w(c.group("/x").watch(str))),
    "<ServiceWatch: all services, open>": (PATH, lambda c, w: w(c.services("/x").watch(str))),
    "<LiveConfiguration: /x, missing>": (
        "follow it there",
        lambda c, w: w(c.configuration("/x", dict).follow()),
    ),
    "<LiveConfigurations: /x, /y, missing>": (
        "follow it there",
        lambda c, w: w(c.configurations({"/x": dict, "/y": dict}).follow()),
    ),
    "<Live: /x, missing>": ("follow it there", lambda c, w: w(c.published("/x").follow())),
    "<TreeCache: /x, 0 znodes, not started>": (
        "make one there",
        lambda c, w: c.tree_cache("/x"),
    ),
    "<TreeCache: /x, 0 znodes, current>": (
        "make one there",
        lambda c, w: w(c.tree_cache("/x").start()),
    ),
    "<ChildrenCache: /x, 0 znodes, not started>": (
        "make one there",
        lambda c, w: c.children_cache("/x"),
    ),
    "<FencedResource: the disk, newest token 0>": (
        "pass the tokens to this process",
        lambda c, w: FencedResource("the disk"),
    ),
    "<Use: /x, newest token 0, for token 5>": (
        "pass the token on, and use a guard there",
        lambda c, w: c.fenced_resource("/x").use(5),
    ),
    # Values, and what a name stands for.
    "Element(b'job', '/x/elements/e-#-#')": (
        lambda copy: copy.priority,
        lambda c, w: Element(b"job", "/x/elements/e-100-0000000000"),
    ),
    "RoundRobin()": (str, lambda c, w: RoundRobin()),
    "RandomPick()": (str, lambda c, w: RandomPick(Random(7))),
    "Sticky(RoundRobin())": (str, lambda c, w: Sticky(RoundRobin())),
    "Ensemble('coord')": (str, lambda c, w: Ensemble("coord")),
    "ElectedActor('coord', '/x')": (is_tool, lambda c, w: ray_tools.ElectedActor("coord", "/x")),
    "Gang('coord', '/x')": (is_tool, lambda c, w: ray_tools.Gang("coord", "/x", 2)),
    "Rendezvous('coord', '/x')": (is_tool, lambda c, w: ray_tools.Rendezvous("coord", "/x", 2)),
    "WorkerGroup('coord', '/x')": (is_tool, lambda c, w: ray_tools.WorkerGroup("coord", "/x")),
    "RateLimit('coord', '/x')": (is_tool, lambda c, w: ray_tools.RateLimit("coord", "/x", 5)),
    "ConcurrencyLimit('coord', '/x')": (
        is_tool,
        lambda c, w: ray_tools.ConcurrencyLimit("coord", "/x", 5),
    ),
}
"""By what `repr` shows; # stands for a number of several digits."""


def sample(hint: Any) -> Any:
    """Return a value of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Annotated, Union, types.UnionType):
        return sample(arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin in (list, tuple, set, frozenset):
        return origin([sample(arguments[0])])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {sample(arguments[0]): sample(arguments[1])}
    if hasattr(hint, "__supertype__"):
        return sample(hint.__supertype__)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if kind is EnsembleConfig:
        return EnsembleConfig(name="x")  # it checks its values
    if isinstance(kind, type) and is_value(kind):
        hints = get_type_hints(kind, include_extras=True)
        names = getattr(kind, "__struct_fields__", None) or kind._fields  # type: ignore[attr-defined]
        return kind(**{name: sample(hints[name]) for name in names})
    simple = {str: "x", bytes: b"x", bool: True, int: 1, float: 1.5, type(None): None}
    return simple.get(kind, 1) if kind is not Path else Path("x")


def is_value(kind: type) -> bool:
    """Whether a class is one of values, which are the same in every process."""
    return issubclass(kind, Struct | tuple | enum.Enum)
