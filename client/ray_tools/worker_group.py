"""A group of live workers, with a list that is always current as workers join, leave or die.

    workers = WorkerGroup("coord", "/workers/app")
    me = workers.join(data=b"10.0.0.7:4000")            # in each worker; me.leave(), or its end
    workers.members()                                   # from anywhere
    watch = workers.watch(lambda change: print(change.joined, change.left))

It replaces a register in a named actor, in which dead workers stay listed and whose name is
"already taken" by the last run. It also replaces the polling of `ray.nodes()` or of pings, which
notices a death late, and never notices a process that is alive on a dead connection.

The invariants are those of the recipe (recipes/group.py): a worker is listed from `join` to `leave`
or to the end of its session, which comes as soon as its process is known to be dead. Each worker
publishes where Ray runs it.
"""

import inspect
import logging
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import BadArgumentsError, InvalidValueError
from raykeeper.client.ray_tools.tool import Tool, ToolFlow, awaited, tool_operation
from raykeeper.client.recipes.group import EphemeralMember, Group, GroupChange, GroupWatch, Member
from raykeeper.client.recipes.primitives import checked_bytes
from raykeeper.client.recipes.recipe import Awaited, Blocking, FlowRunner, K, operation
from raykeeper.zab.ids import Zxid

log = logging.getLogger("raykeeper.client")


class WorkerInfo(Struct, frozen=True):
    """The information that a worker publishes."""

    data: bytes
    pid: int
    node_id: str
    actor_id: str | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(WorkerInfo).decode


class Worker(Struct, frozen=True):
    """One worker of the group."""

    name: str
    data: bytes
    """The data that the worker published when it joined."""
    pid: int
    node_id: str
    """Ray's node id, as in `ray.nodes()`; "" without Ray."""
    actor_id: str | None
    """Ray's actor id; None for a task or driver."""
    token: Zxid
    """A worker that joined later has a larger token."""


class WorkersChange(Struct, frozen=True):
    """A change of the group, for the callback of a watch."""

    workers: list[Worker]
    """All workers of the group now, in the order of joining."""
    joined: list[Worker]
    left: list[Worker]
    """The workers that have left, or died."""


class WorkerMembership(EphemeralMember[K]):
    """The membership of a worker of this session.

    `lost` is set only if the session ends, or somebody takes the name.
    """

    @operation
    def update(self, data: bytes) -> Flow[None]:
        """Replace the data, while the worker is a member.

        Raises:
            LostError: the membership is lost, or the worker has left.
            KeeperError: as for every call.
        """
        yield from self._replace_data(_encode_worker_info(data))


class WorkerGroup(Tool):
    """A group of workers, by name. It pickles; docs/RECIPES.md has its guarantees.

    Members of the group that are no workers are left out, and logged.
    """

    def _on(self, client: FlowRunner) -> Group[Any]:
        """Return the group for the caller's client. A member's data is a `WorkerInfo` as JSON."""
        return Group(client, self.path)

    @tool_operation
    def join(
        self,
        client: FlowRunner,
        name: str | None = None,
        data: bytes = b"",
        timeout_s: float | None = None,
    ) -> ToolFlow[WorkerMembership[Blocking], WorkerMembership[Awaited]]:
        """Become a member, until `leave` or the end of this process's session.

        Args:
            name: The worker's name; None for a new one. If an earlier life of this worker still has
                the name, the call waits for the end of that life.
            data: The data to publish.
            timeout_s: How long to wait for the name.

        Raises:
            WaitTimeoutError: somebody has the name.
            BadArgumentsError: an argument is not acceptable.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        info = _encode_worker_info(data)
        return ToolFlow(self._on(client)._join(name, info, timeout_s, WorkerMembership))

    join_async = awaited(join)
    """`join`, to be awaited in any event loop; so is the membership's `leave`."""

    @tool_operation
    def members(self, client: FlowRunner) -> ToolFlow[list[Worker], list[Worker]]:
        """List the workers, in the order of joining.

        Raises:
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        return ToolFlow(self._members(client))

    members_async = awaited(members)
    """`members`, to be awaited in any event loop."""

    @tool_operation
    def watch(
        self, client: FlowRunner, callback: Callable[[WorkersChange], object]
    ) -> ToolFlow[GroupWatch[Blocking], GroupWatch[Awaited]]:
        """Call `callback` with the workers, now and after each change, until the watch is closed.

        The calls come in a thread of the client, one after the other.

        Raises:
            BadArgumentsError: the callback is a coroutine function, which nobody would await.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        if inspect.iscoroutinefunction(callback):
            raise BadArgumentsError(self.path, "callback is a coroutine function: see watch_async")
        return ToolFlow(Group.watch.flow(self._on(client), self._as_workers(callback)))

    watch_async = awaited(watch)
    """`watch`, to be awaited in any event loop; so is its `close`.

    The callback is called in a thread of the client: use `loop.call_soon_threadsafe` there.
    """

    def _members(self, client: FlowRunner) -> Flow[Any]:
        return workers_of(self.path, (yield from Group.members.flow(self._on(client))))

    def _as_workers(
        self, callback: Callable[[WorkersChange], object]
    ) -> Callable[[GroupChange], object]:
        def tell(change: GroupChange) -> object:
            parts = change.members, change.joined, change.left
            return callback(WorkersChange(*(workers_of(self.path, part) for part in parts)))

        return tell


def workers_of(path: str, members: list[Member]) -> list[Worker]:
    """Return the members that are workers, decoded; log the others."""
    workers = []
    for member in members:
        try:
            workers.append(worker_of(path, member))
        except InvalidValueError as error:
            log.warning("%s", error)
    return workers


def worker_of(path: str, member: Member) -> Worker:
    """Decode a member as a worker.

    Raises:
        InvalidValueError: the member is no worker.
    """
    try:
        said = _decode(member.data)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"{path}: {member.name} is not a worker: {error}") from None
    return Worker(member.name, said.data, said.pid, said.node_id, said.actor_id, member.token)


def _encode_worker_info(data: bytes) -> bytes:
    import ray

    node_id, actor_id = "", None
    if ray.is_initialized():
        context = ray.get_runtime_context()
        node_id, actor_id = context.get_node_id(), context.get_actor_id()
    return _encode(WorkerInfo(checked_bytes("data", data), os.getpid(), node_id, actor_id))
