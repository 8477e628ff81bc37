"""Group membership: the members in the order of joining, each for as long as its session lives.

    group = client.group("/workers")
    me = group.join("worker-1", b"10.0.0.7:4000")
    watch = group.watch(lambda change: print(change.members, change.joined, change.left))
    me.leave()

A member is an ephemeral child. The invariant of this file: from `join` to `leave`, or to the end of
the session, the member's znode exists, or is being created again because somebody deleted it; after
`leave` it does not exist. A watch reports the present members first and each change afterwards.
Changes that arrive together are reported together; the last call always reports what is.

Paper: section 2.4, "Group Membership". kazoo: `Party`. Curator: `GroupMember`, `PersistentNode`.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from raykeeper.client import arguments
from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.errors import (
    BadArgumentsError,
    KeeperError,
    LostError,
    NoAuthError,
    NodeExistsError,
    RayKeeperError,
)
from raykeeper.client.recipes.acquirable import Held, spawn_guard
from raykeeper.client.recipes.background_recipe import Report
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_bytes,
    checked_root,
    create,
    get_all,
    get_children,
    get_or_none,
    remove_watch,
    stat_or_none,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.client.recipes.subtree_follower import SubtreeFollower
from raykeeper.client.recipes.tree_mirror import CachedZnode, TreeChange
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import ANY_VERSION, Delete, SetData, TxnOp
from raykeeper.znodes.stat import Stat

PREFIX = "member-"


class Member(Struct, frozen=True):
    """One member of a group."""

    name: str
    data: bytes
    session_id: int
    token: Zxid
    """The zxid of joining: a member that joined later has a larger one."""


class _NameAndToken(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def token(self) -> Zxid: ...


M = TypeVar("M", bound=_NameAndToken)


class GroupChange(Struct, frozen=True):
    """The argument of a group's watch callback."""

    members: list[Member]
    """All present members, in the order of joining."""
    joined: list[Member]
    left: list[Member]
    updated: list[Member]
    """Those with new data."""


class EphemeralMember(Held[K]):
    """A member of this session. It is lost only if the session ends, or somebody takes the name."""

    def __init__(self, client: FlowRunner, path: str, token: Zxid, data: bytes) -> None:
        """Use `Group.join`."""
        super().__init__(client, f"the membership {path}", path, token)
        self._data = data

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.path.rpartition("/")[2]

    def _replace_data(self, data: bytes) -> Flow[None]:
        """Replace the data that others see.

        Raises:
            LostError: the membership is lost, or was left.
        """
        self.lost.check()
        if self._is_released:
            raise LostError(f"{self._what} was left before")
        self._data = data
        # If the znode is missing now, it is created again with these data.
        yield from self._transact_if_own(SetData(self.path, data, ANY_VERSION))

    @operation
    def leave(self) -> Flow[None]:
        """Leave the group. A second call does nothing.

        Raises:
            LostError: the membership was lost before.
            KeeperError: it is unknown whether the member has left; it leaves with the session.
        """
        yield from self._release_or_raise()

    def _remove(self) -> Flow[bool]:
        """Delete the znode, if it is there and this member's; see `Held`."""
        yield from self._transact_if_own(Delete(self.path, ANY_VERSION))
        return True

    def _guard(self) -> Flow[None]:
        """Create the znode again when somebody deletes it; see `Held`."""
        try:
            while not self._is_released:
                self._changed.drain()
                mine = yield from get_or_none(self.path, self._changed)
                if self._is_released:
                    break
                if mine is None:
                    yield from self._recreate()
                elif mine[1].czxid != self.token:
                    yield from remove_watch(self.path, self._changed)
                    break  # somebody has taken the name
                else:
                    yield Wait((self._changed,))
        except KeeperError:
            pass  # the session is over, or the client may not create the znode again
        if not self._is_released:
            self.lost._set()

    def _recreate(self) -> Flow[None]:
        data = self._data
        try:
            _, stat = yield from create(self.path, data, ephemeral=True)
        except NodeExistsError:
            return  # the guard's next read tells whose it is
        self.token = stat.czxid
        if self._is_released:
            yield from best_effort_cleanup([self._removal()])
        elif self._data != data:
            yield from self._transact_if_own(SetData(self.path, self._data, ANY_VERSION))

    def _transact_if_own(self, op: TxnOp) -> Flow[None]:
        yield from transact([op], [self._still_held_compare()])


class Membership(EphemeralMember[K]):
    """A member with data of any kind."""

    @operation
    def update(self, data: bytes) -> Flow[None]:
        """Replace the data that others see, for as long as this is a member.

        Raises:
            LostError: the membership is lost, or was left.
        """
        yield from self._replace_data(checked_bytes("data", data))


