"""Service discovery: instances register with address and metadata; their users have a cache.

    services = client.services("/services")
    me = services.register("search", "10.0.0.7", 8080, {"shard": 3})
    services.pick("search").address         # one of those that are there now

An instance is a member of the group of its service (group.py): it goes with its session, and is
made again when somebody deletes it. The cache follows the instances (subtree_follower.py), so that
no look at it costs a request. The invariant of this file: the cache is what the server of this
client has last told; a znode that others have written wrongly is left out and reported.

Curator: `ServiceDiscovery`, `ServiceCache`, `ServiceProvider`.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.flows import CallInCaller, CallUser, Cancelled, Flow
from raykeeper.client.errors import BadArgumentsError, LostError, RayKeeperError
from raykeeper.client.recipes.background_recipe import Startable
from raykeeper.client.recipes.group import (
    EphemeralMember,
    become_member,
    checked_name,
    membership_changes,
)
from raykeeper.client.recipes.picking import Choose, Instance, RoundRobin
from raykeeper.client.recipes.primitives import checked_root, timeout_after
from raykeeper.client.recipes.recipe import ClosableRecipe, FlowRunner, K, operation
from raykeeper.client.recipes.round_trip import difference, has_fields
from raykeeper.client.recipes.subtree_follower import SubtreeFollower
from raykeeper.client.recipes.tree_mirror import CachedZnode, TreeMirror
from raykeeper.client.recipes.value_types import checked_classes, decoder_of
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join

PREFIX = "instance-"


class _InstanceRecord(Struct, frozen=True):
    """The value of an instance's znode, as JSON."""

    address: str
    port: Annotated[int, Meta(ge=0, le=65_535)]
    metadata: msgspec.Raw = msgspec.Raw(b"null")


_decode: Final = msgspec.json.Decoder(_InstanceRecord).decode


class ServiceChange(Struct, frozen=True):
    """The argument of a watch callback: one service."""

    service: str
    instances: list[Instance]
    """All present instances, in the order of registration."""
    joined: list[Instance]
    left: list[Instance]
    updated: list[Instance]
    """Those with a new address, port or metadata."""


class Registration(EphemeralMember[K]):
    """A registered instance, until `leave`, the end of a `with` block or the end of the session."""

    _read_metadata: Callable[[bytes], Any]
    """Reads metadata as the `ServiceDiscovery` that registered the instance does."""

    @operation
    def announce(self, address: str, port: int, metadata: Any = None) -> Flow[None]:
        """Replace what others see of the instance.

        Args:
            address: Where the instance listens.
            port: On which port.
            metadata: Its metadata, of the type of the `ServiceDiscovery`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing has changed.
            LostError: the registration is lost, or was left.
        """
        value = _encode_instance(address, port, metadata, self._read_metadata)
        yield from self._replace_data(value)


class ServiceWatch(ClosableRecipe[K]):
    """Reports changes of services, until it is closed."""

    _instead = "pass the path on, and watch it there"

    def __init__(
        self, client: FlowRunner, service: str | None, callback: Callable[[ServiceChange], object]
    ) -> None:
        """Use `ServiceDiscovery.watch`."""
        super().__init__(client)
        check_callbacks(client, callback=callback)
        self.service = service
        """None for all."""
        self._callback = callback
        self._is_closed = False

    def _repr_parts(self) -> tuple[str, ...]:
        return self.service or "all services", "closed" if self._is_closed else "open"

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @operation
    def close(self) -> Flow[None]:
        """Stop calling back. A second call does nothing."""
        yield from self._release()

    def _release(self) -> Flow[None]:
        """Return the flow of `close`; it also releases a watch that nobody waits for."""
        yield from ()
        self._is_closed = True

    def _call(self, change: ServiceChange) -> object:
        """For the discovery: call back, unless closed."""
        return None if self._is_closed else self._callback(change)


