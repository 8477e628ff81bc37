"""Several configurations that belong together: read at one moment, changed as one.

    both = client.configurations({"/app/database": Database, "/app/limits": Limits})
    both.set({"/app/database": Database("db.prod"), "/app/limits": Limits(100)})
    both.update(lambda now: {"/app/limits": Limits(now["/app/database"].pool * 10)})

The invariant of this file: what `update` writes was made of values that were all there together and
are all still there when it is written; and nobody who reads them here sees some of the old ones
with some of the new ones. Each is a configuration of its own as well (configuration.py).

Paper: section 2.1, the multi operation of later ZooKeeper; etcd: the transaction loops of its STM.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from raykeeper.client.arguments import checked_version
from raykeeper.client.core.flows import CallInCaller, Flow
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    NoNodeError,
)
from raykeeper.client.recipes.compare_and_set import (
    ATTEMPTS_MAX,
    MISSING,
    ObservedValue,
    checkpoint,
)
from raykeeper.client.recipes.configuration import NO_VERSION, ValueCodec, Versioned
from raykeeper.client.recipes.live import Live, OnChange, OnError
from raykeeper.client.recipes.primitives import ensure_path, transact
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation
from raykeeper.client.recipes.value_types import Format
from raykeeper.client.recipes.znode_follower import (
    State,
    ZnodeFollower,
    read_together,
    start_following,
)
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.requests import (
    Compare,
    CompareField,
    Relation,
    TxnOp,
)
from raykeeper.znodes.stat import Stat

PATHS_MAX: Final = 500
"""So that they fit into a transaction, with a condition each."""

ValuesByPath = dict[str, Any]
"""By path."""
VersionedByPath = dict[str, Versioned[Any]]


class LiveConfigurations(Live[K, VersionedByPath]):
    """Several configurations that are followed. `newest` has the values with their versions."""

    @property
    def values(self) -> ValuesByPath | None:
        """The newest valid values by path, of one moment; None if they never were all there."""
        return self._shown(self.newest)

    @property
    def versions(self) -> dict[str, int] | None:
        """Their versions by path; None if they never were all there."""
        newest = self.newest
        return None if newest is None else {path: each.version for path, each in newest.items()}

    def _shown(self, state: VersionedByPath | None) -> ValuesByPath | None:
        """See `Live`: the values alone, as `values` are."""
        return None if state is None else _values(state)


class Configurations(Recipe[K]):
    """Values of types that the user names, by path. Safe to share between threads, or tasks."""

    def __init__(self, client: FlowRunner, kinds: Mapping[str, Any], form: Format = "json") -> None:
        """Use `Client.configurations`."""
        super().__init__(client)
        if not isinstance(kinds, Mapping) or not 0 < len(kinds) <= PATHS_MAX:
            raise BadArgumentsError("", f"kinds must be up to {PATHS_MAX} types by path")
        self._codecs = {path: ValueCodec(path, kind, form) for path, kind in kinds.items()}
        self.paths = tuple(self._codecs)

    @operation
    def get(self) -> Flow[VersionedByPath]:
        """All values, of one moment, with their versions.

        Raises:
            NoNodeError: one of them is missing.
            InvalidValueError: one of them is something else.
            KeeperError: as for every call; ThrottledOpError when they are more than 4 MiB.
        """
        seen = yield from read_together(self.paths)
        versions: VersionedByPath = yield CallInCaller(self._versions, (seen,))
        return versions

    @operation
    def set(
        self, values: Mapping[str, Any], versions: Mapping[str, int] | None = None
    ) -> Flow[VersionedByPath]:
        """Replace some values, or all, as one; what is written, with the versions.

        Each is replaced with all its fields, those too that its type does not know.

        Args:
            values: The new ones by path.
            versions: That they, or others that they depend on, must have; NO_VERSION for none.
                Without one any will do, or none.

        Raises:
            BadArgumentsError: a value is no valid one, or a path is none of these.
            BadVersionError: one has another version; nothing was changed.
            KeeperError: as for every call.
        """
        texts = self._encoded(values, {}, {})
        if not texts:
            raise BadArgumentsError("", "there is nothing to set")
        return _set(values, texts, self._checked_versions({} if versions is None else versions))

    @operation
    def update(self, change: Callable[[ValuesByPath], Mapping[str, Any]]) -> Flow[VersionedByPath]:
        """Replace some values, or all, by what `change` makes of all of them, as one.

        Fields that a newer program has written and a type does not know stay, as in an update of
        one configuration.

        Args:
            change: Is called with the values by path, in the caller's thread, or task; again when
                any of them was replaced meanwhile. It returns the new ones by path; the others
                stay, all of them if it returns none. What it raises ends the update; nothing is
                changed then.

        Raises:
            NoNodeError: one of them is missing.
            InvalidValueError: one of them is something else.
            BadArgumentsError: `change` returned what is no valid value, or for another path.
            BadVersionError: others were quicker again and again; nothing was changed.
            KeeperError: as for every call.
        """
        for _ in range(ATTEMPTS_MAX):
            seen = yield from read_together(self.paths)
            now: VersionedByPath
            now, values, texts = yield CallInCaller(self._changed, (change, seen))
            if not texts:
                return now
            conditions = [seen[path].unchanged_compare(path) for path in self.paths]
            stats = yield from _replace(texts, seen, conditions)
            if stats is not None:
                return now | _versioned(values, stats)
        raise BadVersionError("", f"others changed them {ATTEMPTS_MAX} times in between")

    @operation
    def follow(
        self, on_change: OnChange[ValuesByPath] | None = None, on_error: OnError | None = None
    ) -> Flow[LiveConfigurations[K]]:
        """Keep all of them current from now on, each time as of one moment.

        Versions that are replaced quickly may be passed over.

        Args:
            on_change: Is called with all values after and before a change, the present ones first.
                None after: one is missing. None before: one was.
            on_error: Is called with InvalidValueError when one of them is invalid; the values stay.
                With a KeeperError if they can be followed no more. With what `on_change` raises.
                Without `on_error` the client logs all of these.

        Raises:
            KeeperError: as for every call.
        """
        follower = ZnodeFollower(*self.paths)
        live: LiveConfigurations[K] = LiveConfigurations(
            self._client, self._versions, follower.close, on_change, on_error
        )
        yield from start_following(live, follower)
        return live

    def _versions(self, seen: State) -> VersionedByPath:
        return {path: self._versioned(path, each) for path, each in seen.items()}

    def _versioned(self, path: str, seen: ObservedValue) -> Versioned[Any]:
        if seen.value is None or seen.stat is None:
            raise NoNodeError(path)
        return Versioned(self._codecs[path].decode(seen.value), seen.stat.version)

    def _changed(
        self, change: Callable[[ValuesByPath], Mapping[str, Any]], seen: State
    ) -> tuple[VersionedByPath, Mapping[str, Any], dict[str, bytes]]:
        """Return what was read, the values that `change` makes of it, and their texts."""
        now = self._versions(seen)
        known = {path: self._codecs[path].encode(each.value) for path, each in now.items()}
        values = change(_values(now))
        return now, values, self._encoded(values, seen, known)

    def _encoded(self, values: object, seen: State, known: Mapping[str, bytes]) -> dict[str, bytes]:
        """The bytes of values over what was seen, see `ValueCodec.encode_keeping_unknown`."""
        if not isinstance(values, Mapping):
            raise BadArgumentsError("", f"values must be given by path, not {values!r}")
        return {
            self._checked_path(path): self._codecs[path].encode_keeping_unknown(
                values[path], seen.get(path, MISSING), known.get(path, b"")
            )
            for path in values
        }

    def _checked_versions(self, versions: object) -> dict[str, int]:
        if not isinstance(versions, Mapping):
            raise BadArgumentsError("", f"versions must be given by path, not {versions!r}")
        for path, version in versions.items():
            if checked_version(self._checked_path(path), version) < NO_VERSION:
                raise BadArgumentsError(path, f"there is no version {version}")
        return dict(versions)

    def _checked_path(self, path: object) -> str:
        if not isinstance(path, str) or path not in self._codecs:
            raise BadArgumentsError("", f"none of these configurations: {path!r}")
        return path


def _values(versions: VersionedByPath) -> ValuesByPath:
    return {path: each.value for path, each in versions.items()}


def _versioned(values: Mapping[str, Any], stats: dict[str, Stat]) -> VersionedByPath:
    return {path: Versioned(values[path], stat.version) for path, stat in stats.items()}


def _set(
    values: Mapping[str, Any], texts: dict[str, bytes], wanted: dict[str, int]
) -> Flow[VersionedByPath]:
    paths = dict.fromkeys((*texts, *wanted))
    for _ in range(ATTEMPTS_MAX):
        seen = yield from read_together(paths)
        for path, version in wanted.items():
            stat = seen[path].stat
            if version != (NO_VERSION if stat is None else stat.version):
                raise BadVersionError(path, f"it is not at version {version}")
        conditions = [_stands(path, seen[path], wanted.get(path)) for path in paths]
        stats = yield from _replace(texts, seen, conditions)
        if stats is not None:
            return _versioned(values, stats)
        yield from checkpoint()
    raise BadVersionError("", f"others changed them {ATTEMPTS_MAX} times in between")


def _stands(path: str, seen: ObservedValue, version: int | None) -> Compare:
    """That it has this version, or that it is there, or is not, as it was seen."""
    if version is None or version == NO_VERSION:
        return Compare(path, CompareField.EXISTS, Relation.EQUAL, int(seen.stat is not None))
    return Compare(path, CompareField.VERSION, Relation.EQUAL, version)


def _replace(
    texts: dict[str, bytes], seen: State, conditions: list[Compare]
) -> Flow[dict[str, Stat] | None]:
    """One attempt; None if a condition does not hold, or a parent was missing and is made now."""
    ops: list[TxnOp] = []
    told: dict[str, int] = {}  # where the Stat of each is among the results
    for path, text in texts.items():
        ops += seen[path].write_ops(path, text)
        told[path] = len(ops) - 1
    try:
        is_done, results = yield from transact(ops, conditions)
    except NoNodeError:
        for path in texts:
            if seen[path].stat is None:
                yield from ensure_path(parent_of(path))
        return None
    return {path: results[place] for path, place in told.items()} if is_done else None
