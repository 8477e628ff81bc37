"""Discover what the nodes hold of an ensemble, and format their folders: one Ray task per node.

A task that does not run on its node within the timeout is reported as a node that does not answer.
"""

import os
import platform
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import ray
from msgspec import Struct
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raykeeper.actors.disk.file_operations import make_store_folder, rename_durably, replace_by
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.founding import found_folder
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner, format_folder, read_identity
from raykeeper.actors.disk.members_file import StoredMembers, read_members, write_members
from raykeeper.actors.disk.snapshot_files import SnapshotChunks
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    StorageError,
    UnknownVersion,
    storage_errors,
)
from raykeeper.client.ray_lookups import ask_ray, list_nodes
from raykeeper.clusters.node_report import (
    EnsembleRecord,
    FoundFolder,
    NodeReport,
    RestoredHistory,
    UnreadableFolder,
    part_superseded,
)
from raykeeper.zab.errors import DECODE_ERRORS, RayKeeperError
from raykeeper.zab.ids import ServerId, epoch_of
from raykeeper.zab.member_list import MemberList

RECORD_FILE = "ensemble.json"
SUPERSEDED_MARK = ".superseded-"
"""Between the id of the server and the time, in the name of a folder of an ended history."""
STAGED_MARK = ".restored.tmp"
"""Behind the id of a server, in the name of the snapshot that its folder will begin with."""
_TIMEOUT_S = 30.0
_FORMAT_TIMEOUT_S = 10.0
_POLL_S = 0.02
_SYSTEM_CALLS = ("posix_fallocate", "fdatasync")
"""System calls that the log needs and not every system has."""


class DiskContents(Struct, frozen=True):
    """The part of an ensemble on the disk of a node; the fields are those of `NodeReport`."""

    record: EnsembleRecord | None
    record_damage: str
    folders: list[FoundFolder]
    unreadable: list[UnreadableFolder]
    free_bytes: int = 0
    wall_s: int = 0


def server_folder(data_dir: str, ensemble: str, server_id: ServerId) -> Path:
    """Return the data folder of a server on the node that makes this call."""
    return Path(data_dir).expanduser() / ensemble / str(server_id)


def staged_snapshot(data_dir: str, ensemble: str, server_id: ServerId) -> Path:
    """Return where, on this node, the snapshot waits with which a restored server begins."""
    folder = server_folder(data_dir, ensemble, server_id)
    return folder.with_name(f"{server_id}{STAGED_MARK}")


def discover_nodes(data_dir: str, ensemble: str, timeout_s: float = _TIMEOUT_S) -> list[NodeReport]:
    """Ask every live node what it holds. Changes nothing."""
    nodes = [node for node in list_nodes() if node["Alive"]]
    asked = [on_node(node["NodeID"], inspect_node, data_dir, ensemble) for node in nodes]
    ray.wait(asked, num_returns=len(asked), timeout=timeout_s)
    reports = [_report(node, ref) for node, ref in zip(nodes, asked, strict=True)]
    return part_superseded(reports)


def find_live_node(beginning: str) -> tuple[str, str]:
    """Return the id of the only live node whose id begins so; or "", and why there is none."""
    return choose_node(beginning, [str(n["NodeID"]) for n in list_nodes() if n["Alive"]])


def choose_node(beginning: str, alive: Sequence[str]) -> tuple[str, str]:
    """Return the only one of the ids that begins so; or "", and why there is none."""
    found = [node for node in alive if beginning and node.startswith(beginning)]
    if len(found) == 1:
        return found[0], ""
    known = ", ".join(sorted(node[:8] for node in alive))
    number = "no live Ray node has" if not found else f"{len(found)} live Ray nodes have"
    return "", f"{number} an id that begins with {beginning!r}; there are {known}"


def _report(node: dict[str, Any], ref: "ray.ObjectRef[Any]") -> NodeReport:
    empty = NodeReport(
        node_id=node["NodeID"],
        name=f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})",
        labels=dict(node.get("Labels") or {}),
        resources=sorted(node["Resources"]),
    )
    try:
        found: DiskContents = ray.get(ref, timeout=0)
    except RayKeeperError as error:
        problem = str(getattr(error, "cause", error))
    except ray.exceptions.GetTimeoutError:
        ray.cancel(ref, force=True)
        problem = "does not answer"
    except ray.exceptions.RayError as error:
        problem = type(error).__name__
    else:
        return msgspec.structs.replace(empty, **msgspec.structs.asdict(found))
    return msgspec.structs.replace(empty, problem=problem)


