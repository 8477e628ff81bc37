"""Founds a new history of an ensemble from what is left of the old one.

The steps, each on all nodes before the next one begins:

    export    the best folder is loaded, its sessions end, and its state goes to the nodes
    prepare   every voter's folder is written beside the old ones, under a new uuid
    wait      until no client of the old history can believe in its session
    adopt     the old folders are renamed, and the prepared ones get their names

A crash before `adopt` changes nothing that a launch sees. One in between leaves folders of both
histories; those of the new one say which uuids they supersede, so the old ones have no vote. The
next recovery goes on from the best of both, and that is the new one, because its epoch is higher.
What was renamed counts as a source too, so nothing is ever between two names.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import ray
import ray.exceptions
from msgspec import Struct

from raykeeper.actors.disk.file_operations import rename_durably
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.founding import EPOCH_GAP, found_folder, founding_epoch
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner, read_identity
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError, storage_errors
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.node_discovery import on_node, server_folder, set_aside, write_record
from raykeeper.clusters.node_report import EnsembleRecord, FoundFolder, NodeReport
from raykeeper.clusters.placement import PlacementError, place
from raykeeper.clusters.recovery.evidence import HeldFolder, load_evidence, server_folders
from raykeeper.clusters.recovery.survey import RecoveryRefusedError, Survey, check_stopped
from raykeeper.zab.ids import Epoch, ServerId, Zxid
from raykeeper.znodes.new_history import begin_new_history
from raykeeper.znodes.snapshot import SnapshotWalk

PREPARED_PREFIX: Final = "recovering-"
"""How the folder begins in which the new folders are prepared, beside the old ones."""
_PIECE_BYTES = 8 << 20
"""Of the state that goes from node to node."""


class NewHistory(Struct, frozen=True):
    """A history that was founded."""

    uuid: str
    epoch: Epoch
    """The first leader leads the next one."""
    zxid: Zxid
    """The last transaction that is kept."""
    nodes: dict[ServerId, str]
    """The node of each voter's folder."""
    set_aside: list[str]
    """The new names of the old folders, each with its node."""
    left_alone: list[str]
    """The nodes that could not be read, and why."""


def found_new_history(
    found: Survey, gap: int = EPOCH_GAP, tell: Callable[[str], None] = lambda _: None
) -> NewHistory:
    """Found a new history from the best folder of a survey. `tell` takes lines of progress.

    Raises:
        RecoveryRefusedError: it is not to be recovered, see `Judgement.refusal`; or it runs by now.
        PlacementError: the nodes do not suffice.
        StorageError: a folder has changed, or cannot be read or written; names its node. Do the
            same again: what was renamed is found.
    """
    config, judgement = found.config, found.judgement
    if judgement.refusal or judgement.best is None:
        raise RecoveryRefusedError(judgement.refusal)
    began = time.monotonic()
    best = judgement.best
    epoch = founding_epoch(judgement.accepted, gap)
    nodes = [node for node in found.nodes if node.problem is None and not node.unreadable]
    targets = choose_nodes(config, nodes, judgement.folders)
    uuid = str(uuid4())
    old = [*judgement.superseded, *([judgement.uuid] if judgement.uuid else [])]
    names = {node.node_id: node.name for node in found.nodes}
    tell(f"loading {best.folder} on {best.node} …")
    pieces = _pieces(best)
    where = (config.data_dir, config.name)
    tell("writing the new folders …")
    preparing = [
        (
            node_id,
            on_node(
                *(node_id, prepare_new_folder, *where, server),
                *(uuid, old, epoch, best.last, pieces),
            ),
        )
        for server, node_id in targets.items()
    ]
    for node_id, task in preparing:
        _result_of(task, names[node_id])
    left_s = config.session_timeout_max_s - (time.monotonic() - began)
    if left_s > 0:
        tell(f"waiting for {left_s:.0f} s: no client may believe in a session of the old history …")
        time.sleep(left_s)
    check_stopped(config.name)
    record = EnsembleRecord(uuid, config.servers)
    aside = []
    for node in nodes:
        servers = [server for server, node_id in targets.items() if node_id == node.node_id]
        task = on_node(node.node_id, adopt_new_folders, *where, record, servers)
        aside += [f"{path} on {node.name}" for path in _result_of(task, node.name)]
    left = [
        f"{node.name}: {node.problem or node.unreadable[0].reason}"
        for node in found.nodes
        if node not in nodes
    ]
    at = {server: names[node_id] for server, node_id in targets.items()}
    return NewHistory(uuid, epoch, best.last, at, aside, left)


def choose_nodes(
    config: EnsembleConfig, nodes: Sequence[NodeReport], folders: Sequence[HeldFolder]
) -> dict[ServerId, str]:
    """Return the node of each voter's new folder: where it has one now, else as for a launch.

    Raises:
        PlacementError: the nodes do not suffice.
    """
    if not nodes:
        raise PlacementError("no node could be read in full, so none can take a new folder")
    readable = {node.node_id for node in nodes}
    homes: dict[ServerId, HeldFolder] = {}
    for each in folders:
        is_of_voter = not each.is_set_aside and each.server_id <= config.servers
        if is_of_voter and each.node_id in readable:
            known = homes.setdefault(each.server_id, each)
            if each.rank > known.rank:
                homes[each.server_id] = each
    reports = []
    for node in nodes:
        here = [each for each in homes.values() if each.node_id == node.node_id]
        reports.append(
            NodeReport(
                *(node.node_id, node.name, node.labels, node.resources),
                folders=[FoundFolder(e.server_id, e.folder, _stand_in(config, e)) for e in here],
            )
        )
    voters = config_of_voters(config)
    return {each.server_id: each.node_id for each in place(voters, reports, {}).placements}


