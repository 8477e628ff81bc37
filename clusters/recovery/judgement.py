"""Who holds what of an ensemble, what a launch could still do, and what a recovery would lose.

A pure function of what the nodes tell. A transaction is committed once a majority has it on the
disks with their votes. If such a majority is there, nothing is lost, and a launch is the way. If
not, the missing disks may be a majority by themselves and may have committed anything after the
best history that is left: that is what a recovery loses, from the time of its last transaction on.

Paper: Zab, section IV: of two histories the one of the higher current epoch, then of the higher
zxid, has everything that the other one can have committed.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import ForeignFolder
from raykeeper.clusters.config import ConfigError, EnsembleConfig
from raykeeper.clusters.membership import known_members
from raykeeper.clusters.node_report import NodeReport, in_order, unread
from raykeeper.clusters.placement import FolderFormat, place, was_never_added
from raykeeper.clusters.recovery.evidence import HeldFolder
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, Millis, ServerId, format_zxid
from raykeeper.zab.quorum import Quorum


class Judgement(Struct, frozen=True):
    """What is left of an ensemble."""

    name: str
    servers: int
    folders: list[HeldFolder]
    """By server; those that were set aside last."""
    votes: list[int]
    """Of `folders`, the indexes of those on which a vote rests, that a start would count."""
    missing: list[ServerId]
    """The voters without such a folder."""
    has_majority: bool
    """Whether those votes elect a leader, and have all that was ever acknowledged."""
    best: HeldFolder | None
    """The folder with the best history; None if no folder is healthy."""
    uuid: str
    """Of the ensemble, "" if no folder tells it."""
    superseded: list[str]
    """Its uuids before earlier recoveries, the oldest first."""
    launch: str
    """What `raykeeper up` would do."""
    losses: list[str]
    """What a recovery may lose, or takes for granted."""
    unread: list[str]
    """What could not be read, and may hold anything."""

    @property
    def accepted(self) -> list[Epoch]:
        """The epochs that were promised, on damaged disks and old ones too."""
        return [each.epochs.accepted for each in self.folders if each.epochs is not None]

    @property
    def refusal(self) -> str:
        """Why no new history is founded, "" if one may be."""
        if self.has_majority:
            return "a majority of the disks is there, so `raykeeper up` loses nothing"
        others = [e.server_id for e in self.folders if e.is_other_version and not e.is_set_aside]
        if others:
            return (
                f"the folder of server {_listed(others)} is of another version of raykeeper and "
                "may hold what is missing: recover with that version, or move the folder away"
            )
        if self.best is None:
            return "no folder is healthy: there is nothing to found a new history from"
        return ""


def with_recorded_size(
    config: EnsembleConfig, stated: Iterable[str], nodes: Sequence[NodeReport]
) -> EnsembleConfig:
    """Return the settings with the numbers of servers that the disks tell, unless `stated`.

    Whoever recovers may have nothing but the name of the ensemble and its folder.
    """
    members = known_members(config, (), nodes)
    if members.version:
        given = {name: getattr(config, name) for name in ("servers", "observers") if name in stated}
        return replace(members.sized(config), **given)
    recorded = [node.record.servers for node in nodes if node.record is not None]
    held = [
        folder.server_id for node in nodes for folder in node.folders if not was_never_added(folder)
    ]
    if "servers" not in stated and recorded:
        config = replace(config, servers=recorded[0])
    if "observers" not in stated:
        beyond = max(held, default=0) - config.servers
        config = replace(config, observers=max(config.observers, beyond))
    return config


def judge(
    config: EnsembleConfig, nodes: Sequence[NodeReport], folders: Iterable[HeldFolder]
) -> Judgement:
    """Judge what the nodes hold.

    Raises:
        ForeignFolder: folders belong to different ensembles of this name.
        ConfigError: the ensemble on the disks has another number of servers.
    """
    held = sorted(_distinct(folders), key=lambda e: (e.is_set_aside, e.server_id, e.folder))
    superseded = in_order(each.identity.supersedes for each in held if each.identity is not None)
    uuid = _uuid_of(held, superseded)
    usable = [each for each in held if not each.problem and each.uuid in (uuid, *superseded)]
    present = [each for each in usable if each.uuid == uuid and not each.is_set_aside]
    disks = _disks_with_votes(config, present)
    votes = [
        index
        for index, each in enumerate(held)
        if any(each is one for one in present)
        and each.identity is not None
        and each.identity.disk() == disks.get(each.server_id)
    ]
    healthy = [held[index].server_id for index in votes if not held[index].is_uncertain]
    uncertain = [held[index].server_id for index in votes if held[index].is_uncertain]
    quorum = Quorum(disks)
    has_majority = quorum.is_quorum(healthy + uncertain) and quorum.covers_all_acked(
        healthy, uncertain
    )
    missing = [server for server in sorted(disks) if server not in healthy + uncertain]
    best = max(usable, key=lambda e: (e.rank, not e.is_set_aside, -e.server_id), default=None)
    return Judgement(
        *(config.name, len(disks), held, votes, missing, has_majority, best, uuid, superseded),
        _launch(config, nodes, has_majority, len(healthy + uncertain), quorum),
        _losses(best, missing, uncertain) if best is not None and not has_majority else [],
        unread(nodes),
    )


def _disks_with_votes(
    config: EnsembleConfig, present: Sequence[HeldFolder]
) -> dict[ServerId, DiskId]:
    """Return the disk of each voter, as the best history names it."""
    if not present:
        return dict.fromkeys(config.voter_ids, FOUNDING_DISK)
    best = max(present, key=lambda each: each.rank)
    if best.members is not None:
        return best.members
    return {server: best.voters.get(server, FOUNDING_DISK) for server in config.voter_ids}


def _distinct(folders: Iterable[HeldFolder]) -> list[HeldFolder]:
    """Drop what several nodes tell of one folder on shared storage."""
    found: dict[tuple[str, str], HeldFolder] = {}
    for each in folders:
        disk = each.node_id if each.identity is None else each.identity.disk_uuid
        found.setdefault((each.folder, disk), each)
    return list(found.values())


def _uuid_of(held: Sequence[HeldFolder], superseded: Sequence[str]) -> str:
    """Return the uuid of the newest history.

    Raises:
        ForeignFolder: there are several, and none superseded the others.
    """
    # What was set aside tells only if nothing else does.
    for is_set_aside in (False, True):
        found: dict[str, HeldFolder] = {}
        for each in held:
            if each.is_set_aside is is_set_aside and each.uuid and each.uuid not in superseded:
                found.setdefault(each.uuid, each)
        if len(found) > 1:
            (first, _), (other, folder), *_ = found.items()
            raise ForeignFolder(
                *(folder.node, folder.folder, f"an ensemble with uuid {other}"),
                f"the one with uuid {first}",
            )
        if found:
            return next(iter(found))
    return ""


def _launch(
    config: EnsembleConfig,
    nodes: Sequence[NodeReport],
    has_majority: bool,
    votes: int,
    quorum: Quorum[ServerId],
) -> str:
    """Return what `raykeeper up` would do.

    Raises:
        ConfigError: the ensemble on the disks has another number of servers.
    """
    try:
        plan = place(config, nodes, {})
    except ConfigError:
        raise
    except RayKeeperError as error:
        return f"`raykeeper up` starts nothing: {error}"
    kept = [each.server_id for each in plan.placements if each.format is FolderFormat.KEEP]
    new = [each.server_id for each in plan.placements if each.format is FolderFormat.JOINING]
    starts = f"starts server {_listed(kept)} from its disk" if kept else "finds no disk"
    if new:
        starts += f", and server {_listed(new)} without a vote"
    if plan.refused:
        starts += f"; server {_listed(plan.refused)} is not started"
    if has_majority:
        return f"`raykeeper up` {starts}; it elects a leader, and nothing is lost"
    return (
        f"`raykeeper up` {starts}; it elects no leader: {votes} of {len(quorum.voters)} votes are "
        f"there, and {quorum.size} healthy ones are needed"
    )


def _losses(
    best: HeldFolder, missing: Sequence[ServerId], uncertain: Sequence[ServerId]
) -> list[str]:
    last = format_zxid(best.last)
    losses = []
    if missing:
        losses.append(
            f"every write that was acknowledged after {last}, which was proposed at "
            f"{format_time(best.last_ms)}, may be lost: the missing disks of server "
            f"{_listed(missing)} may have acknowledged it"
        )
    if uncertain:
        losses.append(
            f"the log of server {_listed(uncertain)} was torn at its end, where something that was "
            f"acknowledged may have been"
        )
    if best.committed < best.last:
        losses.append(
            f"what follows {format_zxid(best.committed)} up to {last} is not known to have been "
            f"acknowledged; it is kept"
        )
    losses.append("all sessions end, and their ephemeral znodes with them")
    return losses


def _listed(servers: Iterable[ServerId]) -> str:
    return ", ".join(str(server) for server in servers)


def format_time(time_ms: Millis) -> str:
    """Return a time in UTC, to the millisecond."""
    return (
        f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03} UTC"
    )