class Group(PortableRecipe[K]):
    """A group, for its members and for its observers."""

    def __init__(self, client: FlowRunner, path: str) -> None:
        """Use `Client.group`."""
        super().__init__(client)
        self.path = checked_root(path)

    @operation
    def join(
        self, name: str | None = None, data: bytes = b"", timeout_s: float | None = None
    ) -> Flow[Membership[K]]:
        """Become a member, until `leave` or the end of the session.

        Args:
            name: None for a new name. If another session has the name, `join` waits for it: that
                may be an earlier life of this member, whose session is not over yet.
            data: What the others see.

        Raises:
            WaitTimeoutError: somebody else has the name.
            BadArgumentsError: an argument is not acceptable.
        """
        membership: Membership[K] = yield from self._join(name, data, timeout_s)
        return membership

    def _join(
        self,
        name: str | None,
        data: bytes,
        timeout_s: float | None,
        kind: type[EphemeralMember[Any]] = Membership,
    ) -> Flow[Any]:
        """Return the flow of `join`, for a member of this `kind`."""
        data = checked_bytes("data", data)
        if name is not None:
            checked_name(self.path, name)
        yield timeout_after(timeout_s, f"{self.path} has another member {name}")
        return (yield from become_member(self._client, self.path, name, data, kind))

    @operation
    def members(self) -> Flow[list[Member]]:
        """Return the members, in the order of joining."""
        names = yield from get_children(self.path)
        found = yield from get_all((join(self.path, name) for name in names), NoAuthError)
        pairs = zip(names, found, strict=True)
        return _members_of({name: CachedZnode(*each) for name, each in pairs if each})

    @operation
    def watch(self, callback: Callable[[GroupChange], object]) -> Flow["GroupWatch[K]"]:
        """Call `callback` with the members, now and after each change, until it is closed."""
        watch: GroupWatch[K] = GroupWatch(self._client, self.path, callback)
        yield from watch._open()
        return watch


class GroupWatch(Report[K]):
    """Reports the members, until it is closed. It costs one watch, and no request for a change."""

    def __init__(
        self, client: FlowRunner, path: str, callback: Callable[[GroupChange], object]
    ) -> None:
        """Use `Group.watch`."""
        super().__init__(client, f"the watch of {path}", path, callback)

    def _work(self) -> Flow[None]:
        """See `BackgroundRecipe`."""
        follower = SubtreeFollower(self._path, depth=1, needs_root=True)
        members = _SortedMembers(self._path)
        try:
            changes = yield from follower.open()
            while True:
                changed = members.apply(changes)
                if any(changed) or not self._has_reported:
                    yield from self._report(GroupChange(members.in_order(), *changed))
                changes = yield from follower.next_changes()
        except (Cancelled, RayKeeperError):
            yield from follower.close()
            raise


class _SortedMembers:
    """The members in the order of joining; a change of one costs nothing for the others."""

    def __init__(self, path: str) -> None:
        """`path` is the group's."""
        self._path = path
        self._by_name: dict[str, Member] = {}
        self._sorted: list[Member] = []

    def in_order(self) -> list[Member]:
        """Return the present members, in a list of the caller's own."""
        return list(self._sorted)

    def apply(
        self, changes: Iterable[TreeChange]
    ) -> tuple[list[Member], list[Member], list[Member]]:
        """Apply changes of the znodes; return the members that joined, that left, with new data."""
        znodes = {
            change.path.rpartition("/")[2]: change.new
            for change in changes
            if change.path != self._path
        }
        before = [self._by_name[name] for name in znodes if name in self._by_name]
        now = _members_of({name: znode for name, znode in znodes.items() if znode})
        for member in before:
            del self._by_name[member.name]
            del self._sorted[bisect_left(self._sorted, _order(member), key=_order)]
        for member in now:
            self._by_name[member.name] = member
            insort(self._sorted, member, key=_order)
        return membership_changes(sorted(before, key=_order), now)


def become_member(
    client: FlowRunner,
    path: str,
    name: str | None,
    data: bytes,
    kind: type[EphemeralMember[Any]] = Membership,
    prefix: str = PREFIX,
) -> Flow[Any]:
    """Create the znode of a member of this `kind`, and begin to guard it."""
    if name is None:
        made = yield from create(join(path, prefix), data, ephemeral=True, sequence=True)
    else:
        made = yield from _create_when_free(join(path, name), data)
    return (yield from spawn_guard(kind(client, made[0], made[1].czxid, data)))


def _create_when_free(own: str, data: bytes) -> Flow[tuple[str, Stat]]:
    event = Event()
    while True:
        try:
            return (yield from create(own, data, ephemeral=True))
        except NodeExistsError:
            event.drain()
        if (yield from stat_or_none(own, event)) is None:
            continue
        try:
            yield Wait((event,))
        except (Cancelled, KeeperError):
            yield from best_effort_cleanup([], [(own, event)])
            raise


def membership_changes(before: Sequence[M], now: Sequence[M]) -> tuple[list[M], list[M], list[M]]:
    """Return the members that have joined, that have left, and that have new data.

    A member that left and joined again counts as one that left and one that joined.
    """
    old = {(each.token, each.name): each for each in before}
    new = {(each.token, each.name): each for each in now}
    return (
        [each for key, each in new.items() if key not in old],
        [each for key, each in old.items() if key not in new],
        [each for key, each in new.items() if old.get(key, each) != each],
    )


def _members_of(znodes: dict[str, CachedZnode]) -> list[Member]:
    found = [
        Member(name, znode.value, znode.stat.ephemeral_owner, znode.stat.czxid)
        for name, znode in znodes.items()
    ]
    return sorted(found, key=_order)


def _order(member: Member) -> tuple[Zxid, str]:
    return member.token, member.name


def checked_name(path: str, name: object) -> str:
    """Check the name of a znode below `path`, and return it.

    Raises:
        BadArgumentsError: no znode can have the name.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise BadArgumentsError("", f"a name is text without a slash, not {name!r}")
    arguments.checked_path(join(path, name))
    return name
