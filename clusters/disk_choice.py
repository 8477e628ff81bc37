"""Choose the disk from which a server starts, when nodes hold several of them.

A voter starts from the disk on which its vote rests (rule D3). If that disk was not found, though
everything was read, another disk of the server starts as an empty one would: without a vote, until
the leader has moved the vote to it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from raykeeper.clusters.membership import Membership
from raykeeper.clusters.node_report import FoundFolder, NodeReport, unread
from raykeeper.clusters.voting_disks import VotingDisks
from raykeeper.zab.ids import ServerId

_LATEST = 253_402_300_799
"""The last second that a date can name."""
_Found = list[tuple[NodeReport, FoundFolder]]
"""One disk, on each node that sees it."""


class DiskChoice(Struct, frozen=True):
    """The disks from which servers start."""

    nodes: dict[ServerId, list[str]]
    """For each server with a disk the nodes that see it."""
    doubtful: dict[ServerId, str]
    """Servers that must not start from any of the disks that were found, and why."""
    warnings: list[str]
    """Names each folder that is left alone."""


def choose_disks(
    members: Membership,
    nodes: Sequence[NodeReport],
    running: Mapping[ServerId, str],
    voting: VotingDisks,
) -> DiskChoice:
    """Choose a disk for each server that has one; `running` maps servers to nodes.

    `nodes` show only folders of members.
    """
    choice = DiskChoice({}, {}, [])
    for server, disks in sorted(_disks_by_server(nodes).items()):
        chosen = _choose(members, server, disks, running, voting)
        if chosen is None and server not in running:
            choice.doubtful[server] = _doubt(server, disks, voting)
            continue
        if chosen is not None:
            stale = [each for each in disks if each is not chosen]
            used = f"server {server} has its disk on {chosen[0][0].name}"
            choice.warnings.extend(
                f"{used}; {folder.folder} on {node.name} is out of date and left alone"
                for each in stale
                for node, folder in each
            )
        kept = chosen or disks[0]
        if server not in running and _lacks_vote(server, kept, voting):
            node, folder = kept[0]
            lost = f"{folder.folder} on {node.name} is not the disk on which its vote rests"
            if unknown := unread(nodes):
                choice.doubtful[server] = (
                    f"was not started: {lost}, and that one may be where not all "
                    f"could tell: {'; '.join(unknown)}"
                )
                continue
            choice.warnings.append(
                f"server {server}: {lost}, which no node has; it starts without a vote and gets "
                f"it from the others"
            )
        choice.nodes[server] = [node.node_id for node, _ in kept]
    return choice


def _disks_by_server(nodes: Sequence[NodeReport]) -> dict[ServerId, list[_Found]]:
    """Return the different disks of each server; a disk on shared storage is seen by many nodes."""
    found: dict[ServerId, dict[str, _Found]] = {}
    for node in nodes:
        for folder in node.folders:
            disk = "" if folder.identity is None else folder.identity.disk_uuid
            found.setdefault(folder.server_id, {}).setdefault(disk, []).append((node, folder))
    return {server: list(disks.values()) for server, disks in found.items()}


def _choose(
    members: Membership,
    server: ServerId,
    disks: list[_Found],
    running: Mapping[ServerId, str],
    voting: VotingDisks,
) -> _Found | None:
    """Return the disk of a server, None if it has several and none is known to count."""
    if len(disks) == 1:
        return disks[0]
    if server in running:
        here = [each for each in disks if running[server] in [node.node_id for node, _ in each]]
    elif server not in members.voters:
        here = [max(disks, key=_last_opened)]
    else:
        named = voting.disks.get(server)
        here = [
            each
            for each in disks
            if (identity := each[0][1].identity) is not None and identity.disk() == named
        ]
    return here[0] if len(here) == 1 else None


def _last_opened(disk: _Found) -> tuple[int, str]:
    identity = disk[0][1].identity
    return (-1, "") if identity is None else (identity.incarnation, identity.disk_uuid)


def _lacks_vote(server: ServerId, disk: _Found, voting: VotingDisks) -> bool:
    """Return whether the vote of this server is known to rest on another disk."""
    identity, named = disk[0][1].identity, voting.disks.get(server)
    return named is not None and identity is not None and identity.disk() != named


def _doubt(server: ServerId, disks: list[_Found], voting: VotingDisks) -> str:
    every = [found for disk in disks for found in disk]
    places = " and ".join(
        f"{folder.folder} on {node.name} ({_age(folder)})" for node, folder in every
    )
    if server in voting.disks:
        why = "none of them is the only one on which its vote rests"
    else:
        doubt = voting.doubt_about(server)
        why = f"only a majority that runs knows which one has its vote, and {doubt}"
    return (
        f"has {len(disks)} disks: {places}; {why}; launch again when the others "
        f"run, or move away the folder that is out of date"
    )


def _age(folder: FoundFolder) -> str:
    if folder.identity is None:
        return "its identity is damaged"
    opened = folder.identity.incarnation
    if not opened:
        return "never started"
    # An incarnation is the time of the start, in seconds.
    return f"started {datetime.fromtimestamp(min(opened, _LATEST), UTC):%Y-%m-%d %H:%M:%S} UTC"
