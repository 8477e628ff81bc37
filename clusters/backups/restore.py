"""Restore a backup: found a new ensemble that begins with the state of an old one.

    1  check the settings, that no such ensemble runs, and that no node holds anything of it;
    2  load the state, and check all of the backup (loading.py);
    3  choose the first epoch, end all sessions, and forget the old servers (znodes/refounding.py);
    4  check that the nodes have room, and stage the snapshot on them (staging.py);
    5  found and start the ensemble as a launch does (launch.py).

Nothing is written before step 4. What a failure leaves later is removed again.

The new ensemble has an identity of its own, so none of its servers meets one of the old ensemble.
Zxids are fencing tokens, which must never repeat, also if the old ensemble has gone on after the
backup was taken: see `first_epoch`.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import ray
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.founding import EPOCH_GAP
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.replica_status import ReplicaDescription, ReplicaStatus
from raykeeper.clusters.backups.backup import BackupProgress, Tell
from raykeeper.clusters.backups.backup_format import Opening
from raykeeper.clusters.backups.loading import LoadedState, Point, load_state
from raykeeper.clusters.backups.places import place_at
from raykeeper.clusters.backups.staging import names_in_the_way, remove_restored, stage_snapshot
from raykeeper.clusters.config import EnsembleConfig, resolve_requested
from raykeeper.clusters.ensemble import Ensemble, list_ensembles
from raykeeper.clusters.keeper_journal import ROOT as KEEPER_ROOT
from raykeeper.clusters.launch import await_founded
from raykeeper.clusters.local_ray import join_or_start_ray
from raykeeper.clusters.node_discovery import discover_nodes, on_node
from raykeeper.clusters.node_report import NodeReport, RestoredHistory, unread
from raykeeper.clusters.placement import FolderFormat, LaunchPlan, place
from raykeeper.clusters.running_servers import ask_statuses, find_running
from raykeeper.clusters.starting import start_planned
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import EPOCH_MAX, Epoch, Millis, Zxid, format_zxid, make_zxid
from raykeeper.znodes.refounding import count_salted_acls, refound
from raykeeper.znodes.snapshot import SnapshotWalk
from raykeeper.znodes.state import State

EPOCHS_SKIPPED: Final = EPOCH_GAP
"""Elections that the old ensemble may have held since the backup in any case; and one more for each
minute that has passed."""
_MINUTE_MS: Final = 60_000
_CHUNK_HEAD_BYTES: Final = 8
_LOG_BYTES: Final = 4 << 20
"""What a server needs beside the snapshot to start."""


class RestoreRefusedError(RayKeeperError):
    """Raised when a restore would meet something that is there, or lacks what it needs.

    Nothing was written. The message says what is in the way, and what to do.
    """


class RestoreReport(Struct, frozen=True):
    """A restore that was done."""

    ensemble: Ensemble
    """It runs and has a leader."""
    origin: str
    """The name of the ensemble that was backed up."""
    zxid: Zxid
    """The last transaction of it that was restored."""
    time_ms: Millis
    """The time of that transaction."""
    first_zxid: Zxid
    """That of the restored state; every transaction, and token, of the new ensemble is higher."""
    znodes: int
    sessions_ended: int
    salted_acls: int
    """Znodes with an ACL entry of the scheme `scrypt`: the passwords of the old ensemble prove them
    in the new one."""
    seconds: float


def restore(
    source: str | Path,
    name: str,
    *,
    at_zxid: Zxid | None = None,
    at_time: datetime | None = None,
    first_epoch: int | None = None,
    config: str | Path | EnsembleConfig | None = None,
    timeout_s: float = 60.0,
    tell: Tell | None = None,
    **settings: Any,
) -> RestoreReport:
    """Found a new ensemble that begins with a backup, start it, and wait until it has a leader.

    All znodes are there with their values, ACLs and zxids; sessions have ended, with their
    ephemerals. The process needs as much memory as a server. If it is not connected to Ray and no
    Ray runs here, it starts one, which ends with the process.

    Args:
        source: A backup file, or the folder of an archive, as a path or a URL of fsspec.
        name: Of the new ensemble, of which nothing exists yet.
        at_zxid: Restore the state as of this transaction; by default the last one.
        at_time: Restore the state as of this time, by the clocks of the leaders. A time without a
            zone is in UTC.
        first_epoch: The epoch of the restored state. By default it is far above every epoch that
            the old ensemble can have reached since; give one if that held more than an election
            each minute.
        config: A settings file, as for `launch`; None for the defaults.
        timeout_s: How long the start may take, once the folders are written.
        tell: Called with the progress.
        settings: Any setting of `EnsembleConfig`.

    Raises:
        ConfigError: a setting is wrong.
        RestoreRefusedError: an ensemble of that name runs or has data, a node does not answer or
            has no room, or there is no such epoch.
        BackupFormatError: the source is no backup, of another format, cut, or altered.
        RestorePointError: a BackupFormatError: it does not have the zxid or the time.
        BackupPlaceError: the source cannot be read.
        PlacementError: the nodes do not suffice.
        StorageError: a folder cannot be written; what was written was removed again. Or a majority
            cannot start.
        NoLeaderError: no leader within `timeout_s`; `launch` goes on from there.
    """
    began = time.monotonic()
    tell = tell or (lambda _: None)
    given = {**{key: value for key, value in settings.items() if value is not None}, "name": name}
    resolved, _ = resolve_requested(config, given)
    place_of_source = place_at(source)
    point = Point(at_zxid, None if at_time is None else _millis(at_time))
    join_or_start_ray()
    nodes, plan = _plan(resolved)
    loaded = load_state(place_of_source, point, tell, format_time)
    report = _found(resolved, nodes, plan, loaded, first_epoch, tell)
    await_founded(resolved, plan, timeout_s)
    return replace(report, seconds=time.monotonic() - began)


def epoch_after(known: Epoch, age_ms: int) -> int:
    """Return the epoch of a restored state, above every one that the old ensemble can be in.

    That began to hold elections anew `age_ms` ago in epoch `known`, perhaps. Half of the epochs
    that are left are never skipped.
    """
    minutes = max(0, age_ms) // _MINUTE_MS
    return known + EPOCHS_SKIPPED + min(minutes, (EPOCH_MAX - known) // 2)


def origin_uuid(opening: Opening) -> str:
    """Return the uuid that the old ensemble was founded with.

    A program of before did not tell it. Then it is the present one, unless there was a recovery.
    """
    return opening.first_uuid or opening.ensemble_uuid


def format_time(time_ms: Millis) -> str:
    """Return a time in ISO 8601, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _millis(moment: datetime) -> Millis:
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Millis(round(zoned.timestamp() * 1000))


