"""A partitioner: a set of partitions divided among the members, each owned by one at most.

    parts = client.partitioner("/shards", ["a", "b", "c"], b"worker 1", on_acquired, on_released)
    with parts:
        ...                                 # on_acquired(partition), on_released(partition)
        [each.name for each in parts.owned]

A member registers as in a group, and owns a partition by an ephemeral znode, whose czxid is the
partition's fencing token. Every member follows all of this with one watch and computes which
member is to own what (`assign_partitions`). A member with too many partitions calls `on_released`,
waits until it has returned, and deletes the znode; only then can another member create it. So the
invariant of this file: no member is told that it owns a partition before the one before it has
returned from `on_released`, or lost its session.

All members must name the same partitions. If their views differ for a moment, a partition may move
once more than needed, or be free a little longer, but it never has two owners.

kazoo: `SetPartitioner`, in which every member releases everything at each change, and which deals
out all partitions anew.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.flows import CallUser, Event, Flow, Gather, Wait
from raykeeper.client.core.results import path_and_stat_of
from raykeeper.client.errors import (
    BadArgumentsError,
    KeeperError,
    NodeExistsError,
    NoNodeError,
    RayKeeperError,
)
from raykeeper.client.recipes.acquirable import LostEvent, current_task_or_thread
from raykeeper.client.recipes.background_recipe import Startable
from raykeeper.client.recipes.group import Membership, become_member, checked_name
from raykeeper.client.recipes.primitives import (
    checked_identifier,
    checked_root,
    ensure_parent,
    identifier_of,
    is_same,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation
from raykeeper.client.recipes.subtree_follower import SubtreeFollower
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import ANY_VERSION, Create, CreateMode, Delete

log = logging.getLogger("raykeeper.client")

PARTITIONS_MAX = 10_000


class _PartitionState(Enum):
    ACQUIRED = 1  # on_acquired has not returned
    OWNED = 2
    RELEASING = 3  # on_released has not returned
    RELEASED = 4


class Partition(Recipe[K]):
    """A partition that this member owns until it has returned from `on_released`."""

    _instead = "pass its `name` and `token` on"

    def __init__(self, client: FlowRunner, name: str, path: str, token: Zxid) -> None:
        """Use `Client.partitioner`."""
        super().__init__(client)
        self.name = name
        self.path = path
        """The path of the owner's ephemeral znode."""
        self.token = token
        """The fencing token: larger than those of all earlier owners of the partition."""
        self.lost: LostEvent[K] = LostEvent(client, f"the partition {name}")
        """Set when the partition was lost without a release: somebody else may own it."""
        self._state = _PartitionState.ACQUIRED
        """For the partitioner."""

    def _repr_parts(self) -> tuple[str, ...]:
        state = "lost" if self.lost.is_set() else self._state.name.lower()
        return self.path, f"token {self.token}", state


Listener = Callable[[Partition[K]], object]