def config_of_voters(config: EnsembleConfig) -> EnsembleConfig:
    """Return the settings without observers, which the next launch formats."""
    return EnsembleConfig(
        name=config.name,
        servers=config.servers,
        placement=config.placement,
        data_dir=config.data_dir,
    )


def _stand_in(config: EnsembleConfig, held: HeldFolder) -> DiskIdentity:
    """Return an identity that only says whose folder it is: histories do not matter here."""
    owner = FolderOwner(config.name, "", held.server_id)
    return DiskIdentity(owner, str(held.server_id), is_founding=True, incarnation=1)


def _pieces(best: HeldFolder) -> "list[ray.ObjectRef[Any]]":
    """Load the best folder on its node; return its state in pieces.

    Raises:
        StorageError: it has changed, or cannot be read.
    """
    pieces: list[ray.ObjectRef[Any]] = [*cast("Any", on_node(best.node_id, export_state, best))]
    _result_of(pieces[-1], best.node)  # a generator that fails ends with its error
    return pieces


def export_state(best: HeldFolder) -> Iterator[list[bytes]]:
    """Yield the state of a folder as the new history begins with it, in chunks of a snapshot.

    Raises:
        StorageError: the folder has changed since it was judged, or cannot be read.
    """
    state = load_evidence(best)
    begin_new_history(state)
    walk = SnapshotWalk(state)
    piece: list[bytes] = []
    size = 0
    while (chunk := walk.next_chunk()) is not None:
        piece.append(chunk)
        size += len(chunk)
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


def prepare_new_folder(
    data_dir: str,
    ensemble: str,
    server: ServerId,
    uuid: str,
    supersedes: list[str],
    epoch: Epoch,
    zxid: Zxid,
    pieces: "list[ray.ObjectRef[Any]]",
) -> None:
    """Write the folder of a server in the new history, beside the old ones, on this node.

    Raises:
        StorageError: it cannot be written, or the state did not arrive.
    """
    owner = FolderOwner(ensemble, uuid, server)
    identity = DiskIdentity(owner, uuid4().hex, is_founding=True, supersedes=supersedes)
    try:
        chunks = (chunk for piece in pieces for chunk in ray.get(piece))
        write_prepared(data_dir, identity, epoch, zxid, chunks)
    except ray.exceptions.RayError as error:
        raise StorageError(f"the state did not arrive: {type(error).__name__}") from None


def write_prepared(
    data_dir: str, identity: DiskIdentity, epoch: Epoch, zxid: Zxid, chunks: Iterable[bytes]
) -> None:
    """Write the folder of `identity` with the state in `chunks` under its temporary name.

    Those of a recovery that was given up are removed.

    Raises:
        StorageError: it cannot be written.
    """
    owner = identity.owner
    folder = prepared_folder(data_dir, owner.ensemble, owner.ensemble_uuid, owner.server_id)
    with storage_errors(folder):
        for left in folder.parent.parent.glob(f"{PREPARED_PREFIX}*"):
            if left != folder.parent:
                shutil.rmtree(left)
    found_folder(folder, identity, epoch, zxid, chunks)


def adopt_new_folders(
    data_dir: str, ensemble: str, record: EnsembleRecord, servers: Sequence[ServerId]
) -> list[str]:
    """Rename the old folders on this node, and give those of `servers` that were prepared here.

    Returns the new names of the old ones. Doing it twice changes nothing.

    Raises:
        FolderInUse: a server runs in an old folder; it and those after it are as they were.
        StorageError: a folder cannot be renamed.
    """
    uuid, renamed = record.ensemble_uuid, []
    for _, folder, is_set_aside in list(server_folders(data_dir, ensemble)):
        if not is_set_aside and _uuid_in(folder) != uuid:
            with storage_errors(folder):
                lock = lock_folder(OS_FILESYSTEM, folder) if folder.is_dir() else None
                try:
                    renamed.append(str(set_aside(folder)))
                finally:
                    if lock is not None:
                        OS_FILESYSTEM.close(lock)
    for server in servers:
        prepared = prepared_folder(data_dir, ensemble, uuid, server)
        folder = server_folder(data_dir, ensemble, server)
        with storage_errors(folder):
            if prepared.is_dir():
                rename_durably(OS_FILESYSTEM, prepared, folder)
            with suppress(OSError):  # another node shares the disk, and has its own there still
                prepared.parent.rmdir()
    if servers:
        write_record(data_dir, ensemble, record)
    return renamed


def prepared_folder(data_dir: str, ensemble: str, uuid: str, server: ServerId) -> Path:
    """Return where the folder of a server of the new history is prepared."""
    home = server_folder(data_dir, ensemble, server).parent
    return home / f"{PREPARED_PREFIX}{uuid}" / str(server)


def _uuid_in(folder: Path) -> str:
    try:
        identity = read_identity(folder) if folder.is_dir() else None
    except CorruptRecord:
        return ""
    return "" if identity is None else identity.owner.ensemble_uuid


def _result_of(task: "ray.ObjectRef[Any]", node: str) -> Any:
    try:
        return ray.get(task)
    except StorageError as error:
        raise StorageError(f"{getattr(error, 'cause', error)} (node {node})") from None
    except ray.exceptions.RayError as error:
        raise StorageError(f"node {node} does not answer: {type(error).__name__}") from None