def _found(
    config: EnsembleConfig,
    nodes: Sequence[NodeReport],
    plan: LaunchPlan,
    loaded: LoadedState,
    first_epoch: int | None,
    tell: Tell,
) -> RestoreReport:
    """Write the folders of the new ensemble, and start its servers.

    Raises:
        RestoreRefusedError: there is no such epoch, or a node has no room.
        StorageError: a folder cannot be written.
    """
    state, origin, zxid = loaded.state, loaded.opening, loaded.state.zxid
    first = make_zxid(_first_epoch(loaded, first_epoch), 1)
    sessions, salted = len(state.sessions.by_id), count_salted_acls(state)
    refound(state, first, [KEEPER_ROOT], origin_uuid(origin))
    backup = f"{origin.ensemble!r} ({origin.ensemble_uuid}) as of {format_zxid(zxid)}"
    restored = RestoredHistory(f"{backup}, restore {uuid4().hex[:8]}", first)
    size = sum(len(chunk) + _CHUNK_HEAD_BYTES for chunk in _chunks_of(state))
    check_room(config.data_dir, nodes, plan, size)
    _write(config, nodes, plan, state, restored, tell)
    return RestoreReport(
        ensemble=Ensemble(config.name),
        origin=origin.ensemble,
        zxid=zxid,
        time_ms=state.time_ms,
        first_zxid=first,
        znodes=len(state.tree.znodes),
        sessions_ended=sessions,
        salted_acls=salted,
        seconds=0.0,
    )


