"""What a task of the doctor finds on its Ray node: disk, folders, files, versions, Ray's settings.

Writes nothing that stays: the forces that it times are of a file without a name.
"""

import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.running_versions import running_versions
from raykeeper.clusters.doctor.certificates import examine_certificate
from raykeeper.clusters.doctor.folder_check import FolderCheck, check_folder
from raykeeper.clusters.doctor.ray_facts import (
    gcs_storage,
    load_percent,
    memory_kill_percent,
    memory_percent,
)
from raykeeper.clusters.doctor.rules.facts import (
    DiskFacts,
    FolderFacts,
    NodeFacts,
    SetAsideFolder,
    TlsFileFacts,
)
from raykeeper.clusters.node_discovery import inspect_node
from raykeeper.clusters.node_report import FoundFolder
from raykeeper.clusters.stale_folders import STALE_MARK
from raykeeper.links.jute_tls import TlsFiles
from raykeeper.zab.ids import ServerId

_FORCES: Final = 9
_FORCE_BYTES: Final = 4096
_FORCES_S: Final = 2.0
"""A disk that takes longer is slow enough to be told after fewer forces."""
_DAY_S: Final = 86_400
_OF_RAY: Final = "Ray"
_OF_ZOOKEEPER: Final = "clients of ZooKeeper"


class NodeQuestion(Struct, frozen=True, kw_only=True):
    """What the doctor wants to know of one node."""

    node_id: str
    name: str
    data_dir: str
    """Of the ensemble; "": not known, since no server answers."""
    ensemble: str
    servers: tuple[ServerId, ...] = ()
    """Whose folders are read: those that run there, or nowhere."""
    runs_here: bool = False
    """Whether a server of the ensemble runs there."""
    tls: TlsFiles | None = None
    """Of the port for clients of ZooKeeper over TLS."""
    reading_s: float = 10.0
    """How long the cold files may be read."""


def examine_node(question: NodeQuestion) -> NodeFacts:
    """Return the facts of the node on which this is called."""
    until = time.monotonic() + question.reading_s
    tls = list(_ray_certificate())
    if question.tls is not None and question.runs_here:
        tls += examine_certificate(question.tls, _OF_ZOOKEEPER)
    facts = NodeFacts(
        node_id=question.node_id,
        name=question.name,
        versions=running_versions(),
        load_percent=load_percent(),
        memory_percent=memory_percent(),
        memory_kill_percent=memory_kill_percent(os.environ),
        gcs_storage=gcs_storage(),
        tls_files=tuple(tls),
    )
    return _with_folders(facts, question, until) if question.data_dir else facts


def _with_folders(facts: NodeFacts, question: NodeQuestion, until: float) -> NodeFacts:
    home = Path(question.data_dir).expanduser() / question.ensemble
    try:
        contents = inspect_node(question.data_dir, question.ensemble)
    except StorageError as error:
        return replace(facts, unreadable=(str(error),))
    folders, unreadable = [], []
    for each in contents.unreadable:
        if each.is_other_version:
            found = FoundFolder(each.server_id, str(home / str(each.server_id)), None)
            folders.append(folder_facts(found, FolderCheck(other_version=each.reason)))
        else:
            unreadable.append(each.reason)
    for found in contents.folders:
        check = FolderCheck(damage=[found.damage] if found.damage else [])
        if not found.damage and found.server_id in question.servers:
            check = check_folder(Path(found.folder), until)
        unreadable += check.unreadable
        folders.append(folder_facts(found, check))
    return replace(
        facts,
        folders=tuple(folders),
        unreadable=tuple(unreadable),
        set_aside=tuple(find_set_aside(home, time.time())),
        record_damage=contents.record_damage,
        disk=measure_disk(home) if question.runs_here else None,
    )


def folder_facts(found: FoundFolder, check: FolderCheck) -> FolderFacts:
    """Return the facts of a folder, which may be gone by now."""
    try:
        device = Path(found.folder).stat().st_dev
    except OSError:
        device = 0
    return FolderFacts(
        server_id=found.server_id,
        path=found.folder,
        disk=None if found.identity is None else found.identity.disk(),
        data_bytes=found.data_bytes,
        snapshot_bytes=check.snapshot_bytes,
        segment_bytes=check.segment_bytes,
        device=device,
        damage=tuple(check.damage),
        other_version=check.other_version,
        unread_files=check.unread_files,
    )


def find_set_aside(home: Path, now_s: float) -> list[SetAsideFolder]:
    """Return the folders below `home` that a keeper has set aside, with their age at `now_s`."""
    found = []
    for folder in sorted(home.glob(f"*{STALE_MARK}*")):
        stamp = folder.name.rpartition(STALE_MARK)[2]
        if stamp.isdecimal():
            age = max(0, now_s - int(stamp) / 1e9)
            found.append(SetAsideFolder(str(folder), int(age // _DAY_S)))
    return found


def measure_disk(home: Path) -> DiskFacts:
    """Return what is free where `home` is, and how long a force takes there."""
    try:
        device, free = home.stat().st_dev, shutil.disk_usage(home).free
    except OSError as error:
        return DiskFacts(force_problem=f"{home}: {error.strerror or error}")
    try:
        took = _force_seconds(home)
    except OSError as error:
        problem = f"nothing can be written in {home}: {error.strerror or error}"
        return DiskFacts(device=device, free_bytes=free, force_problem=problem)
    force_us = round(1e6 * statistics.median(took))
    return DiskFacts(device=device, free_bytes=free, force_us=force_us)


def _force_seconds(home: Path) -> list[float]:
    """Write to a file and force it, some times; return how long each took."""
    fd = _open_nameless(home)
    try:
        os.posix_fallocate(fd, 0, (_FORCES + 1) * _FORCE_BYTES)
        os.fsync(fd)  # the allocation is not what is timed
        took: list[float] = []
        while len(took) < _FORCES and sum(took) < _FORCES_S:
            began = time.monotonic()
            os.pwrite(fd, b"\1" * _FORCE_BYTES, len(took) * _FORCE_BYTES)
            os.fdatasync(fd)
            took.append(time.monotonic() - began)
        return took
    finally:
        os.close(fd)


def _open_nameless(home: Path) -> int:
    """Open a file that ends with this process, also on a file system that knows none without."""
    try:
        return os.open(home, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        path = home / f"doctor-{os.getpid()}.tmp"
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        path.unlink()
        return fd


def _ray_certificate() -> list[TlsFileFacts]:
    """Return the facts of the certificate with which Ray's own processes talk, if they use one."""
    setting = os.environ.get
    if setting("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return []
    files = TlsFiles(
        setting("RAY_TLS_SERVER_CERT", ""),
        setting("RAY_TLS_SERVER_KEY", ""),
        setting("RAY_TLS_CA_CERT", ""),
    )
    return examine_certificate(files, _OF_RAY)
