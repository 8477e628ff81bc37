"""The workers that are there: who joins, who has left or died, as a list that is always current.

    workers = WorkerGroup("coord", "/workers/app")
    me = workers.join(data=b"10.0.0.7:4000")            # in each worker; me.leave(), or its end
    workers.members()                                   # from anywhere
    watch = workers.watch(lambda change: print(change.joined, change.left))

It replaces a register in a named actor, in which the dead stay listed and whose name is "already
taken" by the last run, and the polling of `ray.nodes()` or of pings, which learns late of a death
and never of a process that is alive on a dead connection.

The invariants are those of the recipe (recipes/group.py): a worker is listed from `join` to `leave`
or to the end of its session, which comes as soon as its process is known to be dead. Each worker
shows where Ray runs it.
"""

import logging
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import InvalidValueError
from raykeeper.client.ray_tools.tool import Tool
from raykeeper.client.recipes.group import EphemeralMember, Group, GroupChange, GroupWatch, Member
from raykeeper.client.recipes.primitives import checked_bytes
from raykeeper.client.recipes.recipe import Awaited, Blocking, FlowRunner, K, operation
from raykeeper.zab.ids import Zxid

log = logging.getLogger("raykeeper.client")


class WorkerInfo(Struct, frozen=True):
    """What a worker says of itself."""

    data: bytes
    pid: int
    node_id: str
    actor_id: str | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(WorkerInfo).decode


class Worker(Struct, frozen=True):
    """One worker that is there."""

    name: str
    data: bytes
    """What it said when it joined."""
    pid: int
    node_id: str
    """Ray's, as `ray.nodes()` has it; "" without Ray."""
    actor_id: str | None
    """Ray's, None of a task or driver."""
    token: Zxid
    """Who joined later has a larger one."""


class WorkersChange(Struct, frozen=True):
    """What a watch is told."""

    workers: list[Worker]
    """All that are there now, in the order of joining."""
    joined: list[Worker]
    left: list[Worker]
    """Those that have left, or died."""


class WorkerMembership(EphemeralMember[K]):
    """A worker of this session. `lost` only if the session ends, or somebody takes the name."""

    @operation
    def update(self, data: bytes) -> Flow[None]:
        """Replace the data, for as long as it is a member.

        Raises:
            LostError: it is lost, or has left.
            KeeperError: as for every call.
        """
        yield from self._replace_data(_encode_worker_info(data))


class WorkerGroup(Tool):
    """A group of workers, by name. It pickles; see the module.

    Whoever is in the group and is no worker is left out, and logged.
    """

    def _on(self, client: FlowRunner) -> Group[Any]:
        """The group, of a client that the caller has. Data are a `WorkerInfo` as JSON."""
        return Group(client, self.path)

    def join(
        self, name: str | None = None, data: bytes = b"", timeout_s: float | None = None
    ) -> WorkerMembership[Blocking]:
        """Become a member, until `leave` or the end of this process's session.

        Args:
            name: None for a new one. If an earlier life of this worker still has it, that is waited
                for.
            data: What the others see.
            timeout_s: How long to wait for the name.

        Raises:
            WaitTimeoutError: somebody has the name.
            BadArgumentsError: an argument is not acceptable.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        client = self._get_client()
        joining = self._join_flow(client, name, data, timeout_s)
        membership: WorkerMembership[Blocking] = client._run_flow(joining, "join")
        return membership

    async def join_async(
        self, name: str | None = None, data: bytes = b"", timeout_s: float | None = None
    ) -> WorkerMembership[Awaited]:
        """`join`, to be awaited in any event loop; so is the membership's `leave`.

        Raises:
            WaitTimeoutError: somebody has the name.
            BadArgumentsError: an argument is not acceptable.
            KeeperError: as for every call.
        """
        awaiting = await self._get_client_async()
        joining = self._join_flow(awaiting, name, data, timeout_s)
        membership: WorkerMembership[Awaited] = await awaiting._run_flow(joining, "join")
        return membership

    def members(self) -> list[Worker]:
        """Who is there, in the order of joining.

        Raises:
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        group: Group[Blocking] = self._on(self._get_client())
        return workers_of(self.path, group.members())

    async def members_async(self) -> list[Worker]:
        """`members`, to be awaited in any event loop.

        Raises:
            KeeperError: as for every call.
        """
        group: Group[Awaited] = self._on(await self._get_client_async())
        return workers_of(self.path, await group.members())

    def watch(self, callback: Callable[[WorkersChange], object]) -> GroupWatch[Blocking]:
        """Have `callback` called with who is there, now and after each change, until it is closed.

        It is called in a thread of the client, one call after the other.

        Raises:
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        group: Group[Blocking] = self._on(self._get_client())
        return group.watch(self._as_workers(callback))

    async def watch_async(self, callback: Callable[[WorkersChange], object]) -> GroupWatch[Awaited]:
        """`watch`, to be awaited in any event loop; so is its `close`.

        The callback is called in a thread of the client: use `loop.call_soon_threadsafe` there.

        Raises:
            KeeperError: as for every call.
        """
        group: Group[Awaited] = self._on(await self._get_client_async())
        return await group.watch(self._as_workers(callback))

    def _as_workers(
        self, callback: Callable[[WorkersChange], object]
    ) -> Callable[[GroupChange], object]:
        def tell(change: GroupChange) -> object:
            parts = change.members, change.joined, change.left
            return callback(WorkersChange(*(workers_of(self.path, part) for part in parts)))

        return tell

    def _join_flow(
        self, client: FlowRunner, name: str | None, data: bytes, timeout_s: float | None
    ) -> Flow[Any]:
        return self._on(client)._join(name, _encode_worker_info(data), timeout_s, WorkerMembership)


def workers_of(path: str, members: list[Member]) -> list[Worker]:
    """What those who are workers say of themselves."""
    workers = []
    for member in members:
        try:
            workers.append(worker_of(path, member))
        except InvalidValueError as error:
            log.warning("%s", error)
    return workers


def worker_of(path: str, member: Member) -> Worker:
    """What a member says of itself.

    Raises:
        InvalidValueError: it is no worker.
    """
    try:
        said = _decode(member.data)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"{path}: {member.name} is no worker: {error}") from None
    return Worker(member.name, said.data, said.pid, said.node_id, said.actor_id, member.token)


def _encode_worker_info(data: bytes) -> bytes:
    import ray

    node_id, actor_id = "", None
    if ray.is_initialized():
        context = ray.get_runtime_context()
        node_id, actor_id = context.get_node_id(), context.get_actor_id()
    return _encode(WorkerInfo(checked_bytes("data", data), os.getpid(), node_id, actor_id))