class Partitioner(Startable[K]):
    """One of the members that divide the partitions among them, from `start` to `close`."""

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        partitions: Iterable[str],
        identifier: bytes | None = None,
        on_acquired: Listener[K] | None = None,
        on_released: Listener[K] | None = None,
    ) -> None:
        """Use `Client.partitioner`. See there for the arguments."""
        path = checked_root(path)
        super().__init__(client, f"the partitioner {path}")
        self.path = path
        self.partitions = [checked_name(path, each) for each in partitions]
        """All partitions there are."""
        if not 1 <= len(self.partitions) <= PARTITIONS_MAX:
            raise BadArgumentsError("", f"there may be 1 to {PARTITIONS_MAX} partitions")
        if len(set(self.partitions)) < len(self.partitions):
            raise BadArgumentsError("", "a partition is named twice")
        self._identifier = checked_identifier(identifier)
        check_callbacks(client, on_acquired=on_acquired, on_released=on_released)
        self._on_acquired: Listener[K] | None = on_acquired
        self._on_released: Listener[K] | None = on_released
        self._own_partitions: dict[str, Partition[K]] = {}
        self._owns_share = False
        self._wakeup = Event()  # a callback has returned, or `close` was called
        self._name_lost = Event()  # another member has the name of this one
        self._follower = SubtreeFollower(path, depth=2, needs_root=True)
        self._callers: list[object] = []  # threads, or tasks, in callbacks

    def _activity(self) -> str:
        return f"owns {len(self.owned)} of {len(self.partitions)} partitions"

    @property
    def owned(self) -> list[Partition[K]]:
        """The partitions that this member owns and need not release, in their order."""
        mine = dict(self._own_partitions)
        owned = [mine[name] for name in self.partitions if name in mine]
        return [
            each
            for each in owned
            if each._state in (_PartitionState.ACQUIRED, _PartitionState.OWNED)
            and not each.lost.is_set()
        ]

    @operation
    def wait(self, timeout_s: float | None = None) -> Flow[list[Partition[K]]]:
        """Wait until this member owns its share, as far as it knows the others; return `owned`.

        Raises:
            WaitTimeoutError: other members have not released all of it yet.
            RecipeError: the partitioner is not started, or closed.
            KeeperError: the partitioner failed, or the session is over.
        """
        yield timeout_after(timeout_s, f"{self._what} does not own its share")
        yield from self._wait_until(lambda: self._owns_share)
        return self.owned

    def _close(self) -> Flow[None]:
        """Wait for the end, but not in a callback of this partitioner; see `BackgroundRecipe`."""
        if current_task_or_thread() in self._callers:
            yield from self._release()
        else:
            yield from super()._close()

    def _release(self) -> Flow[None]:
        """Begin to end; the end is when all partitions are released; see `BackgroundRecipe`."""
        yield from ()
        self._is_closed = True
        self._wakeup.set()
        self._changed.notify_all()

    def _work(self) -> Flow[None]:
        """See `BackgroundRecipe`."""
        failure: Exception | None = None
        try:
            membership = yield from self._become_member()
            try:
                yield from self._follower.open()
                while not self.is_closed:
                    if self._name_lost.is_set():
                        membership = yield from self._become_member()
                    yield from self._rebalance(membership)
                    if not self.is_closed:
                        yield Wait((self._follower.changed, self._wakeup, self._name_lost))
            except RayKeeperError as error:
                failure = error
            yield from membership._release()  # the others may acquire what is free from now on
            while self._own_partitions:
                yield from self._rebalance(None)
                if self._own_partitions:
                    yield Wait((self._follower.changed, self._wakeup))
        except RayKeeperError as error:
            failure = error
            yield from self._mark_lost(list(self._own_partitions.values()))
        self._owns_share = False
        yield from self._follower.close()
        if failure is not None:
            raise failure

    def _become_member(self) -> Flow[Membership[K]]:
        """Become a member, by a new name: if somebody deletes the members, one is given again."""
        self._name_lost.drain()
        membership: Membership[K] = yield from become_member(
            self._client,
            join(self.path, "members"),
            None,
            identifier_of(self._client, self._identifier),
        )
        membership.lost._subscribe(self._name_lost)
        return membership

    def _rebalance(self, membership: Membership[K] | None) -> Flow[None]:
        """Release, delete and acquire what can be now; without a membership, acquire nothing."""
        while True:
            self._wakeup.drain()
            yield from self._follower.catch_up()
            yield from self._mark_lost(
                [
                    each
                    for each in self._own_partitions.values()
                    if not self._owner_znode_exists(each)
                ]
            )
            me = None if membership is None else membership.name
            wanted = self._target_partitions(me)
            for each in self._own_partitions.values():
                if each.name not in wanted and each._state is _PartitionState.OWNED:
                    each._state = _PartitionState.RELEASING
                    yield from self._call_listener(
                        self._on_released, each, _PartitionState.RELEASED
                    )
            done = yield from self._delete_released()
            if me is not None:
                done = (yield from self._acquire_free(me, wanted)) or done
            self._owns_share = me is not None and wanted == {each.name for each in self.owned}
            if not done and not self._wakeup.is_set() and not self._follower.changed.is_set():
                self._changed.notify_all()
                return

    def _target_partitions(self, me: str | None) -> set[str]:
        """Return the partitions that this member is to own."""
        if me is None:
            return set()
        znodes = self._follower.mirror.children_of(join(self.path, "members"))
        members = {name: Zxid(znode.stat.czxid) for name, znode in znodes.items()}
        # If somebody has deleted our member, it is about to be created again.
        members.setdefault(me, Zxid(1 << 62))
        in_order = sorted(members, key=lambda each: (members[each], each))
        wanted = assign_partitions(in_order, self.partitions, self._owners())
        return {partition for partition, owner in wanted.items() if owner == me}

    def _owners(self) -> dict[str, str]:
        znodes = self._follower.mirror.children_of(join(self.path, "owners"))
        return {name: znode.value.decode(errors="replace") for name, znode in znodes.items()}

    def _owner_znode_exists(self, partition: Partition[K]) -> bool:
        znode = self._follower.mirror.get(partition.path)
        return znode is not None and znode.stat.czxid == partition.token

    def _mark_lost(self, lost: list[Partition[K]]) -> Flow[None]:
        """Report that these are lost: their znodes are gone, or go with the session."""
        for each in lost:
            del self._own_partitions[each.name]
            each.lost._set()
            if each._state in (_PartitionState.ACQUIRED, _PartitionState.OWNED):
                each._state = _PartitionState.RELEASING
                yield from self._call_listener(self._on_released, each, _PartitionState.RELEASED)

    def _delete_released(self) -> Flow[bool]:
        """Delete the znodes of which `on_released` has returned; return whether there were any."""
        released = [
            each
            for each in self._own_partitions.values()
            if each._state is _PartitionState.RELEASED
        ]
        for each in released:
            yield from transact([Delete(each.path, ANY_VERSION)], [is_same(each.path, each.token)])
            self._own_partitions.pop(each.name, None)
        return bool(released)

    def _acquire_free(self, me: str, wanted: set[str]) -> Flow[bool]:
        """Create the znodes of the free partitions; return whether to look again."""
        taken = self._owners()
        free = [
            p
            for p in self.partitions
            if p in wanted and p not in taken and p not in self._own_partitions
        ]
        if not free:
            return False
        root, value = join(self.path, "owners"), me.encode()
        creations: list[Any] = [
            Create(join(root, name), value, CreateMode.EPHEMERAL) for name in free
        ]
        outcomes = yield Gather(creations, path_and_stat_of)
        if any(isinstance(each, NoNodeError) for each in outcomes):
            yield from ensure_parent(root, stays=True)
        for name, outcome in zip(free, outcomes, strict=True):
            if isinstance(outcome, NoNodeError | NodeExistsError):
                continue
            if isinstance(outcome, KeeperError):
                raise outcome
            partition: Partition[K] = Partition(self._client, name, outcome[0], outcome[1].czxid)
            self._own_partitions[name] = partition
            yield from self._call_listener(self._on_acquired, partition, _PartitionState.OWNED)
        # A znode that exists already will be seen, unless we may not read it.
        return not all(isinstance(each, NodeExistsError) for each in outcomes)

    def _call_listener(
        self, listener: Listener[K] | None, partition: Partition[K], after: _PartitionState
    ) -> Flow[None]:
        """Call `listener`; the partition comes to the state `after` when it has returned."""
        if listener is None:
            partition._state = after
            self._wakeup.set()
        else:
            yield CallUser(self._run_listener, (listener, partition, after))

    def _run_listener(
        self, listener: Listener[K], partition: Partition[K], after: _PartitionState
    ) -> object:
        """Call the listener, where callbacks run, and report its return."""
        returned: object = None
        self._callers.append(me := current_task_or_thread())
        try:
            returned = listener(partition)
        except Exception:
            log.exception("a callback raised")
        finally:
            self._callers.remove(me)
        if inspect.isawaitable(returned):
            return self._await_listener(returned, partition, after)
        try:
            return self._client._run_flow(self._listener_returned(partition, after), "release")
        except RayKeeperError:
            return None  # the session is over

    async def _await_listener(
        self, returned: Awaitable[object], partition: Partition[K], after: _PartitionState
    ) -> None:
        self._callers.append(me := current_task_or_thread())
        try:
            await returned
        finally:
            self._callers.remove(me)
            with suppress(RayKeeperError):  # the session is over
                await self._client._run_flow(self._listener_returned(partition, after), "release")

    def _listener_returned(self, partition: Partition[K], after: _PartitionState) -> Flow[None]:
        yield from ()
        partition._state = after
        self._wakeup.set()


