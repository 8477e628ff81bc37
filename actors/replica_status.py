"""A replica's answers to `status`, `attach` and the command line."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from raykeeper.zab.ids import ZERO, DiskId, Epoch, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

if TYPE_CHECKING:
    from raykeeper.actors.replica_config import ReplicaConfig

STARTING = "starting"
FAILED = "failed"
REMOVED = "removed"


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """One server at one moment. Instances can be pickled."""

    server_id: ServerId
    role: str
    """leader, follower, observer or looking; starting during recovery, failed after its failure,
    removed once it has left the ensemble and ended by itself."""
    pid: int
    node_id: str
    failure: str = ""
    """Why the server failed to start, or ended."""
    is_active: bool = False
    """Whether it serves clients: it is an established leader, or follows one."""
    leader: ServerId | None = None
    epoch: Epoch = Epoch(0)
    last_zxid: Zxid = Zxid(0)
    votes: bool = False
    """False on an observer, and on a server that lost its promises until it gets its vote back."""
    voters_lost: list[ServerId] = field(default_factory=list)
    """Servers linked to this one that wait for their vote, as it sees it."""
    voter_disks: dict[ServerId, DiskId] = field(default_factory=dict)
    """The disk under which each voter is counted, as far as this server has delivered."""
    reset_reason: str = ""
    """Why its disk is not the one that the ensemble was founded with."""
    restored_from: str = ""
    """The backup that the ensemble was founded from; "" on a disk that came later."""
    has_disk_space: bool = True
    """False while its disk is full; then it logs nothing."""
    incarnation: int = 0
    incarnations_seen: dict[ServerId, int] = field(default_factory=dict)
    """The newest incarnation seen of each other server: it takes no link of a lower one."""
    links: dict[ServerId, str] = field(default_factory=dict)
    """For each other server: `linked`, or why there is no link."""
    carriers: dict[ServerId, str] = field(default_factory=dict)
    """For each linked server: what carries the link."""
    clients: dict[str, int] = field(default_factory=dict)
    """How many links of clients each carrier has."""
    stream_problem: str = ""
    """Why it takes no direct streams though its settings allow them."""
    clients_max: int = 0
    """How many links of clients it takes."""
    clients_problem: str = ""
    """Why it takes fewer than its settings say."""
    zookeeper: str = ""
    """Address and port for clients of ZooKeeper, "" if the settings ask for none."""
    zookeeper_problem: str = ""
    """Why it does not listen there."""
    zookeeper_tls: str = ""
    zookeeper_tls_problem: str = ""
    """The same of the port for clients over TLS."""
    admin_problem: str = ""
    """Why it has no admin server, though the settings ask for one."""
    sessions: int = 0
    sessions_max: int = 0
    """How many sessions the ensemble takes while this server leads."""
    znodes: int = 0
    watches: int = 0
    outstanding: int = 0
    log_file: str = ""
    """Its log lines on its node, "" if they are in none."""
    digest: int = 0
    """Equal on servers with the same state; 0 for some seconds after a start: not known yet."""
    wall_ms: int = 0
    """The wall clock of its node."""
    niceness: int = 0
    """What its process has, as of `nice`; the lowest priority is 19."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """What its process has loaded, by name: raykeeper, its formats, Ray, Python."""
    # Later fields only at the end, with a default (docs/UPGRADING.md).
    members: MemberList | None = None
    """The newest member list that was delivered to it; None while that is the one of the founding,
    and before its disk was read."""
    is_member: bool = False
    """Whether that list has it. A server that follows and is no member waits to be added."""
    change: str = ""
    """On the leader: the step of the member list that is open, in words; "" if none is."""
    clients_to_move: int | None = None
    """How many clients it still has to move to other servers; None unless it is drained."""
    level: int = 0
    """The feature level in force, as far as it has delivered; 0 while it starts."""
    level_newest: int = 0
    """The newest level that its program knows."""
    level_raise_to: int = 0
    """The level to which it raises the ensemble at most while it leads."""
    member_plan: bytes = b""
    """The plan of an operator's change of the members that has not ended, as it stands in this
    server's tree; b"" if there is none."""
    priority_problem: str = ""
    """Why its process has not the niceness that its settings ask for."""


class TransferOutcome(Struct, frozen=True):
    """How a request to transfer the lead ended. Instances can be pickled."""

    leader: ServerId | None
    """The leader now, as far as the server knows that was asked."""
    is_done: bool
    """Whether the server that was to lead does so; any other one if none was named."""
    reason: str = ""
    """Why not, or why nothing was to be done."""


class ReconfigOutcome(Struct, frozen=True):
    """How a step of the member list ended that an operator asked for. Instances can be pickled."""

    code: int
    """0: done, the list was delivered and said again. Else a `Code`: nothing was changed, but for
    CONNECTION_LOSS, with which the step may or may not be done: look at the version."""
    reason: str = ""
    """Why it is not done, in words."""
    version: Zxid = ZERO
    """Of the list that the step has made; 0 if it is not done."""


class ReplicaDescription(Struct, frozen=True, kw_only=True):
    """What `attach` needs to know of an ensemble, from any server. Instances can be pickled."""

    ensemble: str
    ensemble_uuid: str
    server_id: ServerId
    voters: tuple[ServerId, ...]
    observers: tuple[ServerId, ...] = ()
    """Both of the newest member list that the server knows."""
    folder: str
    node_id: str
    value_bytes_max: int
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    settings: Mapping[str, Any] = {}
    """The settings of the ensemble that this server runs with, by name; plain values. A server of
    another version may not know all of them, or know others."""
    # Later fields only at the end, with a default (docs/UPGRADING.md).
    members_version: Zxid = ZERO
    """Of the list that `voters` and `observers` are of; 0 is that of the founding."""
    founding_voters: tuple[ServerId, ...] = ()
    founding_observers: tuple[ServerId, ...] = ()
    """Those with which the ensemble was founded; no voters: a server of before, for which they are
    `voters` and `observers`."""
    first_uuid: str = ""
    """The uuid that the ensemble was founded with, before all recoveries; "" from a server of
    before, which does not tell."""


def describe_replica(
    config: "ReplicaConfig", node_id: str, members: MemberList | None = None
) -> ReplicaDescription:
    """Return the description of the server that runs with `config`.

    `members` is the newest list that it knows beside those of `config`, None for none.
    """
    newest = config.newest_list(members)
    return ReplicaDescription(
        ensemble=config.ensemble,
        ensemble_uuid=config.ensemble_uuid,
        server_id=config.server_id,
        voters=tuple(sorted(newest.voters)),
        observers=newest.observers,
        folder=config.folder,
        node_id=node_id,
        value_bytes_max=config.value_bytes_max,
        session_timeout_min_ms=config.session_timeout_min_ms,
        session_timeout_max_ms=config.session_timeout_max_ms,
        settings=config.launch_settings,
        members_version=newest.version,
        founding_voters=config.voters,
        founding_observers=config.observers,
        first_uuid=config.first_uuid or config.ensemble_uuid,
    )
