"""Several configurations that belong together: read at one moment, changed as one.

    both = client.configurations({"/app/database": Database, "/app/limits": Limits})
    both.set({"/app/database": Database("db.prod"), "/app/limits": Limits(100)})
    both.update(lambda now: {"/app/limits": Limits(now["/app/database"].pool * 10)})

The invariant of this file: `update` writes what was made of values that were all there at one
moment and are all still there at the moment of the write; no reader sees some old values beside
some new ones. Each of them is a configuration of its own as well (configuration.py).

Paper: section 2.1, the multi operation of later ZooKeeper; etcd: the transaction loops of its STM.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from raykeeper.client.arguments import checked_version
from raykeeper.client.core.flows import CallInCaller, Flow
from raykeeper.client.errors import BadArgumentsError, BadVersionError, NoNodeError
from raykeeper.client.recipes.compare_and_set import (
    ATTEMPTS_MAX,
    MISSING,
    ObservedValue,
    checkpoint,
)
from raykeeper.client.recipes.configuration import NO_VERSION, ValueCodec, Versioned
from raykeeper.client.recipes.live import Live, OnChange, OnError
from raykeeper.client.recipes.primitives import ensure_parent, transact
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.client.recipes.value_types import Format
from raykeeper.client.recipes.znode_follower import (
    State,
    ZnodeFollower,
    read_together,
    start_following,
)
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.requests import Compare, CompareField, Relation, TxnOp
from raykeeper.znodes.stat import Stat

PATHS_MAX: Final = 500
"""All of them, with a condition each, must fit into one transaction."""

ValuesByPath = dict[str, Any]
"""By path."""
VersionedByPath = dict[str, Versioned[Any]]


class LiveConfigurations(Live[K, VersionedByPath]):
    """The newest values of several configurations, kept current; `newest` has the versions too."""

    def _shown_version(self) -> object:
        """See `Live`."""
        return tuple((self.versions or {}).values())

    @property
    def values(self) -> ValuesByPath | None:
        """The newest valid values of one moment, by path; None if they never were all there."""
        return self._shown(self.newest)

    @property
    def versions(self) -> dict[str, int] | None:
        """Their versions by path; None if they never were all there."""
        newest = self.newest
        return None if newest is None else {path: each.version for path, each in newest.items()}

    def _shown(self, state: VersionedByPath | None) -> ValuesByPath | None:
        """Return the values without their versions; see `Live`."""
        return None if state is None else _values(state)


class Configurations(PortableRecipe[K]):
    """Values of types that the user names, by path. Safe to share between threads, or tasks."""

    _instead = "pass its paths and types on, and make one there"

    def __init__(self, client: FlowRunner, kinds: Mapping[str, Any], form: Format = "json") -> None:
        """Use `Client.configurations`."""
        super().__init__(client)
        if not isinstance(kinds, Mapping) or not 0 < len(kinds) <= PATHS_MAX:
            raise BadArgumentsError("", f"kinds must be up to {PATHS_MAX} types by path")
        self._codecs = {path: ValueCodec(path, kind, form) for path, kind in kinds.items()}
        self.paths = tuple(self._codecs)

    def _repr_parts(self) -> tuple[str, ...]:
        return self.paths

    @operation
    def get(self) -> Flow[VersionedByPath]:
        """Return all values of one moment, with their versions.

        Raises:
            NoNodeError: one of them is missing.
            InvalidValueError: one of them is not valid.
            ThrottledOpError: they are more than 4 MiB.
        """
        seen = yield from read_together(self.paths)
        versions: VersionedByPath = yield CallInCaller(self._versions, (seen,))
        return versions

    @operation
    def set(
        self, values: Mapping[str, Any], versions: Mapping[str, int] | None = None
    ) -> Flow[VersionedByPath]:
        """Replace some values, or all, as one; return the written values with their versions.

        Each is replaced as a whole, also fields that its type does not know.

        Args:
            values: The new values by path.
            versions: The versions that these values, or others that they depend on, must have, by
                path; NO_VERSION if there must be no znode. A path that is not here may have any
                version, or no znode.

        Raises:
            BadArgumentsError: a value is not valid, or a path is not one of these configurations.
            BadVersionError: one has another version; nothing was changed.
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
            change: Gets the values by path and returns the new ones by path; the others stay, all
                of them if it returns none. The caller's thread, or task, calls it, and calls it
                again if any of the values was replaced meanwhile. An error that it raises ends the
                update; nothing is changed.

        Raises:
            NoNodeError: one of them is missing.
            InvalidValueError: one of them is not valid.
            BadArgumentsError: `change` returned a value that is not valid, or another path.
            BadVersionError: others changed the values each time meanwhile; nothing was changed.
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
            on_change: Called with all values after a change and before it, with the present values
                first. The new ones are None if one is missing, the old ones if one was missing.
            on_error: As for `Configuration.follow`: the last valid values of all stay.
        """
        follower = ZnodeFollower(*self.paths)
        live: LiveConfigurations[K] = LiveConfigurations(
            self._client, self.paths, self._versions, follower.close, on_change, on_error
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
        known = {path: self._codecs[path].encode_again(each.value) for path, each in now.items()}
        values = change(_values(now))
        return now, values, self._encoded(values, seen, known)

    def _encoded(self, values: object, seen: State, known: Mapping[str, bytes]) -> dict[str, bytes]:
        """Encode values, see `ValueCodec.encode_keeping_unknown`."""
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
            raise BadArgumentsError("", f"{path!r} is none of these configurations")
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
        conditions = [_unchanged_compare(path, seen[path], wanted.get(path)) for path in paths]
        stats = yield from _replace(texts, seen, conditions)
        if stats is not None:
            return _versioned(values, stats)
        yield from checkpoint()
    raise BadVersionError("", f"others changed them {ATTEMPTS_MAX} times in between")


def _unchanged_compare(path: str, seen: ObservedValue, version: int | None) -> Compare:
    """Compare the version, if one is named; else whether there is a znode, as it was seen."""
    if version is None or version == NO_VERSION:
        return Compare(path, CompareField.EXISTS, Relation.EQUAL, int(seen.stat is not None))
    return Compare(path, CompareField.VERSION, Relation.EQUAL, version)


def _replace(
    texts: dict[str, bytes], seen: State, conditions: list[Compare]
) -> Flow[dict[str, Stat] | None]:
    """Make one attempt to write; return the Stats by path.

    None if a condition does not hold, or a parent was missing, which exists now.
    """
    ops: list[TxnOp] = []
    places: dict[str, int] = {}  # of the Stat of each among the results
    for path, text in texts.items():
        ops += seen[path].write_ops(path, text)
        places[path] = len(ops) - 1
    try:
        is_done, results = yield from transact(ops, conditions)
    except NoNodeError:
        for path in texts:
            if seen[path].stat is None:
                yield from ensure_parent(parent_of(path))
        return None
    return {path: results[place] for path, place in places.items()} if is_done else None