def assign_partitions(
    members: Sequence[str], partitions: Sequence[str], owners: Mapping[str, str]
) -> dict[str, str]:
    """Return the member that is to own each partition: evenly, with as few moves as possible.

    Every member computes this alone, from the members and the present owners, and comes to the
    same answer. The invariants: the shares of two members differ by one at most; a member keeps
    what it may keep; carried out, the answer is the same as before.

    Args:
        members: In the order of joining, at least one.
        partitions: All there are.
        owners: The present owners of partitions. An owner that is no member is about to leave: its
            partitions are left out of the answer until they are free.
    """
    owned: dict[str, list[str]] = {member: [] for member in members}
    unowned: list[str] = []
    for partition in partitions:
        owner = owners.get(partition)
        if owner is None:
            unowned.append(partition)
        elif owner in owned:
            owned[owner].append(partition)
    least, more = divmod(len(partitions), len(members))
    # A member that owns most already may have one of those that are left over.
    by_load = sorted(members, key=lambda member: -len(owned[member]))
    quota = {member: least + (place < more) for place, member in enumerate(by_load)}
    for member in members:
        unowned += owned[member][quota[member] :]
        del owned[member][quota[member] :]
    place_of = {partition: place for place, partition in enumerate(partitions)}
    waiting = iter(sorted(unowned, key=place_of.__getitem__))
    for member in members:
        for _ in range(quota[member] - len(owned[member])):
            partition = next(waiting, "")
            if partition:
                owned[member].append(partition)
    return {partition: member for member, share in owned.items() for partition in share}
