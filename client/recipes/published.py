"""A configuration of many znodes of which nobody ever sees a part: the ready znode.

    routes = client.published("/app/routes")
    routes.publish({"web": b"10.0.0.1", "db": b"10.0.0.2"})     # all of it, as a new version
    routes.read().values["web"]
    with routes.follow(lambda new, old: print(new.version)) as live: ...

        <path>/publishing/p-…       ephemeral, one for each publication under way
        <path>/versions/<version>…  one for each version, a child for each value
        <path>/ready                names the complete version

In the paper the leader deletes `ready`, changes the znodes and creates `ready` again, so a leader
that dies in between leaves no configuration. Here each version has znodes of its own, and a
publication ends with one transaction that has `ready` name it: until then, and whatever becomes of
the publisher, the version before stays complete. It may be larger than a transaction.

The invariants of this file: `ready` names only versions that are whole, newer ones only; a version
that it names, or that is being written, is deleted by nobody. So whoever finds the same `ready`
before and after it has read a version has read all of it.

Paper: sections 2.3 and 2.4, the ready znode.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client.core.effects import Answer
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    InvalidValueError,
    KeeperError,
    LostError,
    NoNodeError,
    RayKeeperError,
)
from raykeeper.client.flows import Abandoned, Flow, Fork, Request, Together
from raykeeper.client.recipes.live import Live, OnChange, OnError
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation
from raykeeper.client.recipes.replacing import (
    ATTEMPTS_MAX,
    MISSING,
    Seen,
    see,
    still_wanted,
    too_contended,
)
from raykeeper.client.recipes.sight import Sight
from raykeeper.client.recipes.steps import (
    checked_bytes,
    checked_root,
    children,
    create,
    leave,
    removal,
    transact,
)
from raykeeper.znodes.paths import is_name, join
from raykeeper.znodes.replies import ResultsRead
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    Create,
    Delete,
    GetData,
    MultiRead,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    TxnOp,
)
from raykeeper.znodes.txns import OpChildren, OpResult, OpValue

OPS_AT_ONCE: Final = 200
BYTES_AT_ONCE: Final = 1 << 20
"""Of the transactions in which a version is written; a single value may be longer."""
READS_AT_ONCE: Final = 500


class Edition(Struct, frozen=True):
    """One version of everything."""

    version: int
    """Larger than that of every version before."""
    values: dict[str, bytes]
    """By name."""


class _Ready(Struct, frozen=True):
    """What the ready znode says."""

    version: int
    znode: str
    count: int


class Published(Recipe[K]):
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
        """Publish these values, and no others, as a new version; its number.

        Raises:
            BadArgumentsError: a name cannot be that of a znode, or a value is not bytes.
            BadVersionError: somebody who began later has published meanwhile; this was not.
            LostError: somebody deleted what was being published; it was not.
            KeeperError: as for every call. If it is not `definite`, it may have been published;
                what is left behind then, the next publication clears away.
        """
        checked = _checked(self.path, values)
        prefix = join(self._publishing, "p-")
        marker, stat = yield from create(prefix, ephemeral=True, sequence=True)
        made: list[str] = []
        try:
            name = f"{stat.czxid:020d}-{marker.rpartition('/')[2]}"
            for part in _parts(join(self._versions, name), checked):
                yield from still_wanted()
                yield from self._write(part)
                made += [each.path for each in part]
            yield from self._name_it(marker, _Ready(stat.czxid, name, len(checked)))
        except (Abandoned, RayKeeperError) as error:
            # What may be named by now must stay. If it is not, others clear it away without marker.
            is_known = not isinstance(error, KeeperError) or error.definite
            doomed = reversed(made) if is_known else ()
            yield Together([Delete(path, ANY_VERSION) for path in doomed])
            yield from leave([removal(marker, stat.czxid)])
            raise
        yield from self._clear_away()
        return stat.czxid

    @operation
    def read(self) -> Flow[Edition]:
        """The newest version that this client's server knows, whole.

        Raises:
            NoNodeError: nothing was published.
            InvalidValueError: outsiders have written, or deleted, a part of it.
            BadVersionError: it was replaced again and again while it was read.
            KeeperError: as for every call.
        """
        edition, _ = yield from self._read((yield from see(self._ready)))
        if edition is None:
            raise NoNodeError(self._ready)
        return edition

    @operation
    def follow(
        self, on_change: OnChange[Edition] | None = None, on_error: OnError | None = None
    ) -> Flow[Live[K, Edition]]:
        """Have the newest version at hand from now on, until it is closed or the session ends.

        Versions that are replaced quickly may be passed over.

        Args:
            on_change: Is called with each version and the one before, the present one first. None
                after: somebody deleted the ready znode. None before: there was none.
            on_error: Is called with InvalidValueError when outsiders have damaged the version; the
                last whole one stays. With a KeeperError if it can be followed no more. With what
                `on_change` raises. Without `on_error` the client logs all of these.

        Raises:
            KeeperError: as for every call.
        """
        sight = Sight(self._ready)
        live: Live[K, Edition] = Live(self._client, _same, sight.close, on_change, on_error)
        seen = yield from sight.open()
        try:
            seen = yield from self._show(live, seen)
        except (Abandoned, KeeperError):
            yield from sight.close()
            raise
        yield Fork(self._keep(live, sight, seen))
        return live

    def _write(self, part: list[Create]) -> Flow[None]:
        try:
            yield from transact(part)
            return
        except NoNodeError:
            yield Together([Create(self._versions, b"", 0, None, 0)])  # this may be the first ever
        try:
            yield from transact(part)
        except NoNodeError as error:
            raise LostError(f"somebody deleted {error.path} while it was published") from error

    def _name_it(self, marker: str, ready: _Ready) -> Flow[None]:
        """The end of a publication: nobody saw it before, everybody may from now on."""
        is_ours = Compare(marker, CompareField.CZXID, Relation.EQUAL, ready.version)
        seen = yield from see(self._ready)
        for _ in range(ATTEMPTS_MAX):
            if self._version_of(seen) > ready.version:
                raise BadVersionError(self._ready, "a newer version was published meanwhile")
            ops: list[TxnOp] = [Delete(marker, ANY_VERSION)]
            ops += seen.replacement(self._ready, msgspec.json.encode(ready))
            is_done, results = yield from transact(
                ops, [is_ours, seen.condition(self._ready)], [ReadStat(marker)]
            )
            if is_done:
                return
            if results[0] is None or results[0].czxid != ready.version:
                raise LostError(f"somebody deleted {marker} while it was published")
            yield from still_wanted()
            seen = yield from see(self._ready)
        raise too_contended(self._ready)

    def _clear_away(self) -> Flow[None]:
        """Delete all versions that nobody can want: neither named nor being written."""
        reads: list[Any] = [ReadChildren(self._versions), ReadChildren(self._publishing)]
        try:
            looked: list[OpResult] = yield Request(
                MultiRead(0, [ReadData(self._ready), *reads]), _results
            )
            named, versions, busy = looked
            if not isinstance(named, OpValue) or not isinstance(versions, OpChildren):
                return
            ready = self._parsed(Seen(named.value, named.stat))
            at_work = set(busy.names) if isinstance(busy, OpChildren) else set()
            for name in versions.names:
                if name != ready.znode and name.partition("-")[2] not in at_work:
                    yield from self._delete(join(self._versions, name))
        except RayKeeperError:
            return  # what is left, the next publication clears away

    def _delete(self, version: str) -> Flow[None]:
        names: list[str] = yield from children(version)
        paths = [*(join(version, name) for name in names), version]
        for at in range(0, len(paths), READS_AT_ONCE):
            yield Together([Delete(path, ANY_VERSION) for path in paths[at : at + READS_AT_ONCE]])

    def _read(self, seen: Seen) -> Flow[tuple[Edition | None, Seen]]:
        """The version that `ready` names, or a newer one, and what it said then.

        Raises:
            InvalidValueError: outsiders have damaged it.
            BadVersionError: it was replaced again and again.
            KeeperError: what a read failed with.
        """
        for _ in range(ATTEMPTS_MAX):
            if seen is MISSING:
                return None, seen
            ready = self._parsed(seen)
            values, again = yield from self._values(join(self._versions, ready.znode))
            if not again.is_other(seen):
                if len(values) != ready.count:
                    found = f"has {len(values)} values of {ready.count}"
                    raise InvalidValueError(f"the version of {self.path} {found}")
                return Edition(ready.version, values), seen
            seen = again
            yield from still_wanted()
        raise too_contended(self._ready)

    def _values(self, version: str) -> Flow[tuple[dict[str, bytes], Seen]]:
        """What there is of a version, and what `ready` says after that."""
        names: list[str] = sorted((yield from children(version)))
        values: dict[str, bytes] = {}
        for at in range(0, len(names), READS_AT_ONCE):
            portion = names[at : at + READS_AT_ONCE]
            answers = yield Together([Query(GetData, join(version, name)) for name in portion])
            for name, answer in zip(portion, answers, strict=True):
                if not isinstance(answer, KeeperError):
                    values[name] = answer[0]
                elif not isinstance(answer, NoNodeError):
                    raise answer
        return values, (yield from see(self._ready))

    def _version_of(self, seen: Seen) -> int:
        """What is named; 0 if there is nothing, or what outsiders have written."""
        try:
            return 0 if seen is MISSING else self._parsed(seen).version
        except InvalidValueError:
            return 0

    def _parsed(self, seen: Seen) -> _Ready:
        try:
            return msgspec.json.decode(seen.value or b"", type=_Ready)
        except msgspec.MsgspecError as error:
            raise InvalidValueError(f"{self._ready} names no version: {error}") from error

    def _keep(self, live: Live[Any, Edition], sight: Sight, last: Seen) -> Flow[None]:
        try:
            while states := (yield from sight.states()):
                if states[-1].is_other(last):
                    last = yield from self._show(live, states[-1])
        except KeeperError as error:
            yield from sight.close()
            yield from live._on_failure(error)

    def _show(self, live: Live[Any, Edition], seen: Seen) -> Flow[Seen]:
        """Show what `ready` names; what it said when that was read."""
        try:
            edition, seen = yield from self._read(seen)
        except InvalidValueError as error:
            yield from live._on_state(error)
        else:
            yield from live._on_state(edition)
        return seen


def _checked(path: str, values: object) -> dict[str, bytes]:
    if not isinstance(values, Mapping):
        raise BadArgumentsError(path, f"values must be bytes by name, not {values!r}")
    for name in values:
        if not isinstance(name, str) or "/" in name or not is_name(name):
            raise BadArgumentsError(path, f"not a name: {name!r}")
        checked_bytes(f"the value of {name}", values[name])
    return dict(values)


def _parts(version: str, values: dict[str, bytes]) -> Iterator[list[Create]]:
    """The creations of a version, in transactions."""
    part, size = [Create(version, b"", 0, None, 0)], 0
    for name, value in values.items():
        if len(part) >= OPS_AT_ONCE or size + len(value) > BYTES_AT_ONCE:
            yield part
            part, size = [], 0
        part.append(Create(join(version, name), value, 0, None, 0))
        size += len(value)
    yield part


def _results(answer: Answer) -> list[OpResult]:
    assert isinstance(answer, ResultsRead), answer
    return answer.results


def _same(edition: Edition) -> Edition:
    return edition
