"""Decide which server runs on which node: a pure function of the nodes' reports (rule D2).

A server runs where its disk is. A server without a disk gets an empty folder, and a founding one
only if no server of the ensemble was ever started: any other server may have made promises that
are now forgotten. A folder that cannot be read may hold anything: then the servers that were found
are started, and nothing is formatted. Of several disks of a voter, the one counts on which its
vote rests, as the running servers know (voting_disks.py); the others are named and left alone. An
observer promises nothing, so any of its disks may start: the one that was opened last has the most.
Who is a member says the member list (membership.py); a folder of anybody else is named and left
alone. Nodes that share a file system report the same disks, which
have the same uuid; such a server may run on any of these nodes. The same reports give the same
plan, so two launches at the same time do the same.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import ForeignFolder, StorageError
from raykeeper.clusters.config import ConfigError, EnsembleConfig, LabelPin, ResourcePin
from raykeeper.clusters.disk_choice import choose_disks
from raykeeper.clusters.membership import Membership, known_members, recorded_size
from raykeeper.clusters.node_report import FoundFolder, NodeReport, unread
from raykeeper.clusters.voting_disks import VotingDisks
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, ServerId, format_zxid


class PlacementError(RayKeeperError):
    """Raised when the servers cannot be placed on the nodes as the settings and the disks demand.

    Nothing was started. The caller should add the nodes that the message names, or change
    `placement`.
    """


class FolderFormat(Enum):
    """How the folder of a server is prepared before it starts."""

    KEEP = "keep"
    FOUNDING = "founding"
    JOINING = "later"
    """A disk that gets its vote through the other servers (rule D3)."""


class Placement(Struct, frozen=True):
    """The node on which to start a server that does not run yet."""

    server_id: ServerId
    node_id: str
    format: FolderFormat


class LaunchPlan(Struct, frozen=True):
    """The plan for `launch`; `ensemble_uuid` is None when the ensemble is new."""

    placements: list[Placement]
    ensemble_uuid: str | None
    warnings: list[str]
    members: Membership
    refused: dict[ServerId, str] = {}
    """Servers that are not started, and why: not found, and they must not be formatted."""
    damaged_record_nodes: list[str] = []
    """Nodes whose damaged record must be rewritten."""


def place(
    config: EnsembleConfig,
    nodes: Sequence[NodeReport],
    running: Mapping[ServerId, str],
    uuid: str | None = None,
    voting: VotingDisks | None = None,
    targets: Collection[str] | None = None,
    members: Membership | None = None,
) -> LaunchPlan:
    """Plan a placement for every member that is not `running`, a map from servers to nodes.

    `uuid` is that of the ensemble if a running server told it, and `voting` what the running
    servers know of the disks with the votes. New folders go to the nodes `targets` only, one at
    least, if they are given. A server with several disks of which none is known to count is refused
    if the others are a majority: once they run, they know. Without `members` the nodes tell them.

    Raises:
        ForeignFolder: a folder belongs to another ensemble or server.
        StorageError: a server has several disks, none is known to count, and the servers with one
            disk are no majority; or every identity is damaged.
        ConfigError: the ensemble has another number of servers than the settings.
        PlacementError: the nodes do not suffice, or fewer servers than a majority were found and
            something that may hold the others cannot be read.
    """
    nodes = sorted(nodes, key=lambda node: node.node_id)
    uuid = _ensemble_uuid(config, nodes, uuid)
    members = members or known_members(config, (), nodes)
    _check_servers(config, nodes, running, members)
    choice = choose_disks(members, of_members(nodes, members), running, voting or VotingDisks())
    disks = choice.nodes
    was_started = bool(running) or _was_started(nodes)
    found = {*running, *disks}
    missing = [each for each in members.servers if each not in found | choice.doubtful.keys()]
    if choice.doubtful and not members.is_majority(found):
        raise StorageError(
            "; ".join(f"server {server} {why}" for server, why in choice.doubtful.items())
        )
    refused = _refusals(members, nodes, missing, found)
    if refused:
        missing = []
    refused |= choice.doubtful
    allowed = [node for node in nodes if targets is None or node.node_id in targets]
    loads = Counter(running.values())
    placements = []
    # Servers with a disk first: they have the fewest possible nodes.
    for server_id in sorted(set(disks) - set(running)) + missing:
        candidates = disks.get(server_id) or _candidate_nodes(config, allowed, server_id)
        node_id = min(candidates, key=lambda node_id: (loads[node_id], node_id))
        loads[node_id] += 1
        fresh = FolderFormat.JOINING if was_started else FolderFormat.FOUNDING
        placements.append(
            Placement(server_id, node_id, FolderFormat.KEEP if server_id in disks else fresh)
        )
    placements.sort(key=lambda placement: placement.server_id)
    records = _records_to_rewrite(nodes, found, members)
    warnings = _check_spread(config, nodes, loads, placements) + choice.warnings
    warnings += _strangers(nodes, members, running) + _unneeded_warnings(nodes, refused, records)
    return LaunchPlan(placements, uuid, warnings, members, refused, records)


def of_members(nodes: Sequence[NodeReport], members: Membership) -> list[NodeReport]:
    """Return the reports without the folders from which no server of the ensemble starts."""
    return [
        replace(node, folders=[each for each in node.folders if _counts(each, members)])
        for node in nodes
    ]


def _counts(folder: FoundFolder, members: Membership) -> bool:
    return folder.server_id in members.servers and not _has_left(folder)


def was_never_added(folder: FoundFolder) -> bool:
    """Return whether the server of a folder is no founder, while the list is that of the founding.

    It was to join: the change has not ended, or was undone before its first step.
    """
    return is_newcomers(folder) or _has_left(folder)


def _has_left(folder: FoundFolder) -> bool:
    """Return whether a folder says that its server has left, or was not added after all."""
    return folder.members is not None and bool(folder.members.removed)


def is_newcomers(folder: FoundFolder) -> bool:
    """Return whether the server of a folder was not a member yet, as far as the folder tells."""
    stored = folder.members
    if stored is None or _has_left(folder):
        return False
    return folder.server_id not in {*stored.members.voters, *stored.members.observers}


def _strangers(
    nodes: Sequence[NodeReport], members: Membership, running: Collection[ServerId]
) -> list[str]:
    """Return a warning for each folder of a server that is no member."""
    warnings = []
    for node in nodes:
        for each in node.folders:
            if _counts(each, members) or each.server_id in running:
                continue
            where = f"{each.folder} on {node.name}"
            if each.members is not None and _has_left(each):
                why = f"server {each.server_id} {each.members.removed}: remove {where}"
            elif is_newcomers(each):
                why = (
                    f"server {each.server_id} is no member yet: {where} is left alone until "
                    f"`raykeeper members resume` goes on, or remove it"
                )
            else:
                why = (
                    f"server {each.server_id} is no member by the list of version "
                    f"{format_zxid(members.version)}: {where} is left alone, remove it"
                )
            warnings.append(why)
    return warnings


def _was_started(nodes: Sequence[NodeReport]) -> bool:
    """Return whether a server of the ensemble was ever started, as far as the folders tell."""
    return any(
        folder.identity is None or folder.identity.incarnation > 0
        for node in nodes
        for folder in node.folders
    )


def _ensemble_uuid(
    config: EnsembleConfig, nodes: Sequence[NodeReport], uuid: str | None
) -> str | None:
    """Return the uuid that all folders of the ensemble share; `uuid` when there is no folder."""
    damaged: list[str] = []
    for node in nodes:
        for holding in node.folders:
            if holding.identity is None:
                damaged.append(f"{holding.damage} ({node.name})")
                continue
            owner = holding.identity.owner
            expected = f"server {holding.server_id} of ensemble {config.name!r}"
            found = f"server {owner.server_id} of ensemble {owner.ensemble!r}"
            if found != expected:
                raise ForeignFolder(node.name, holding.folder, found, expected)
            if uuid is not None and owner.ensemble_uuid != uuid:
                raise ForeignFolder(
                    node.name,
                    holding.folder,
                    f"an ensemble {owner.ensemble!r} with uuid {owner.ensemble_uuid}",
                    f"the one with uuid {uuid}",
                )
            uuid = owner.ensemble_uuid
    if damaged and uuid is None:
        raise StorageError(f"no identity of ensemble {config.name!r} is whole: {damaged[0]}")
    return uuid


def check_numbers(config: EnsembleConfig, members: Membership) -> None:
    """Check that the settings have the numbers of servers of a list later than the founding's.

    Raises:
        ConfigError: they have others.
    """
    has = (len(members.voters), len(members.observers))
    if members.version and has != (config.servers, config.observers):
        raise ConfigError(
            f"ensemble {config.name!r} has {has[0]} voting servers and {has[1]} observers by its "
            f"member list, not {config.servers} and {config.observers}: put these numbers into the "
            f"settings, and change them with `raykeeper members` while it runs"
        )


def _check_servers(
    config: EnsembleConfig,
    nodes: Sequence[NodeReport],
    running: Collection[ServerId],
    members: Membership,
) -> None:
    """Refuse another number of servers: a smaller quorum could forget promises."""
    if members.version:
        check_numbers(config, members)
        return
    for node in nodes:
        if node.record is not None and node.folders and node.record.servers != config.servers:
            raise ConfigError(
                f"ensemble {config.name!r} has {node.record.servers} servers (recorded by "
                f"{node.name}), not {config.servers}: `raykeeper members` changes that while it "
                f"runs"
            )
    held = {
        holding.server_id
        for node in nodes
        for holding in node.folders
        if not was_never_added(holding)
    }
    if held and not recorded_size(nodes):
        # An unreadable folder may belong to a server of a larger ensemble.
        held |= {folder.server_id for node in nodes for folder in node.unreadable}
    count = config.servers + config.observers
    # A server that runs, and is no member as another one describes, is a newcomer.
    held |= set() if members.is_described else set(running)
    beyond = [server_id for server_id in held if server_id > count]
    if beyond:
        observers = f" and {config.observers} observers" if config.observers else ""
        raise ConfigError(
            f"ensemble {config.name!r} has a server {max(beyond)}, so it cannot have only "
            f"{config.servers} servers{observers}: `raykeeper members` changes that while it runs"
        )


def _refusals(
    members: Membership,
    nodes: Sequence[NodeReport],
    missing: Sequence[ServerId],
    found: Set[ServerId],
) -> dict[ServerId, str]:
    """Return why each of the `missing` is not formatted; empty if every node reported in full.

    Raises:
        PlacementError: the servers that were found are no majority.
    """
    unknown = unread(nodes)
    if not any(holding.identity for node in nodes for holding in node.folders):
        # A damaged record proves that something was formatted here; no identity tells what.
        unknown += [f"{node.name}: {node.record_damage}" for node in nodes if node.record_damage]
    if not missing or not unknown:
        return {}
    why = f"but not all could tell: {'; '.join(unknown)}"
    if not members.is_majority(found):
        count = len(found & set(members.voters))
        raise PlacementError(
            f"no node that answered holds server {', '.join(map(str, missing))}, {why}; found "
            f"{count} of {len(members.voters)} voting servers, which is no majority"
        )
    return dict.fromkeys(missing, f"was not started: no node that answered holds it, {why}")


def _records_to_rewrite(
    nodes: Sequence[NodeReport], found: Set[ServerId], members: Membership
) -> list[str]:
    """Return the nodes whose record is damaged, if its content is certain."""
    are_founders_found = members.version == ZERO and found >= set(members.voters)
    if not (recorded_size(nodes) or members.is_described or are_founders_found):
        return []
    return [node.node_id for node in nodes if node.record_damage and node.folders]


def _unneeded_warnings(
    nodes: Sequence[NodeReport], refused: Collection[ServerId], records: Collection[str]
) -> list[str]:
    """Return warnings about what this launch found and does not need."""
    warnings = []
    for node in nodes:
        warnings += [
            f"{node.name}: {folder.folder} is of the history that a recovery has ended; it is left "
            f"alone until its place is needed"
            for folder in node.superseded
        ]
        warnings += [
            f"{node.name}: {folder.reason}; server {folder.server_id} is not started there"
            for folder in node.unreadable
            if folder.server_id not in refused
        ]
        if node.record_damage:
            outcome = "is written anew" if node.node_id in records else "counts as absent"
            warnings.append(f"{node.name}: {node.record_damage}; it {outcome}")
    return warnings


def _candidate_nodes(
    config: EnsembleConfig, nodes: Sequence[NodeReport], server_id: ServerId
) -> list[str]:
    """Return the nodes on which a server without a disk may start."""
    pin = config.placement
    found = [node.node_id for node in nodes if allows(config, node, server_id)]
    if found or not isinstance(pin, LabelPin | ResourcePin):
        return found
    wanted = (
        f"label {pin.label}={server_id}"
        if isinstance(pin, LabelPin)
        else f"custom resource {pin.resource}_{server_id}"
    )
    raise PlacementError(f"no node has the {wanted}, to which server {server_id} is pinned")


def allows(config: EnsembleConfig, node: NodeReport, server_id: ServerId) -> bool:
    """Return whether the setting `placement` lets a server without a disk start on a node."""
    pin = config.placement
    if isinstance(pin, LabelPin):
        return node.labels.get(pin.label) == str(server_id)
    return not isinstance(pin, ResourcePin) or f"{pin.resource}_{server_id}" in node.resources


def _check_spread(
    config: EnsembleConfig,
    nodes: Sequence[NodeReport],
    loads: Mapping[str, int],
    placements: Sequence[Placement],
) -> list[str]:
    names = {node.node_id: node.name for node in nodes}
    crowded = [f"{n} on {names.get(node_id, node_id)}" for node_id, n in loads.items() if n > 1]
    if not crowded or not placements:
        return []
    problem = f"servers of ensemble {config.name!r} share a node ({', '.join(crowded)})"
    if config.placement == "spread":
        raise PlacementError(f"{problem}, which placement: spread forbids")
    return [f"{problem}; the loss of that node can stop the ensemble"]
