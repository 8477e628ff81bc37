"""What each node reports of its part in an ensemble; the input of a placement."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.identity import DiskIdentity
from raykeeper.actors.disk.members_file import StoredMembers
from raykeeper.zab.ids import ServerId, Zxid


class EnsembleRecord(Struct, frozen=True):
    """The record of an ensemble that a node keeps beside the folders of its servers."""

    ensemble_uuid: str
    servers: int
    """The number of voting servers that the ensemble was founded with."""
    format_version: int = 1


class RestoredHistory(Struct, frozen=True):
    """What the servers of a restored ensemble begin with."""

    backup: str
    """Names the backup, in the identity of each folder."""
    zxid: Zxid
    """Of the first state; its epoch is the first one."""


class FoundFolder(Struct, frozen=True):
    """A folder that a node has for a server of this ensemble."""

    server_id: ServerId
    folder: str
    identity: DiskIdentity | None
    """None when it is damaged: the server starts there and repairs its folder (rule D4)."""
    damage: str = ""
    """Why the identity cannot be read."""
    data_bytes: int = 0
    """What its files take on the disk."""
    members: StoredMembers | None = None
    """The newest member list that the server knew; None: it has never known another one than that
    of the founding."""


class UnreadableFolder(Struct, frozen=True):
    """A folder of a server whose content cannot be read."""

    server_id: ServerId
    reason: str
    is_other_version: bool = False
    """A version of the program wrote it that the node's program does not know."""


class NodeReport(Struct, frozen=True):
    """The report of one node about itself and this ensemble."""

    node_id: str
    name: str
    labels: dict[str, str]
    resources: list[str]
    record: EnsembleRecord | None = None
    record_damage: str = ""
    """Why an existing record cannot be read."""
    folders: list[FoundFolder] = []
    superseded: list[FoundFolder] = []
    """Folders of a history that a recovery has ended: no server starts from one of them."""
    unreadable: list[UnreadableFolder] = []
    problem: str | None = None
    """Why the node did not report: no answer, or the folder of the ensemble is unreadable."""
    free_bytes: int = 0
    """What is free where `data_dir` is."""
    wall_s: int = 0
    """The node's wall clock."""


def unread(nodes: Iterable[NodeReport]) -> list[str]:
    """Return what could not be read, each with its node and reason: it may hold anything."""
    found = []
    for node in nodes:
        if node.problem is not None:
            found.append(f"{node.name}: {node.problem}")
        found += [f"{node.name}: {folder.reason}" for folder in node.unreadable]
    return found


def superseded_uuids(nodes: Iterable[NodeReport]) -> list[str]:
    """Return the uuids that the ensemble had before recoveries, in order, as far as is known."""
    folders = [folder for node in nodes for folder in (*node.folders, *node.superseded)]
    return in_order(each.identity.supersedes for each in folders if each.identity is not None)


def in_order(chains: Iterable[list[str]]) -> list[str]:
    """Join what several folders say of the uuids before theirs: the longest is the whole story."""
    known = sorted(chains, key=len, reverse=True)
    return list(dict.fromkeys(uuid for chain in known for uuid in chain))


def part_superseded(nodes: Sequence[NodeReport]) -> list[NodeReport]:
    """Return the reports with the folders of ended histories by themselves.

    A node that was away during a recovery comes back with a folder of the old history. Its disk may
    have the name of one that counts now: all founding disks have the same.
    """
    known = superseded_uuids(nodes)
    parted = []
    for node in nodes:
        old = [
            each
            for each in node.folders
            if each.identity is not None and each.identity.owner.ensemble_uuid in known
        ]
        kept = [each for each in node.folders if each not in old]
        parted.append(replace(node, folders=kept, superseded=[*node.superseded, *old]))
    return parted
