"""What the keeper sees, decides and does: the events and effects of `Healing`, and its records.

Times of the tree are those of the ensemble: the leader stamps each transaction with its wall clock,
and never with an earlier time than the transaction before. Times of looks are the keeper's own
monotonic clock.
"""

from enum import Enum

from msgspec import Struct

from raykeeper.zab.ids import DiskId, Millis, ServerId


class Cause(Enum):
    """Why a server moves."""

    LOST = "lost"
    """Its node is dead, as Ray says."""
    DRAINED = "drained"
    """An operator drains its node."""
    PREEMPTED = "preempted"
    """Ray is about to take its node away."""


class Step(Enum):
    """How far a move has come."""

    BEGUN = "begun"
    STARTED = "started"
    """The server was started on its new node; its vote is awaited."""
    DONE = "done"
    """The server has its vote."""
    UNDONE = "undone"
    """The move was given up."""


class Decision(Struct, frozen=True, kw_only=True):
    """A step of a move, as it stands in the tree."""

    step: Step
    server: ServerId
    cause: Cause
    source: str
    """The Ray node that the server leaves."""
    source_name: str
    target: str
    """The Ray node to which it goes."""
    target_name: str
    reason: str
    """Why the server moves."""
    detail: str = ""
    """Why the move was given up."""


class Entry(Struct, frozen=True):
    """A decision in the tree."""

    number: int
    """That of its sequential znode."""
    time_ms: Millis
    """When it was created, in the ensemble's time."""
    decision: Decision


class Seat(Struct, frozen=True):
    """Where a server was seen to run last."""

    node_id: str
    node_name: str
    incarnation: int = 0
    """The highest one that was seen: the time of its start, in seconds."""


class View(Struct, frozen=True, kw_only=True):
    """One look at Ray and at the servers. The answers are of about the same moment."""

    nodes: dict[str, bool]
    """For each node that Ray knows, whether it is alive."""
    leaving: dict[str, Cause] = {}
    """Nodes that will go although they are alive."""
    running: dict[ServerId, Seat] = {}
    """The servers that answered."""
    absent: tuple[ServerId, ...] = ()
    """The voters of which Ray has no actor."""
    doubt: str = ""
    """Why no leader with a majority behind it is known; empty if one is."""
    heard: tuple[ServerId, ...] = ()
    """The voters to which that leader is linked, itself included."""
    voting: tuple[ServerId, ...] = ()
    """The voters with a vote that follow it, itself included."""
    changing: str = ""
    """The change of a member or the repair that is open; empty if there is none."""


class NodeSurvey(Struct, frozen=True, kw_only=True):
    """What a live node has."""

    node_id: str
    name: str
    disks: dict[ServerId, DiskId] = {}
    """For each server of which the node has a folder, the disk in that folder."""
    fits: tuple[ServerId, ...] = ()
    """The servers that the setting `placement` allows here."""
    free_bytes: int = 0
    data_bytes: int = 0
    """The size of the largest folder of a server of the ensemble here."""
    wall_s: int = 0
    """Its wall clock."""


class Survey(Struct, frozen=True, kw_only=True):
    """What all live nodes have, and the member list."""

    time_ms: Millis
    """The ensemble's time."""
    nodes: tuple[NodeSurvey, ...]
    unread: tuple[str, ...] = ()
    """What could not be read: it may hold anything."""
    voting_disks: dict[ServerId, DiskId] = {}
    """For each voter the disk with its vote."""


class HealSettings(Struct, frozen=True, kw_only=True):
    """The limits of the keeper."""

    voters: tuple[ServerId, ...]
    heal_after_ms: Millis
    """How long a node must be dead before its server moves."""
    pause_ms: Millis
    """Least time between the beginnings of two moves; doubled for each move of one server within
    a day."""
    moves_per_hour: int
    node_age_ms: Millis
    """How long a node must be alive before a server moves to it."""
    vote_wait_ms: Millis
    """How long a server that was moved may take to get its vote."""
    stale_after_s: int
    """How long folders are kept that were set aside."""


class SaveSeats(Struct, frozen=True):
    """Write into the tree where the servers run."""

    seats: dict[ServerId, Seat]


class AskNodes(Struct, frozen=True):
    """Ask all live nodes what they have; answer with `surveyed`."""


class Note(Struct, frozen=True):
    """Write a decision into the tree; answer with `noted`."""

    decision: Decision


class Move(Struct, frozen=True):
    """Start the server on the target, once nothing is left of it on the source; `acted` answers."""

    decision: Decision


class Undo(Struct, frozen=True):
    """Stop the server on the target, and set aside its folder there if it has no vote; `acted`."""

    decision: Decision


class SetAside(Struct, frozen=True):
    """Set aside the folders of voters whose vote rests on another disk, on all live nodes.

    Remove those that were set aside earlier than `older_than_s` ago.
    """

    older_than_s: int


Effect = SaveSeats | AskNodes | Note | Move | Undo | SetAside
