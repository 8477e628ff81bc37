"""A configuration of many znodes that is seen as a whole or not at all: the ready znode.

    routes = client.published("/app/routes")
    routes.publish({"web": b"10.0.0.1", "db": b"10.0.0.2"})     # all of it, as a new version
    routes.read().values["web"]
    with routes.follow(lambda new, old: print(new.version)) as live: ...

        <path>/publishing/p-…       ephemeral, one for each publication under way
        <path>/versions/<version>…  one for each version, with a child for each value
        <path>/ready                names the complete version

In the paper the leader deletes `ready`, changes the znodes and creates `ready` again, so a leader
that dies in between leaves no configuration. Here each version has znodes of its own, and a
publication ends with one transaction by which `ready` names the new version. Until then, and
whatever becomes of the publisher, the previous version stays complete. A version may be larger than
a transaction.

The invariants of this file: `ready` names only versions that are whole, and only newer ones; nobody
deletes a version that `ready` names, or that is being written. So a reader that finds the same
`ready` before and after it has read a version has read all of it.

Paper: sections 2.3 and 2.4, the ready znode.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client.core.compound_operations import read_many
from raykeeper.client.core.flows import Cancelled, Flow, Gather
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    InvalidValueError,
    KeeperError,
    LostError,
    NoNodeError,
    RayKeeperError,
)
from raykeeper.client.recipes.compare_and_set import (
    ATTEMPTS_MAX,
    MISSING,
    ObservedValue,
    checkpoint,
    contention_error,
    read_current,
)
from raykeeper.client.recipes.live import Live, OnChange, OnError
from raykeeper.client.recipes.primitives import (
    batches,
    best_effort_cleanup,
    checked_bytes,
    checked_root,
    create,
    delete_if_same,
    get_all,
    get_children,
    is_same,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.client.recipes.znode_follower import State, ZnodeFollower, start_following
from raykeeper.znodes.paths import is_valid_name, join
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    Delete,
    ReadChildren,
    ReadData,
    ReadStat,
    TxnOp,
)

TRANSACTION_OPS_MAX: Final = 200
TRANSACTION_BYTES_MAX: Final = 1 << 20
"""The size of the transactions that write a version; a single value may be longer."""


class PublishedVersion(Struct, frozen=True):
    """One version of all values."""

    version: int
    """Larger than the number of every earlier version."""
    values: dict[str, bytes]
    """By name."""


class _ReadyRecord(Struct, frozen=True):
    """The value of the ready znode, as JSON."""

    version: int
    znode: str
    count: int


class Published(PortableRecipe[K]):
    """Values by name, published as a whole."""

    def __init__(self, client: FlowRunner, path: str) -> None:
        """Use `Client.published`."""
        super().__init__(client)
        self.path = checked_root(path)
        self._ready = join(path, "ready")
        self._versions = join(path, "versions")
        self._publishing = join(path, "publishing")

    @operation
    def publish(self, values: Mapping[str, bytes]) -> Flow[int]:
        """Publish these values, and no others, as a new version; return its number.

        Raises:
            BadArgumentsError: a name cannot be that of a znode, or a value is not bytes.
            BadVersionError: a publication that began later was faster; this one was not published.
            LostError: somebody deleted what was being written; it was not published.
            KeeperError: if the error is not `definite`, the version may have been published; if it
                was not, the next publication deletes what it left.
        """
        checked = _checked_values(self.path, values)
        prefix = join(self._publishing, "p-")
        marker, stat = yield from create(prefix, ephemeral=True, sequence=True)
        made: list[str] = []
        try:
            name = f"{stat.czxid:020d}-{marker.rpartition('/')[2]}"
            for part in _transactions(join(self._versions, name), checked):
                yield from checkpoint()
                yield from self._write(part)
                made += [each.path for each in part]
            yield from self._commit_version(marker, _ReadyRecord(stat.czxid, name, len(checked)))
        except (Cancelled, RayKeeperError) as error:
            # A version that `ready` may name by now must stay. If `ready` does not name it, other
            # publications delete it, since its marker is gone.
            is_known = not isinstance(error, KeeperError) or error.definite
            doomed = reversed(made) if is_known else ()
            yield Gather([Delete(path, ANY_VERSION) for path in doomed])
            yield from best_effort_cleanup([delete_if_same(marker, stat.czxid)])
            raise
        yield from self._delete_old_versions()
        return stat.czxid

    @operation
    def read(self) -> Flow[PublishedVersion]:
        """Return the newest version that this client's server knows, as a whole.

        Raises:
            NoNodeError: nothing was published.
            InvalidValueError: outsiders have written, or deleted, a part of the version.
            BadVersionError: it was replaced each time while it was read.
        """
        version, _ = yield from self._read((yield from read_current(self._ready)))
        if version is None:
            raise NoNodeError(self._ready)
        return version

    @operation
    def follow(
        self, on_change: OnChange[PublishedVersion] | None = None, on_error: OnError | None = None
    ) -> Flow[Live[K, PublishedVersion]]:
        """Keep the newest version current from now on, until it is closed or the session ends.

        Versions that are replaced quickly may be passed over.

        Args:
            on_change: Called with each version and the one before, with the present one first. The
                new one is None if somebody deleted the ready znode, the old one if there was none.
            on_error: As for `Configuration.follow`: when outsiders have damaged the version, the
                last whole one stays.
        """
        follower = ZnodeFollower(self._ready)
        live: Live[K, PublishedVersion] = Live(
            self._client, [self.path], _identity, follower.close, on_change, on_error
        )
        yield from start_following(live, follower, partial(self._deliver, live))
        return live

    def _write(self, part: list[Create]) -> Flow[None]:
        try:
            yield from transact(part)
            return
        except NoNodeError:
            yield Gather([Create(self._versions, b"", 0)])  # this may be the first ever
        try:
            yield from transact(part)
        except NoNodeError as error:
            raise LostError(f"somebody deleted {error.path} while it was published") from error

    def _commit_version(self, marker: str, ready: _ReadyRecord) -> Flow[None]:
        """End a publication: have `ready` name it, in one transaction."""
        is_ours = is_same(marker, ready.version)
        seen = yield from read_current(self._ready)
        for _ in range(ATTEMPTS_MAX):
            if self._version_number(seen) > ready.version:
                raise BadVersionError(self._ready, "a newer version was published meanwhile")
            ops: list[TxnOp] = [Delete(marker, ANY_VERSION)]
            ops += seen.write_ops(self._ready, msgspec.json.encode(ready))
            is_done, results = yield from transact(
                ops, [is_ours, seen.unchanged_compare(self._ready)], [ReadStat(marker)]
            )
            if is_done:
                return
            if results[0] is None or results[0].czxid != ready.version:
                raise LostError(f"somebody deleted {marker} while it was published")
            yield from checkpoint()
            seen = yield from read_current(self._ready)
        raise contention_error(self._ready)

    def _delete_old_versions(self) -> Flow[None]:
        """Delete all versions that are neither named by `ready` nor being written."""
        reads = ReadData(self._ready), ReadChildren(self._versions), ReadChildren(self._publishing)
        try:
            named, versions, busy = yield from read_many(reads)
            if isinstance(named, KeeperError) or isinstance(versions, KeeperError):
                return
            ready = self._parsed(ObservedValue(*named))
            at_work = set() if isinstance(busy, KeeperError) else set(busy)
            for name in versions:
                if name != ready.znode and name.partition("-")[2] not in at_work:
                    yield from self._delete(join(self._versions, name))
        except RayKeeperError:
            return  # the next publication deletes what is left

    def _delete(self, version: str) -> Flow[None]:
        names: list[str] = yield from get_children(version)
        paths = [*(join(version, name) for name in names), version]
        for batch in batches(paths):
            yield Gather([Delete(path, ANY_VERSION) for path in batch])

    def _read(self, seen: ObservedValue) -> Flow[tuple[PublishedVersion | None, ObservedValue]]:
        """Return the version that `ready` names, or a newer one, and what `ready` said then.

        Raises:
            InvalidValueError: outsiders have damaged the version.
            BadVersionError: it was replaced each time while it was read.
        """
        for _ in range(ATTEMPTS_MAX):
            if seen is MISSING:
                return None, seen
            ready = self._parsed(seen)
            values, again = yield from self._values(join(self._versions, ready.znode))
            if not again.differs_from(seen):
                if len(values) != ready.count:
                    found = f"has {len(values)} values of {ready.count}"
                    raise InvalidValueError(f"the version of {self.path} {found}")
                return PublishedVersion(ready.version, values), seen
            seen = again
            yield from checkpoint()
        raise contention_error(self._ready)

    def _values(self, version: str) -> Flow[tuple[dict[str, bytes], ObservedValue]]:
        """Return the values that there are of a version, and what `ready` says after that."""
        names: list[str] = sorted((yield from get_children(version)))
        values: dict[str, bytes] = {}
        for batch in batches(names):
            found = yield from get_all(join(version, name) for name in batch)
            values |= {name: each[0] for name, each in zip(batch, found, strict=True) if each}
        return values, (yield from read_current(self._ready))

    def _version_number(self, seen: ObservedValue) -> int:
        """Return the number that `ready` names; 0 for none, or if outsiders have written it."""
        try:
            return 0 if seen is MISSING else self._parsed(seen).version
        except InvalidValueError:
            return 0

    def _parsed(self, seen: ObservedValue) -> _ReadyRecord:
        try:
            return msgspec.json.decode(seen.value or b"", type=_ReadyRecord)
        except msgspec.MsgspecError as error:
            raise InvalidValueError(f"{self._ready} names no version: {error}") from error

    def _deliver(self, live: Live[Any, PublishedVersion], state: State) -> Flow[State]:
        """Give `live` the version that `ready` names; return what `ready` said at that time."""
        seen = state[self._ready]
        try:
            version, seen = yield from self._read(seen)
        except InvalidValueError as error:
            yield from live._on_state(error)
        else:
            yield from live._on_state(version)
        return {self._ready: seen}


def _checked_values(path: str, values: object) -> dict[str, bytes]:
    if not isinstance(values, Mapping):
        raise BadArgumentsError(path, f"values must be bytes by name, not {values!r}")
    for name in values:
        if not isinstance(name, str) or "/" in name or not is_valid_name(name):
            raise BadArgumentsError(path, f"not a name: {name!r}")
        checked_bytes(f"the value of {name}", values[name])
    return dict(values)


def _transactions(version: str, values: dict[str, bytes]) -> Iterator[list[Create]]:
    """Return the creations of a version, divided into transactions."""
    part, size = [Create(version, b"", 0)], 0
    for name, value in values.items():
        if len(part) >= TRANSACTION_OPS_MAX or size + len(value) > TRANSACTION_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(Create(join(version, name), value, 0))
        size += len(value)
    yield part


def _identity(version: PublishedVersion) -> PublishedVersion:
    return version
