"""A configuration: one value of a type that the user names, with a version, changed and followed.

    @dataclass
    class Limits:                       # or a msgspec.Struct, a TypedDict, dict, ...
        per_second: int = 100

    limits = client.configuration("/app/limits", Limits)
    limits.update(lambda now: replace(now, per_second=200))     # atomic
    with limits.follow(lambda new, old: print(new)) as live:
        live.value                                  # always the newest valid one

A value is encoded and decoded again before it is written, so that nobody writes a value that others
cannot read, or would read as another one (round_trip.py). The invariant of this file: `update`
replaces a value only by what was made of that value; a follower keeps the last valid value whatever
happens: the ensemble is away, the znode is deleted, or it holds something invalid.

Paper: section 2.4, "Configuration Management". Curator: `NodeCache`, `ModeledFramework`.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_origin

import msgspec

from raykeeper.client.arguments import checked_version
from raykeeper.client.core.flows import CallInCaller, Flow
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    InvalidValueError,
    NodeExistsError,
    NoNodeError,
)
from raykeeper.client.recipes.compare_and_set import (
    ATTEMPTS_MAX,
    MISSING,
    ObservedValue,
    compare_and_set,
    contention_error,
    read_current,
    set_or_create,
)
from raykeeper.client.recipes.live import Live, OnChange, OnError
from raykeeper.client.recipes.primitives import checked_root, create, set_value
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.client.recipes.round_trip import difference, has_fields
from raykeeper.client.recipes.unknown_fields import UnknownFields
from raykeeper.client.recipes.value_types import Format, checked_classes, decoder_of, name_of
from raykeeper.client.recipes.znode_follower import State, ZnodeFollower, start_following

S = TypeVar("S")

NO_VERSION: Final = -1
"""The version of a default: there is no such znode."""


class Versioned(NamedTuple, Generic[S]):
    """A value with its version."""

    value: S
    version: int
    """The version of the znode; NO_VERSION if there is no znode and the value is the default."""


class ValueCodec(Generic[S]):
    """Encodes and decodes values of one type."""

    def __init__(self, path: str, kind: type[S], form: Format = "json") -> None:
        """Look at the type; `path` is for error texts.

        Raises:
            BadArgumentsError: msgspec does not know the type, it has lost fields on its way to this
                process, None is a value of it, or there is no such format.
        """
        self.path = checked_root(path)
        self.name = name_of(kind)
        if form not in ("json", "msgpack"):
            raise BadArgumentsError(path, f'format must be "json" or "msgpack", not {form!r}')
        classes = checked_classes(path, kind)
        self._decoder = decoder_of(kind, classes, form)
        self._unknown = UnknownFields(classes, form, self._decoder.decode)
        self._encode = msgspec.json.encode if form == "json" else msgspec.msgpack.encode
        self._form = "JSON" if form == "json" else form
        self._class = _class_of(kind)
        if self._reads(self._encode(None)):
            detail = f"None stands for a missing value, but {self.name} allows it"
            raise BadArgumentsError(path, detail)

    def decode(self, text: bytes) -> S:
        """Decode a value.

        Raises:
            InvalidValueError: the text is no value of the type.
        """
        try:
            value: S = self._decoder.decode(text)
        except Exception as error:  # a class may check itself, by whatever it raises
            raise InvalidValueError(f"{self.path} holds no valid {self.name}: {error}") from error
        return value

    def encode(self, value: object) -> bytes:
        """Encode a value, and check that decoding the bytes gives it back.

        Raises:
            BadArgumentsError: it is no valid value of the type, or would be read as another one.
        """
        if not isinstance(value, self._class):
            raise BadArgumentsError(
                self.path, f"a value must be a {self.name}, not {type(value).__name__}"
            )
        try:
            text: bytes = self._encode(value)
            changed = difference(value, self._decoder.decode(text))
        except Exception as error:
            raise BadArgumentsError(self.path, f"no valid {self.name}: {error}") from error
        if changed:
            raise BadArgumentsError(
                self.path,
                f"{self._form} would change the value: {changed}; give it as it is read, or the "
                "configuration a `kind` that says what it is",
            )
        return text

    def encode_again(self, value: S) -> bytes:
        """Encode a value that was decoded."""
        return self._encode(value)

    def encode_keeping_unknown(self, value: object, seen: ObservedValue, known: bytes) -> bytes:
        """Encode a value, and keep those fields of the seen value that the type does not know.

        `known` is the seen value, decoded and encoded again before the user's code could change
        it in place.
        """
        text = self.encode(value)
        return text if seen.value is None else self._unknown.keep(seen.value, known, text)

    def _reads(self, text: bytes) -> bool:
        try:
            self._decoder.decode(text)
        except Exception:
            return False
        return True


def _class_of(kind: Any) -> type:
    """Return the class of every value; `object` unless the class alone tells the values."""
    found: Any = get_origin(kind) or kind
    return found if isinstance(found, type) and has_fields(found) else object


class LiveConfiguration(Live[K, Versioned[S]], Generic[K, S]):
    """The newest value of a configuration, kept current."""

    _default: S | None = None

    @property
    def value(self) -> S | None:
        """The newest valid value; if there never was one, the default, or None.

        `newest` is the value together with its version.
        """
        newest = self.newest
        return self._default if newest is None else newest.value

    @property
    def version(self) -> int:
        """Its version; NO_VERSION if there never was a valid one."""
        newest = self.newest
        return NO_VERSION if newest is None else newest.version

    def _shown(self, state: Versioned[S] | None) -> S | None:
        """Return the value without its version; see `Live`."""
        return None if state is None else state.value


class Configuration(PortableRecipe[K], Generic[K, S]):
    """A value at a path. Safe to share between threads, or tasks."""

    _instead = "pass its path and type on, and make one there"

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        kind: type[S],
        default: S | None = None,
        form: Format = "json",
    ) -> None:
        """Use `Client.configuration`. `default` is the value while there is no such znode."""
        super().__init__(client)
        self._codec = ValueCodec(path, kind, form)
        self.path = path
        self._default_text = None if default is None else self._codec.encode(default)

    def _repr_parts(self) -> tuple[str, ...]:
        return self.path, f"of {self._codec.name}"

    @operation
    def get(self) -> Flow[Versioned[S]]:
        """Return the value, which is never older than what this client has seen.

        Raises:
            NoNodeError: there is no such znode, and no default.
            InvalidValueError: the znode holds no valid value.
        """
        observed = yield from read_current(self.path)
        versioned: Versioned[S] = yield CallInCaller(self._versioned, (observed,))
        return versioned

    @operation
    def set(self, value: S, version: int | None = None) -> Flow[Versioned[S]]:
        """Replace the whole value, also fields that this type does not know; see `update`.

        Args:
            value: The new value.
            version: The version that the value must have; NO_VERSION if there must be no such
                znode; None for any version, or none.

        Raises:
            BadArgumentsError: the value or the version is not valid.
            BadVersionError: the value has another version; nothing was changed.
            NoNodeError: there is no such znode, at any version.
        """
        text = self._codec.encode(value)
        if version is not None and checked_version(self.path, version) < NO_VERSION:
            raise BadArgumentsError(self.path, f"there is no version {version}")
        return self._set(value, text, version)

    @operation
    def update(self, change: Callable[[S], S]) -> Flow[Versioned[S]]:
        """Replace the value by what `change` makes of it, atomically.

        Fields that a newer program has written and this type does not know stay, see
        client/recipes/unknown_fields.py.

        Args:
            change: Returns the new value. The caller's thread, or task, calls it, and calls it
                again if somebody else replaced the value meanwhile. An error that it raises ends
                the update; nothing is changed.

        Raises:
            NoNodeError: there is no such znode, and no default.
            InvalidValueError: the znode holds no valid value.
            BadArgumentsError: `change` returned no valid value.
            BadVersionError: others changed the value each time meanwhile; nothing was changed.
        """
        observed = yield from read_current(self.path)
        for _ in range(ATTEMPTS_MAX):
            value, text = yield CallInCaller(self._changed, (change, observed))
            is_done, observed = yield from compare_and_set(self.path, text, observed)
            if is_done:
                return self._as(value, observed)
        raise contention_error(self.path)

    @operation
    def follow(
        self,
        on_change: OnChange[S] | None = None,
        on_error: OnError | None = None,
    ) -> Flow[LiveConfiguration[K, S]]:
        """Keep the value current from now on, until it is closed or the session ends.

        Args:
            on_change: Called with each new valid value and the one before, with the present value
                first. The new one is None if the znode was deleted, the old one if there was none.
            on_error: Called with InvalidValueError when the znode holds no valid value, while the
                last valid value stays; with a KeeperError if the znode can be followed no more; and
                with each error that `on_change` raises. Without `on_error` the client logs them.
        """
        follower = ZnodeFollower(self.path)
        live: LiveConfiguration[K, S] = LiveConfiguration(
            self._client, [self.path], self._parse_state, follower.close, on_change, on_error
        )
        live._default = self._default()
        yield from start_following(live, follower)
        return live

    def _set(self, value: S, text: bytes, version: int | None) -> Flow[Versioned[S]]:
        if version is None:
            return self._as(value, (yield from set_or_create(self.path, text)))
        if version != NO_VERSION:
            stat = yield from set_value(self.path, text, version)
        else:
            try:
                _, stat = yield from create(self.path, text)
            except NodeExistsError as error:
                raise BadVersionError(self.path, "it exists") from error
        return Versioned(value, stat.version)

    def _changed(self, change: Callable[[S], S], observed: ObservedValue) -> tuple[S, bytes]:
        """Return the value that `change` makes of what was read, and its text."""
        now = self._versioned(observed).value
        known = self._codec.encode_again(now)
        value = change(now)
        return value, self._codec.encode_keeping_unknown(value, observed, known)

    def _versioned(self, seen: ObservedValue) -> Versioned[S]:
        default = self._default() if seen is MISSING else None
        return self._read(seen) if default is None else Versioned(default, NO_VERSION)

    def _default(self) -> S | None:
        """Return a new default each time: an update may change it in place."""
        return None if self._default_text is None else self._codec.decode(self._default_text)

    def _read(self, seen: ObservedValue) -> Versioned[S]:
        if seen.value is None or seen.stat is None:
            raise NoNodeError(self.path)
        return Versioned(self._codec.decode(seen.value), seen.stat.version)

    def _parse_state(self, state: State) -> Versioned[S]:
        return self._read(state[self.path])

    def _as(self, value: S, seen: ObservedValue) -> Versioned[S]:
        assert seen.stat is not None, seen
        return Versioned(value, seen.stat.version)