class ServiceDiscovery(Startable[K]):
    """Services, for their instances and their users. The cache starts when it is first used.

    All that uses the cache raises LostError once the session is over, since nothing keeps the cache
    current then, and a KeeperError if the services cannot be read.
    """

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        kind: Any = Any,
        on_malformed: Callable[[str, str], object] | None = None,
    ) -> None:
        """Use `Client.services`. See there for the arguments."""
        path = checked_root(path)
        super().__init__(client, f"the cache of {path}")
        self.path = path
        self._metadata = decoder_of(kind, checked_classes(path, kind))
        check_callbacks(client, on_malformed=on_malformed)
        self._on_malformed = on_malformed
        self._choose: Choose = RoundRobin()
        self._is_loaded = False
        self._parsed_entries: dict[str, tuple[CachedZnode, Instance | None]] = {}
        self._services: dict[str, list[Instance]] = {}
        self._malformed: dict[str, str] = {}
        self._watches: list[ServiceWatch[K]] = []

    def _stays(self) -> str:
        """See `PortableRecipe`: another process has a cache of its own."""
        return f"{self._what} was closed" if self.is_closed else ""

    def _life(self) -> str:
        return "not used yet" if self._task is None and not self._is_closed else super()._life()

    def _activity(self) -> str:
        return f"{len(self._services)} services" if self._is_loaded else "loads"

    @operation
    def register(
        self,
        service: str,
        address: str,
        port: int,
        metadata: Any = None,
        name: str | None = None,
        timeout_s: float | None = None,
    ) -> Flow[Registration[K]]:
        """Register an instance, until it leaves or the session ends.

        Args:
            service: The name of the service, which is a part of a path.
            address: The address of the instance; any text.
            port: 0 to 65535.
            metadata: A value that msgspec can encode as JSON, and that is read back as it is: a
                Struct, a dataclass, a dict, ...
            name: None for a new name. If another session has the name, `register` waits for it.

        Raises:
            WaitTimeoutError: another instance has the name.
            BadArgumentsError: an argument is not acceptable.
        """
        below = join(self.path, checked_name(self.path, service))
        read = self._metadata.decode
        value = _encode_instance(address, port, metadata, read)
        if name is not None:
            checked_name(below, name)
        yield timeout_after(timeout_s, f"{below} has another instance {name}")
        made = yield from become_member(self._client, below, name, value, Registration, PREFIX)
        registration: Registration[K] = made
        registration._read_metadata = read
        return registration

    @operation
    def names(self) -> Flow[list[str]]:
        """Return the services that have instances, sorted, from the cache."""
        yield from self._ensure_loaded()
        return sorted(self._services)

    @operation
    def instances(self, service: str) -> Flow[list[Instance]]:
        """Return the instances of `service` from the cache, in the order of registration."""
        yield from self._ensure_loaded()
        return list(self._services.get(service, []))

    @operation
    def pick(
        self, service: str, choose: Choose | None = None, timeout_s: float | None = None
    ) -> Flow[Instance]:
        """Return one instance from the cache; if there is none, wait for one.

        Args:
            service: The name of the service.
            choose: Picks one of a list, see client/recipes/picking.py; None for one after the
                other.

        Raises:
            WaitTimeoutError: there was no instance.
        """
        found = yield from self._wait_for(service, timeout_s)
        picked: Instance = yield CallInCaller(choose or self._choose, (found,))
        return picked

    def _wait_for(self, service: str, timeout_s: float | None) -> Flow[list[Instance]]:
        yield timeout_after(timeout_s, f"there is no instance of {service} in {self.path}")
        yield from self._ensure_loaded()
        yield from self._wait_until(lambda: service in self._services)
        return list(self._services[service])

    @operation
    def malformed(self) -> Flow[dict[str, str]]:
        """Return why znodes that others have written cannot be decoded, by path."""
        yield from self._ensure_loaded()
        return dict(self._malformed)

    @operation
    def watch(
        self, callback: Callable[[ServiceChange], object], service: str | None = None
    ) -> Flow[ServiceWatch[K]]:
        """Call `callback` for each service, or for one, now and after each change of it.

        Changes that arrive together are reported together; the last call always reports what is.
        """
        yield from self._ensure_loaded()
        watch: ServiceWatch[K] = ServiceWatch(self._client, service, callback)
        self._watches = self._open_watches()
        self._watches.append(watch)
        for each, instances in sorted(self._services.items()):
            if service in (None, each):
                yield CallUser(watch._call, (_change_between(each, [], instances),))
        return watch

    def _work(self) -> Flow[None]:
        """See `BackgroundRecipe`."""
        follower = SubtreeFollower(self.path, depth=2, needs_root=True)
        try:
            yield from follower.open()
            while True:
                yield from self._update_services(_instances_in(self.path, follower.mirror))
                self._is_loaded = True
                self._changed.notify_all()
                yield from follower.next_changes()
        except (Cancelled, RayKeeperError):
            yield from follower.close()
            raise

    def _ensure_loaded(self) -> Flow[None]:
        if self._client._is_lost():
            raise LostError(f"{self._what} is out of date: the session is over")
        if not self._was_started and not self.is_closed:
            yield from self._start()
        yield from self._wait_until(lambda: self._is_loaded and not self.is_closed)

    def _update_services(self, znodes: dict[str, CachedZnode]) -> Flow[None]:
        """Decode the znodes that are new, and report what differs to the watches."""
        before, self._services = self._services, {}
        for key in [key for key in self._parsed_entries if key not in znodes]:
            del self._parsed_entries[key]
            self._malformed.pop(join(self.path, key), None)
        for key, znode in znodes.items():
            if key not in self._parsed_entries or self._parsed_entries[key][0] is not znode:
                self._parsed_entries[key] = znode, (yield from self._instance(key, znode))
            instance = self._parsed_entries[key][1]
            if instance is not None:
                self._services.setdefault(instance.service, []).append(instance)
        for instances in self._services.values():
            instances.sort(key=lambda each: (each.token, each.name))
        self._watches = self._open_watches()
        for service in sorted(before.keys() | self._services.keys()):
            old, new = before.get(service, []), self._services.get(service, [])
            if old != new:
                for watch in self._watches:
                    if watch.service in (None, service):
                        yield from self._call_user(watch._call, _change_between(service, old, new))

    def _open_watches(self) -> list[ServiceWatch[K]]:
        return [watch for watch in self._watches if not watch.is_closed]

    def _instance(self, key: str, znode: CachedZnode) -> Flow[Instance | None]:
        service, _, name = key.partition("/")
        path = join(self.path, key)
        self._malformed.pop(path, None)
        try:
            written = _decode(znode.value)
            metadata = self._metadata.decode(written.metadata)
        except Exception as error:  # a type may check itself, and raise anything
            self._malformed[path] = str(error)
            if self._on_malformed is not None:
                yield from self._call_user(self._on_malformed, path, str(error))
            return None
        return Instance(
            service, name, written.address, written.port, metadata, Zxid(znode.stat.czxid)
        )


