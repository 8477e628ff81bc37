"""The files of a server, as a backup reads them through an actor on the server's node."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import ray

from raykeeper.actors.backup_reader import OpenedSnapshot, start_backup_reader
from raykeeper.actors.disk.backup_frames import LogBody, SnapshotBody
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.client.errors import RayUnavailableError
from raykeeper.client.ray_lookups import find_actor
from raykeeper.clusters.actor_calls import call_actors
from raykeeper.clusters.backups.pace import Pace, read_ahead
from raykeeper.clusters.backups.server_choice import (
    Position,
    ReadServer,
    await_position,
    position_of,
)
from raykeeper.links.ray_names import replica_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Zxid

_AHEAD: Final = 2
"""Pieces that are read before they are needed."""
_CALL_TIMEOUT_S: Final = 60.0
STEP_TIMEOUT_S: Final = 30.0
"""How long a server may need to apply, and to write, what the others have applied."""


class SourceBehindError(RayKeeperError):
    """Raised inside a backup when a server does not have, in time, what others have applied.

    The backup reads another server.
    """


READ_ERRORS: Final = (
    *(StorageError, SourceBehindError),
    *(RayUnavailableError, ray.exceptions.RayError),
)
"""What a source raises when its server, node or disk fails: another server may do."""


class Source(Protocol):
    """The snapshot and the log of one server. Every method raises `READ_ERRORS`."""

    server: ReadServer

    def position(self, at_least: Zxid) -> Position:
        """Wait until the server has applied `at_least`; return where it is then."""

    def open_snapshot(self) -> OpenedSnapshot | None:
        """See `BackupReader.open_snapshot`."""

    def snapshot_chunks(self) -> Iterator[SnapshotBody]:
        """Yield the chunks of the snapshot that was opened."""

    def open_log(self, after: Zxid, *, holds: bool) -> int:
        """See `BackupReader.open_log`."""

    def read_log(self, upto: Zxid) -> Iterator[LogBody]:
        """Yield what the log has now, none after `upto`; see `BackupReader.read_log`."""


class SourceFiles:
    """The source that an actor reads on the node of the server. Close it at the end."""

    def __init__(self, ensemble: str, server: ReadServer, mb_per_s: float | None = None) -> None:
        """Start the actor; the first call waits for it. Without a rate it is the ensemble's."""
        self.server = server
        self.pace = Pace(server.mb_per_s if mb_per_s is None else mb_per_s)
        self._ensemble = ensemble
        self._reader = start_backup_reader(server.folder, server.node_id)

    def __enter__(self) -> "SourceFiles":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the actor."""
        ray.kill(self._reader, no_restart=True)

    def now(self) -> tuple[Position | None, str]:
        """Ask the server where it is; None if it is not in step, and its role or what is wrong."""
        handle = find_actor(replica_name(self._ensemble, self.server.server_id))
        if handle is None:
            return None, "it does not run any more"
        (answer,) = call_actors([handle], "status")
        return position_of(answer), answer if isinstance(answer, str) else answer.role

    def position(self, at_least: Zxid) -> Position:
        """See `Source`."""
        server = self.server.server_id
        position, why = await_position(self._ensemble, server, at_least, STEP_TIMEOUT_S)
        if position is None:
            raise SourceBehindError(why)
        return position

    def open_snapshot(self) -> OpenedSnapshot | None:
        """See `Source`."""
        found: OpenedSnapshot | None = self._get(self._reader.open_snapshot.remote())
        return found

    def snapshot_chunks(self) -> Iterator[SnapshotBody]:
        """See `Source`."""
        read = self._reader.read_snapshot
        return self._paced(lambda: read.remote(self.pace.piece_bytes))

    def open_log(self, after: Zxid, *, holds: bool) -> int:
        """See `Source`."""
        size: int = self._get(self._reader.open_log.remote(after, holds=holds))
        return size

    def read_log(self, upto: Zxid) -> Iterator[LogBody]:
        """See `Source`."""
        read = self._reader.read_log
        return self._paced(lambda: read.remote(upto, self.pace.piece_bytes))

    def _paced(self, ask: Callable[[], Any]) -> Iterator[Any]:
        """Yield the bodies that the calls return until one returns none, at the pace."""
        for bodies in read_ahead(ask, self._get, _AHEAD):
            yield from bodies
            self.pace.keep(sum(len(body.data) for body in bodies))

    def _get(self, ref: Any) -> Any:
        return ray.get(ref, timeout=_CALL_TIMEOUT_S)


def reason_of(error: RayKeeperError | ray.exceptions.RayError) -> str:
    """Return why a server could not be read, in a line."""
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return f"its files were not read within {_CALL_TIMEOUT_S:g} s"
    if isinstance(error, ray.exceptions.RayActorError | ray.exceptions.ActorUnschedulableError):
        return "its node is gone"
    cause = getattr(error, "cause", error)
    return str(cause).partition("\n")[0] or type(cause).__name__