def on_node(node_id: str, function: Callable[..., Any], *args: object) -> "ray.ObjectRef[Any]":
    """Run `function` once, on that node only.

    Raises:
        RayUnavailableError: Ray does not take the task in time.
    """
    task = ray.remote(function).options(
        num_cpus=0,
        max_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    )
    # Ray exports a function to its GCS before its first task.
    ref: ray.ObjectRef[Any] = ask_ray(f"a task on node {node_id[:8]}", task.remote, *args)
    return ref


def inspect_node(data_dir: str, ensemble: str) -> DiskContents:
    """Return what this node's disk holds of the ensemble, with every unreadable folder.

    Raises:
        StorageError: the folder of the ensemble itself cannot be read.
    """
    home = Path(data_dir).expanduser() / ensemble
    with storage_errors(home):
        folders = _folders_in(home)
    holdings, unreadable = [], []
    for folder in folders:
        if not folder.name.isdecimal() or str(int(folder.name)) != folder.name:
            continue
        server_id = ServerId(int(folder.name))
        try:
            identity = read_identity(folder)
            if identity is None:
                with storage_errors(folder):
                    _check_is_absent(folder)
        except CorruptRecord as error:
            members = read_members(folder)
            holdings.append(FoundFolder(server_id, str(folder), None, str(error), members=members))
        except StorageError as error:
            is_other = isinstance(error, UnknownVersion)
            unreadable.append(UnreadableFolder(server_id, str(error), is_other))
        else:
            if identity is not None:
                size, members = _size_of(folder), read_members(folder)
                holdings.append(
                    FoundFolder(server_id, str(folder), identity, data_bytes=size, members=members)
                )
    record, damage = _read_record(home / RECORD_FILE)
    with storage_errors(home):
        free = shutil.disk_usage(_nearest_folder(home)).free
    return DiskContents(record, damage, holdings, unreadable, free, int(time.time()))


def write_record(data_dir: str, ensemble: str, record: EnsembleRecord) -> None:
    """Replace a damaged record on this node.

    Raises:
        StorageError: the record cannot be written.
    """
    _write_record(Path(data_dir).expanduser() / ensemble / RECORD_FILE, record)


def prepare_folder(
    data_dir: str,
    ensemble: str,
    record: EnsembleRecord,
    server_id: ServerId,
    is_founding: bool,
    supersedes: Sequence[str] = (),
    restored: RestoredHistory | None = None,
    members: MemberList | None = None,
) -> DiskIdentity:
    """Format a server's folder on this node, unless another launch has; return its identity.

    A folder that is not founding begins its incarnations at the wall clock, beyond those of the
    disk that it may replace, and with the list `members`: its server dials those first. One of an
    ensemble in `supersedes` is set aside first. One that is `restored` takes the snapshot that was
    staged for it.

    Raises:
        StorageError: the folder cannot be written, or holds data without an identity; or this
            system is not Linux.
    """
    missing = [call for call in _SYSTEM_CALLS if not hasattr(os, call)]
    if missing:
        lacks = " and no ".join(missing)
        raise StorageError(f"a server needs Linux: {platform.system()} has no {lacks}")
    folder = server_folder(data_dir, ensemble, server_id)
    owner = FolderOwner(ensemble, record.ensemble_uuid, server_id)
    incarnation, reason = (0, "") if is_founding else (int(time.time()), "its disk is a new one")
    set_superseded_aside(folder, supersedes)
    identity = DiskIdentity(
        *(owner, uuid4().hex, is_founding, incarnation, reason), supersedes=list(supersedes)
    )
    if members is not None and not is_founding:
        _tell_members(folder, members)
    identity = _format(folder, identity) if restored is None else _found(folder, identity, restored)
    record = EnsembleRecord(identity.owner.ensemble_uuid, record.servers)
    file = folder.parent / RECORD_FILE
    if _read_record(file)[0] != record:
        _write_record(file, record)
    return identity


def _tell_members(folder: Path, members: MemberList) -> None:
    """Write the list into a folder that is about to be formatted, unless another launch does it.

    Before the identity: a folder with an identity and without a list would be one of the founding.

    Raises:
        StorageError: it cannot be written.
    """
    with storage_errors(folder), suppress(FolderInUse):
        make_store_folder(OS_FILESYSTEM, folder)
        lock = lock_folder(OS_FILESYSTEM, folder)
        try:
            if read_identity(folder) is None and read_members(folder) is None:
                write_members(folder, StoredMembers(members))
        finally:
            OS_FILESYSTEM.close(lock)