def _instances_in(root: str, mirror: TreeMirror) -> dict[str, CachedZnode]:
    """Return the znodes of the instances by service and name."""
    return {
        f"{service}/{name}": znode
        for service in mirror.children(root)
        for name, znode in mirror.children_of(join(root, service)).items()
    }


def _change_between(service: str, old: list[Instance], new: list[Instance]) -> ServiceChange:
    return ServiceChange(
        service, list(new), *membership_changes(old, new)
    )  # the user may change the list


def _encode_instance(
    address: object, port: object, metadata: Any, read: Callable[[bytes], Any]
) -> bytes:
    """Encode an instance; `read` decodes metadata.

    Raises:
        BadArgumentsError: an argument is not acceptable, or JSON would change the metadata.
    """
    if not isinstance(address, str):
        raise BadArgumentsError("", f"address must be text, not {address!r}")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise BadArgumentsError("", f"port must be a number up to 65535, not {port!r}")
    own = type(metadata) if has_fields(type(metadata)) else Any
    classes = checked_classes("metadata", own)
    try:
        raw = msgspec.json.encode(metadata)
        readers = read, decoder_of(own, classes).decode
        changed = _change_of_metadata(metadata, raw, readers)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadArgumentsError("", f"metadata: {error}") from None
    if changed:
        detail = "give them as they are read, or `services` the `kind` that says what they are"
        raise BadArgumentsError("", f"JSON would change the metadata: {changed}; {detail}")
    return msgspec.json.encode(_InstanceRecord(address, port, msgspec.Raw(raw)))


def _change_of_metadata(
    metadata: Any, raw: bytes, readers: tuple[Callable[[bytes], Any], Callable[[bytes], Any]]
) -> str:
    """Return what reading changes: as the kind of the discovery, or else as the metadata's own."""
    as_kind, as_own = readers
    with suppress(Exception):  # metadata of another kind, which others may read
        if not difference(metadata, as_kind(raw)):
            return ""
    return difference(metadata, as_own(raw))
