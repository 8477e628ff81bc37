"""Rules about disks and folders."""

from collections.abc import Iterator
from typing import Final

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts, FolderFacts, NodeFacts
from raykeeper.clusters.doctor.rules.findings import (
    Fault,
    Rule,
    Severity,
    bytes_text,
    server_text,
    servers_text,
)

SLOW_FORCE_US: Final = 100_000
"""A write waits for one force on each of a majority; an SSD takes 1 ms, a hard disk 10."""
SNAPSHOTS_OF_ROOM: Final = 2
"""A server writes a snapshot beside the old ones, and may receive one meanwhile."""
SEGMENTS_OF_ROOM: Final = 2
"""The segment that comes next is allocated before the last one is full."""
_KEPT_DAYS = "stale_folder_days"


def disk_full(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server logs nothing because its disk is full."""
    for server in facts.answering():
        if not server.has_disk_space:
            yield Fault(server_text(server.server_id), "logs nothing: its disk is full")


def little_room(facts: EnsembleFacts) -> Iterator[Fault]:
    """The next snapshots and segments may not fit on a disk."""
    for node in facts.reporting():
        disk = node.disk
        here = [each for each in used_folders(facts, node) if disk and each.device == disk.device]
        needed = sum(
            SNAPSHOTS_OF_ROOM * each.snapshot_bytes + SEGMENTS_OF_ROOM * each.segment_bytes
            for each in here
        )
        if disk is not None and disk.free_bytes < needed:
            servers = servers_text([each.server_id for each in here])
            told = (
                f"has {bytes_text(disk.free_bytes)} free below data_dir; the next snapshots and "
                f"segments of {servers} may take {bytes_text(needed)}"
            )
            yield Fault(f"node {node.name}", told)


def slow_force(facts: EnsembleFacts) -> Iterator[Fault]:
    """Forcing a write takes long."""
    for node in facts.reporting():
        took = node.disk.force_us if node.disk and used_folders(facts, node) else None
        if took is not None and took >= SLOW_FORCE_US:
            told = f"takes {took // 1000} ms to force 4 KiB below data_dir"
            yield Fault(f"node {node.name}", told)


def not_writable(facts: EnsembleFacts) -> Iterator[Fault]:
    """Nothing can be written below `data_dir`."""
    for node in facts.reporting():
        if node.disk and node.disk.force_problem and used_folders(facts, node):
            yield Fault(f"node {node.name}", node.disk.force_problem)


def damaged_folder(facts: EnsembleFacts) -> Iterator[Fault]:
    """A folder does not hold what was written."""
    for node in facts.reporting():
        for folder in node.folders:
            for damage in folder.damage:
                yield Fault(f"{server_text(folder.server_id)} on node {node.name}", damage)


def unreadable_folder(facts: EnsembleFacts) -> Iterator[Fault]:
    """A folder cannot be read at all."""
    for node in facts.reporting():
        for reason in node.unreadable:
            yield Fault(f"node {node.name}", reason)


def other_version(facts: EnsembleFacts) -> Iterator[Fault]:
    """A folder is of another version of the program than the one installed there."""
    for node in facts.reporting():
        for folder in node.folders:
            if folder.other_version:
                about = f"{server_text(folder.server_id)} on node {node.name}"
                yield Fault(about, folder.other_version)


def damaged_record(facts: EnsembleFacts) -> Iterator[Fault]:
    """The record of the ensemble on a node is damaged."""
    for node in facts.reporting():
        if node.record_damage:
            yield Fault(f"node {node.name}", node.record_damage)


def stale_folder(facts: EnsembleFacts) -> Iterator[Fault]:
    """A folder has lost its vote to another disk, or lies aside longer than it should."""
    kept_days = facts.settings.get(_KEPT_DAYS, 0)
    for node in facts.reporting():
        for folder in node.folders:
            if _is_stale(facts, node, folder):
                told = f"{folder.path} is not the disk with the vote of server {folder.server_id}"
                yield Fault(f"node {node.name}", told)
        for aside in node.set_aside:
            if not facts.keeper.is_there or aside.age_days > kept_days:
                told = f"{aside.path} was set aside {aside.age_days} days ago"
                yield Fault(f"node {node.name}", told)


def used_folders(facts: EnsembleFacts, node: NodeFacts) -> list[FolderFacts]:
    """Return the folders of the node in which a server runs."""
    return [each for each in node.folders if _is_used(facts, node, each)]


def _is_used(facts: EnsembleFacts, node: NodeFacts, folder: FolderFacts) -> bool:
    return any(
        each.server_id == folder.server_id and each.node_id == node.node_id
        for each in facts.servers
    )


def _is_stale(facts: EnsembleFacts, node: NodeFacts, folder: FolderFacts) -> bool:
    voting = facts.voting_disks.get(folder.server_id)
    if voting is None or folder.disk is None or _is_used(facts, node, folder):
        return False
    return folder.disk != voting


_W, _E = Severity.WARNING, Severity.ERROR
DISK_RULES = (
    Rule(
        "disk.full",
        _E,
        "The server answers reads, but acknowledges no write; a majority of such servers stops "
        "all writes.",
        "Make space where its folder is, for example by moving other data away; it goes on by "
        "itself. Delete nothing in the folder.",
        disk_full,
    ),
    Rule(
        "disk.room",
        _W,
        "The disk may be full after the next snapshot: then the server logs nothing.",
        "Make space, move the folder to a larger disk, or lower `snapshots_kept`.",
        little_room,
    ),
    Rule(
        "disk.slow",
        _W,
        "Every write waits until a majority has forced it to disk.",
        "Find out what else uses the disk; give the servers a disk of their own, best an SSD.",
        slow_force,
    ),
    Rule(
        "disk.not_writable",
        _E,
        "The server cannot write there either.",
        "Mend the file system or its permissions: it may have become read-only after an error.",
        not_writable,
    ),
    Rule(
        "folder.damaged",
        _E,
        "A checksum or a file is wrong. A server that runs has its state in memory and goes on; "
        "its next start repairs the folder from its peers, which needs them.",
        "Restart this server alone, while all others work; replace a disk that does it again. See "
        "docs/DISKS.md.",
        damaged_folder,
    ),
    Rule(
        "folder.unreadable",
        _E,
        "What it holds is not known, so a launch formats nothing in its place.",
        "Mend its permissions or mount its disk.",
        unreadable_folder,
    ),
    Rule(
        "folder.other_version",
        _E,
        "The version of raykeeper that is installed there cannot read the folder, so the server "
        "does not start again.",
        "Install the version that wrote it.",
        other_version,
    ),
    Rule(
        "record.damaged",
        _W,
        "The file `ensemble.json` says which ensemble the folders belong to.",
        "Run `raykeeper up`: it writes the record again, if another node still has it.",
        damaged_record,
    ),
    Rule(
        "folder.stale",
        _W,
        "The folder is out of date and only takes space; nothing starts from it.",
        "Remove it when all servers work. A keeper sets such folders aside and removes them.",
        stale_folder,
    ),
)