def _found(folder: Path, identity: DiskIdentity, restored: RestoredHistory) -> DiskIdentity:
    """Format a folder with the snapshot that was staged for it; return its identity.

    Raises:
        StorageError: it is formatted already, or cannot be written.
    """
    owner, zxid = identity.owner, restored.zxid
    staged = staged_snapshot(str(folder.parents[1]), owner.ensemble, owner.server_id)
    identity = msgspec.structs.replace(identity, restored_from=restored.backup)
    found_folder(folder, identity, epoch_of(zxid), zxid, SnapshotChunks(staged))
    with storage_errors(staged):
        staged.unlink()
    found = read_identity(folder)
    assert found is not None, folder
    return found


def set_superseded_aside(folder: Path, uuids: Collection[str]) -> str | None:
    """Give the folder of a server another name if its ensemble is one of `uuids`; return the name.

    None if it is of another ensemble, damaged, or not there.

    Raises:
        FolderInUse: a server runs there.
        StorageError: it cannot be read or renamed.
    """
    deadline = time.monotonic() + _FORMAT_TIMEOUT_S
    while _is_of(folder, uuids):
        try:
            with storage_errors(folder):
                lock = lock_folder(OS_FILESYSTEM, folder)
                try:
                    # Read under the lock: another launch may have done this meanwhile.
                    return str(set_aside(folder)) if _is_of(folder, uuids) else None
                finally:
                    OS_FILESYSTEM.close(lock)
        except FolderInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
    return None


def _is_of(folder: Path, uuids: Collection[str]) -> bool:
    try:
        identity = read_identity(folder) if uuids else None
    except CorruptRecord:
        return False
    return identity is not None and identity.owner.ensemble_uuid in uuids


def set_aside(folder: Path) -> Path:
    """Give a folder of an ended history, which is locked, a name under which no server starts.

    Nothing ever removes it: it may be all that is left of what a recovery did not find.

    Raises:
        OSError: it cannot be renamed.
    """
    path = folder.with_name(f"{folder.name}{SUPERSEDED_MARK}{time.time_ns()}")
    rename_durably(OS_FILESYSTEM, folder, path)
    return path


def _format(folder: Path, identity: DiskIdentity) -> DiskIdentity:
    """Format a folder, unless it is formatted or another launch does it; return its identity."""
    deadline = time.monotonic() + _FORMAT_TIMEOUT_S
    while (found := read_identity(folder)) is None:
        try:
            format_folder(folder, identity)
        except StorageError as error:
            is_busy = isinstance(error, FolderInUse) or isinstance(error.__cause__, FileExistsError)
            if read_identity(folder) is None and (not is_busy or time.monotonic() > deadline):
                raise
            time.sleep(_POLL_S)
    return found


def _folders_in(home: Path) -> list[Path]:
    try:
        return sorted(home.iterdir())
    except FileNotFoundError:
        _check_is_absent(home)
        return []


def _check_is_absent(path: Path) -> None:
    """Make sure that a missing path is not behind a dangling link: its disk may be unmounted.

    Raises:
        StorageError: the path, or a folder above it, is a dangling link.
    """
    for each in (path, *path.parents):
        if each.exists():
            return
        if each.is_symlink():
            raise StorageError(f"{each} is a link to {each.readlink()}, which is not there")


def _nearest_folder(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.is_dir())


def _size_of(folder: Path) -> int:
    """Return what the files of a folder take on the disk; those that end meanwhile do not count."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += 512 * (Path(place) / name).lstat().st_blocks
    return size


def _read_record(file: Path) -> tuple[EnsembleRecord | None, str]:
    """Return the record, or None and why an existing record cannot be read."""
    try:
        with storage_errors(file):
            content = file.read_bytes()
    except StorageError as error:
        return None, "" if isinstance(error.__cause__, FileNotFoundError) else str(error)
    try:
        return msgspec.json.decode(content, type=EnsembleRecord), ""
    except DECODE_ERRORS as error:
        return None, f"{file} is damaged: {error}"


def _write_record(file: Path, record: EnsembleRecord, files: Filesystem = OS_FILESYSTEM) -> None:
    # Several servers and launches may do this at once: each has a temporary file of its own.
    temp = file.with_name(f"{file.name}.{uuid4().hex}.tmp")
    with storage_errors(file):
        replace_by(files, file, msgspec.json.encode(record) + b"\n", temp)
