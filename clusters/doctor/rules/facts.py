"""The facts of an ensemble at one moment, as far as servers and nodes have told them.

An empty text, None or 0 stands for "not known" where the field says so: a rule finds nothing then.
`unchecked.py` says what was left out.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from raykeeper.zab.ids import DiskId, Epoch, ServerId, Zxid


class ServerFacts(Struct, frozen=True, kw_only=True):
    """One server, as it told of itself."""

    server_id: ServerId
    problem: str = ""
    """Why it does not answer, or is not ready; then only what is known before that is set."""
    role: str = ""
    is_active: bool = False
    """Whether it leads, or follows a leader."""
    leader: ServerId | None = None
    epoch: Epoch = Epoch(0)
    zxid: Zxid = Zxid(0)
    """The last transaction that it has applied."""
    digest: int = 0
    """Of its state at `zxid`; 0: not known."""
    votes: bool = False
    reset_reason: str = ""
    """Why its disk is not the founding one."""
    node_id: str = ""
    folder: str = ""
    """As its settings name it; `~` is the home on its node."""
    links: Mapping[ServerId, str] = {}
    """For each other server: `linked`, or why there is no link."""
    has_disk_space: bool = True
    stream_problem: str = ""
    """Why it takes no direct streams though its settings allow them."""
    port_problems: tuple[str, ...] = ()
    """What it does not listen at, though its settings ask for it, and why."""
    clients: int = 0
    clients_max: int = 0
    """0: not known."""
    clients_problem: str = ""
    """Why it takes fewer clients than its setting says."""
    clients_to_move: int | None = None
    """How many clients it has to move; None unless it is drained."""
    sessions: int = 0
    sessions_max: int = 0
    """0: not known."""
    niceness: int = 0
    """What its process has, as of `nice`."""
    priority_problem: str = ""
    """Why that is more than its settings ask for."""
    versions: Mapping[str, str] = {}
    """What its process has loaded, by name; see `NodeFacts.versions`."""
    clock_ahead_ms: int = 0
    """How far its clock is certainly ahead of the doctor's, negative if behind."""
    settings: Mapping[str, Any] = {}
    """The settings of the ensemble that it runs with; of a secret a mark."""


class FolderFacts(Struct, frozen=True, kw_only=True):
    """A folder of a server on a node."""

    server_id: ServerId
    path: str
    disk: DiskId | None = None
    """None: its identity cannot be read."""
    data_bytes: int = 0
    """What its files take."""
    snapshot_bytes: int = 0
    """The largest of its snapshots."""
    segment_bytes: int = 0
    """The largest of its segments."""
    device: int = 0
    """Equal for folders on the same file system of the node."""
    damage: tuple[str, ...] = ()
    """What is damaged, missing or contradictory, each with its file."""
    other_version: str = ""
    """The file that this version of the program cannot read, and why."""
    unread_files: int = 0
    """Snapshots and segments that were not read within the time limit."""


class DiskFacts(Struct, frozen=True, kw_only=True):
    """The file system below `data_dir` on a node."""

    device: int = 0
    free_bytes: int = 0
    force_us: int | None = None
    """The median time to force a write of 4 KiB, in microseconds; None: not measured."""
    force_problem: str = ""
    """Why it could not be measured: nothing can be written there."""


class SetAsideFolder(Struct, frozen=True):
    """A folder that a keeper has set aside under another name."""

    path: str
    age_days: int


class TlsFileFacts(Struct, frozen=True, kw_only=True):
    """A certificate on a node that is used for TLS."""

    used_for: str
    """Such as "clients of ZooKeeper"."""
    path: str
    problem: str = ""
    """Why it, or what belongs to it, cannot be used."""
    expires_in_s: int | None = None
    """Negative if it has expired; None: not known."""


class NodeFacts(Struct, frozen=True, kw_only=True):
    """A live Ray node, as a task there told of it."""

    node_id: str
    name: str
    problem: str = ""
    """Why nothing is known of it."""
    versions: Mapping[str, str] = {}
    """What is installed there, by name: Ray, Python, raykeeper, and its formats."""
    load_percent: int = 0
    """Processes that run or wait for a processor, over the last five minutes; 100 is one each."""
    memory_percent: int = 0
    """How much of its memory, or of its container's, is in use."""
    memory_kill_percent: int = 0
    """At how much Ray's memory monitor ends workers; 0 if it is off."""
    gcs_storage: str = ""
    """Where the GCS, if it runs there, keeps its tables: memory, redis, rocksdb; "": not known."""
    folders: tuple[FolderFacts, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Folders of the ensemble that cannot be read, each with the reason."""
    set_aside: tuple[SetAsideFolder, ...] = ()
    record_damage: str = ""
    """Why the record of the ensemble beside the folders cannot be read."""
    disk: DiskFacts | None = None
    tls_files: tuple[TlsFileFacts, ...] = ()


class KeeperFacts(Struct, frozen=True):
    """The keeper of an ensemble."""

    is_there: bool
    """Whether Ray knows its actor."""
    problem: str = ""
    """Why it does not answer, is not connected, or does not move a server that should move."""


class EnsembleFacts(Struct, frozen=True, kw_only=True):
    """All that was found out."""

    name: str
    voters: tuple[ServerId, ...] = ()
    observers: tuple[ServerId, ...] = ()
    servers: tuple[ServerFacts, ...] = ()
    """All that the ensemble should have, and others that run, in order."""
    leader: ServerId | None = None
    leader_problem: str = ""
    """Why there is no leader."""
    change: str = ""
    """The change of the members that has not ended, and who began it; "": none is known."""
    is_change_left: bool = False
    """Whether nobody is at it."""
    voting_disks: Mapping[ServerId, DiskId] = {}
    """The disk on which the vote of a server rests, as far as that is certain."""
    nodes: tuple[NodeFacts, ...] = ()
    keeper: KeeperFacts = KeeperFacts(False)
    settings: Mapping[str, Any] = {}
    """As most servers have them; none: no server answers."""

    def server(self, server_id: ServerId) -> ServerFacts:
        """Return the facts of a server."""
        return next(each for each in self.servers if each.server_id == server_id)

    def answering(self) -> list[ServerFacts]:
        """Return the servers that answer and are ready."""
        return [each for each in self.servers if not each.problem]

    def reporting(self) -> list[NodeFacts]:
        """Return the nodes that answer."""
        return [each for each in self.nodes if not each.problem]

    def node_name(self, node_id: str) -> str:
        """Return the name of a node, or the beginning of its id."""
        names = (each.name for each in self.nodes if each.node_id == node_id)
        return next(names, node_id[:8])
