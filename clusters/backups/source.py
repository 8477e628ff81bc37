"""The files of a server, as a backup reads them through an actor on the server's node."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

import ray

from raykeeper.actors.backup_reader import OpenedSnapshot, start_backup_reader
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.clusters.actor_calls import call_actors
from raykeeper.clusters.backups.server_choice import (
    Position,
    ReadServer,
    await_position,
    position_of,
)
from raykeeper.zab.effects import LogRun
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Zxid

PIECE_BYTES: Final = 1 << 20
_AHEAD: Final = 2
"""Pieces that are read before they are needed."""
_CALL_TIMEOUT_S: Final = 60.0
STEP_TIMEOUT_S: Final = 30.0
"""How long a server may need to apply, and to write, what the others have applied."""


class SourceBehindError(RayKeeperError):
    """Raised inside a backup when a server does not have, in time, what others have applied.

    The backup reads another server.
    """


READ_ERRORS: Final = (StorageError, SourceBehindError, ray.exceptions.RayError)
"""What a source raises when its server, node or disk fails: another server may do."""


class Source(Protocol):
    """The snapshot and the log of one server. Every method raises `READ_ERRORS`."""

    server: ReadServer

    def position(self, at_least: Zxid) -> Position:
        """Wait until the server has applied `at_least`; return where it is then."""

    def open_snapshot(self) -> OpenedSnapshot | None:
        """See `BackupReader.open_snapshot`."""

    def snapshot_chunks(self) -> Iterator[bytes]:
        """Yield the chunks of the snapshot that was opened."""

    def open_log(self, after: Zxid, *, holds: bool) -> int:
        """See `BackupReader.open_log`."""

    def read_log(self, upto: Zxid) -> Iterator[LogRun]:
        """Yield what the log has now, none after `upto`; see `BackupReader.read_log`."""


class SourceFiles:
    """The source that an actor reads on the node of the server. Close it at the end."""

    def __init__(self, ensemble: str, server: ReadServer) -> None:
        """Start the actor; the first call waits for it."""
        self.server = server
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
        try:
            handle = find_replica(self._ensemble, self.server.server_id)
        except ValueError:
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

    def snapshot_chunks(self) -> Iterator[bytes]:
        """See `Source`."""
        waiting: deque[Any] = deque()
        while True:
            while len(waiting) < _AHEAD:
                waiting.append(self._reader.read_snapshot.remote(PIECE_BYTES))
            chunks: list[bytes] = self._get(waiting.popleft())
            if not chunks:
                return
            yield from chunks

    def open_log(self, after: Zxid, *, holds: bool) -> int:
        """See `Source`."""
        size: int = self._get(self._reader.open_log.remote(after, holds=holds))
        return size

    def read_log(self, upto: Zxid) -> Iterator[LogRun]:
        """See `Source`."""
        waiting: deque[Any] = deque()
        while True:
            while len(waiting) < _AHEAD:
                waiting.append(self._reader.read_log.remote(upto, PIECE_BYTES))
            runs: list[LogRun] = self._get(waiting.popleft())
            if not runs:
                return
            yield from runs

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