def _plan(config: EnsembleConfig) -> tuple[list[NodeReport], LaunchPlan]:
    """Return the nodes, and where the servers of the new ensemble will run.

    Raises:
        RestoreRefusedError: it runs, or a node has something of it, or does not tell.
        PlacementError: the nodes do not suffice.
    """
    name, advice = config.name, "choose another name, or remove that first"
    if name in list_ensembles():
        raise RestoreRefusedError(f"an ensemble {name!r} runs in this Ray cluster; {advice}")
    nodes = discover_nodes(config.data_dir, name)
    if unknown := unread(nodes):
        raise RestoreRefusedError(f"not all nodes can tell what they hold: {'; '.join(unknown)}")
    asked = [on_node(node.node_id, names_in_the_way, config.data_dir, name) for node in nodes]
    for node, task in zip(nodes, asked, strict=True):
        try:
            folder, names = ray.get(task)
        except (StorageError, ray.exceptions.RayError) as error:
            reason = str(getattr(error, "cause", error)).partition("\n")[0]
            raise RestoreRefusedError(f"{node.name}: {reason}") from None
        if names:
            raise RestoreRefusedError(
                f"{folder} on {node.name} is not empty, it holds {', '.join(names[:5])}; {advice}"
            )
    plan = place(config, nodes, {})
    assert all(each.format is FolderFormat.FOUNDING for each in plan.placements), plan
    return nodes, plan


def _first_epoch(loaded: LoadedState, wanted: int | None) -> Epoch:
    origin = loaded.opening.ensemble_uuid
    known = max([loaded.epoch, *_epochs_of_kin(origin)])
    if wanted is None:
        wanted = epoch_after(known, time.time_ns() // 1_000_000 - loaded.opening.created_ms)
    if not known < wanted < EPOCH_MAX:
        raise RestoreRefusedError(
            f"epoch {wanted} cannot be the first one: the old ensemble is known to have reached "
            f"{known}, and the last one is {EPOCH_MAX}"
        )
    return Epoch(wanted)


def _epochs_of_kin(origin: str) -> Iterator[Epoch]:
    """Yield the epochs of running ensembles that gave, or may give, the tokens of the old one.

    These are the old one itself, and those that were restored from its backups.
    """
    for name in list_ensembles():
        described = [d for d in find_running(name).values() if isinstance(d, ReplicaDescription)]
        for status in ask_statuses(name).values():
            if isinstance(status, ReplicaStatus) and (
                origin in status.restored_from or any(d.ensemble_uuid == origin for d in described)
            ):
                yield status.epoch


def check_room(
    data_dir: str, nodes: Sequence[NodeReport], plan: LaunchPlan, snapshot_bytes: int
) -> None:
    """Check that every node has room for the folders of its servers.

    Raises:
        RestoreRefusedError: one has not.
    """
    counts = Counter(each.node_id for each in plan.placements)
    for node in nodes:
        # Twice, as each server copies the staged snapshot into its folder before that is removed.
        needed = (2 * snapshot_bytes + _LOG_BYTES) * counts[node.node_id]
        if node.free_bytes < needed:
            raise RestoreRefusedError(
                f"{node.name} has {node.free_bytes:,} bytes free for {data_dir}, and the restored "
                f"servers there ({counts[node.node_id]}) need {needed:,}"
            )


def _write(
    config: EnsembleConfig,
    nodes: Sequence[NodeReport],
    plan: LaunchPlan,
    state: State,
    restored: RestoredHistory,
    tell: Tell,
) -> None:
    """Write the folders of the servers, and start them; remove what a failure leaves.

    Raises:
        StorageError: a node cannot write, or is gone, or another process founds the ensemble.
    """
    data_dir, name = config.data_dir, config.name

    def chunks() -> Iterator[bytes]:
        done = 0
        for chunk in _chunks_of(state):
            yield chunk
            done += len(chunk)
            tell(BackupProgress("write", done, None))

    try:
        stage_snapshot(data_dir, name, plan.placements, restored.zxid, chunks())
        start_planned(config, plan, nodes, restored)
    except BaseException as error:
        left = remove_restored(data_dir, name, plan.placements, restored)
        what = f"; not removed again: {'; '.join(left)}" if left else "; nothing is left of it"
        if isinstance(error, StorageError):
            raise StorageError(f"{getattr(error, 'cause', error)}{what}") from None
        if isinstance(error, ray.exceptions.RayError):
            reason = str(error).partition("\n")[0]
            raise StorageError(f"a node was lost during the restore: {reason}{what}") from None
        raise


def _chunks_of(state: State) -> Iterator[bytes]:
    walk = SnapshotWalk(state)
    while (chunk := walk.next_chunk()) is not None:
        yield chunk
