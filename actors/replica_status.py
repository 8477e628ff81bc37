"""A replica's answers to `status`, `attach` and the command line."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from raykeeper.zab.ids import DiskId, Epoch, ServerId, Zxid

if TYPE_CHECKING:
    from raykeeper.actors.replica_config import ReplicaConfig

STARTING = "starting"
FAILED = "failed"


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """One server at one moment. Instances can be pickled."""

    server_id: ServerId
    role: str
    """leader, follower, observer or looking; starting during recovery, failed after its failure."""
    pid: int
    node_id: str
    failure: str = ""
    """Why the server failed to start."""
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
    """How much lower its priority is than that of the raylet that started it."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """What its process has loaded, by name: raykeeper, its formats, Ray, Python."""


class TransferOutcome(Struct, frozen=True):
    """How a request to transfer the lead ended. Instances can be pickled."""

    leader: ServerId | None
    """The leader now, as far as the server knows that was asked."""
    is_done: bool
    """Whether the server that was to lead does so; any other one if none was named."""
    reason: str = ""
    """Why not, or why nothing was to be done."""


class ReplicaDescription(Struct, frozen=True, kw_only=True):
    """What `attach` needs to know of an ensemble, from any server. Instances can be pickled."""

    ensemble: str
    ensemble_uuid: str
    server_id: ServerId
    voters: tuple[ServerId, ...]
    observers: tuple[ServerId, ...] = ()
    folder: str
    node_id: str
    value_bytes_max: int
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    settings: Mapping[str, Any] = {}
    """The settings of the ensemble that this server runs with, by name; plain values. A server of
    another version may not know all of them, or know others."""


def describe_replica(config: "ReplicaConfig", node_id: str) -> ReplicaDescription:
    """Return the description of the server that runs with `config`."""
    return ReplicaDescription(
        ensemble=config.ensemble,
        ensemble_uuid=config.ensemble_uuid,
        server_id=config.server_id,
        voters=config.voters,
        observers=config.observers,
        folder=config.folder,
        node_id=node_id,
        value_bytes_max=config.value_bytes_max,
        session_timeout_min_ms=config.session_timeout_min_ms,
        session_timeout_max_ms=config.session_timeout_max_ms,
        settings=config.launch_settings,
    )
