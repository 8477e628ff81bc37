"""The keeper's vocabulary: events, effects, steps, and its records in the tree.

Times of the tree are those of the ensemble: the leader stamps each transaction with its wall clock,
and never with an earlier time than the transaction before. Times of looks are the keeper's own
monotonic clock.
"""

from collections.abc import Sequence
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


class MoveStep(Enum):
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

    step: MoveStep
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
    actor: str = ""
    """The actor of the server that the move ends; empty if Ray had none."""
    detail: str = ""
    """Why the move was given up."""


class Entry(Struct, frozen=True):
    """A decision in the tree."""

    number: int
    """That of its sequential znode."""
    time_ms: Millis
    """When it was created, in the ensemble's time."""
    decision: Decision


def open_move_of(entries: Sequence[Entry]) -> Decision | None:
    """Return the last decision about a move that has not ended; None if all have."""
    if not entries or entries[-1].decision.step in (MoveStep.DONE, MoveStep.UNDONE):
        return None
    return entries[-1].decision


class ServerLocation(Struct, frozen=True):
    """The Ray node on which a server was seen to run last."""

    node_id: str
    node_name: str


class View(Struct, frozen=True, kw_only=True):
    """One look at Ray and at the servers. The answers are of about the same moment."""

    voters: tuple[ServerId, ...]
    """By the newest list that a server has delivered."""
    changing: tuple[ServerId, ...] = ()
    """The servers that come or go by a change of the members that has not ended."""
    nodes: dict[str, bool]
    """For each node that Ray knows, whether it is alive."""
    leaving: dict[str, Cause] = {}
    """Nodes that will go although they are alive."""
    running: dict[ServerId, ServerLocation] = {}
    """The servers that answered."""
    actors: dict[ServerId, str] = {}
    """For each server of which Ray has an actor, the id of that actor: no other ever has it."""
    doubt: str = ""
    """Why no leader with a majority behind it is known; empty if one is."""
    linked: tuple[ServerId, ...] = ()
    """The voters to which that leader is linked, itself included."""
    voting: tuple[ServerId, ...] = ()
    """The voters with a vote that follow it, itself included."""
    open_change: str = ""
    """The step of a change, or the repair, that has not ended; empty if there is none."""
    turn: str = ""
    """The process that restarts servers, or changes the members, now; empty if none does."""


class NodeSurvey(Struct, frozen=True, kw_only=True):
    """What a live node has."""

    node_id: str
    name: str
    disks: dict[ServerId, DiskId] = {}
    """For each server of which the node has a folder, the disk in that folder."""
    incarnations: dict[ServerId, int] = {}
    """For each such folder the incarnation that was started from it last."""
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
    unread: dict[str, str] = {}
    """For each node that could not tell all: what could not be read. It may hold anything."""
    voting_disks: dict[ServerId, DiskId] = {}
    """For each voter the disk with its vote; without those whose disk is changing."""
    doubt: str = ""
    """Why `voting_disks` is empty."""


class HealSettings(Struct, frozen=True, kw_only=True):
    """The limits of the keeper."""

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


class SaveLocations(Struct, frozen=True):
    """Write into the tree where the servers run; the answer is the ensemble's time."""

    locations: dict[ServerId, ServerLocation]


class AskNodes(Struct, frozen=True):
    """Ask all live nodes what they have, then the servers for the member list: a `Survey`."""


class WriteDecision(Struct, frozen=True):
    """Write a decision into the tree; the answer is its `Entry`."""

    decision: Decision


class Move(Struct, frozen=True):
    """Start the server on the target, once nothing is left of it on the source.

    The answer is `Healing.on_act_done`.

    `view` is the look on which this rests.
    """

    decision: Decision
    view: View


class Undo(Struct, frozen=True):
    """Stop the server on the target, and set aside its folder there if it has no vote.

    The answer is `Healing.on_act_done`.
    """

    decision: Decision


class SetAside(Struct, frozen=True):
    """Set aside the folders of voters whose vote rests on another disk, on all live nodes.

    Remove those that were set aside earlier than `older_than_s` ago.
    """

    older_than_s: int


Effect = SaveLocations | AskNodes | WriteDecision | Move | Undo | SetAside


class Observe(Struct, frozen=True):
    """Take a look at Ray and the servers: a `View`."""


class ReadClock(Struct, frozen=True):
    """Read the keeper's own monotonic clock."""


class Pause(Struct, frozen=True):
    """Do nothing for a while."""

    ms: int


class ForgetDrains(Struct, frozen=True):
    """End the drains of the nodes that are dead."""

    nodes: dict[str, bool]
    """For each node that Ray knows, whether it is alive."""


class Log(Struct, frozen=True):
    """Write a line into the keeper's log."""

    line: str


class Stop(Struct, frozen=True):
    """Have a server leave in good order, if it answers; it refuses when another keeper leads."""

    server: ServerId
    actor: str


class Kill(Struct, frozen=True):
    """End that actor of a server for good, and wait until Ray has it no longer."""

    server: ServerId
    actor: str


class Start(Struct, frozen=True):
    """Start a server on one of the nodes, unless Ray has an actor of it.

    With an empty folder it starts only while a leader with a majority behind it is known, which can
    give it the vote: otherwise it would be of no use, and would hold the name of the server that
    could make a majority from the disk with the vote.
    """

    server: ServerId
    nodes: tuple[str, ...]
    """Those with the disk on which its vote rests, or else the one for an empty folder."""
    has_disk: bool
    left: str = ""
    """The node that the server has left: what it has does not count."""


class SetFolderAside(Struct, frozen=True):
    """Give the folder of a server another name, if nothing was started there: the new path."""

    node: str
    server: ServerId
    voting_disk: DiskId
    """The disk with the vote: if it is in the folder, the folder stays."""
    incarnation: int
    """The one that was started there last when it was known that the vote rests elsewhere."""


class RemoveStaleFolders(Struct, frozen=True):
    """Remove from a node the folders that were set aside earlier: their paths."""

    node: str
    older_than_s: int


Act = Stop | Kill | Start | SetFolderAside | RemoveStaleFolders
"""The steps that change something in Ray or on a node. MoveError: it is not possible."""
KeeperStep = (
    SaveLocations
    | AskNodes
    | WriteDecision
    | Observe
    | ReadClock
    | Pause
    | ForgetDrains
    | Log
    | Act
)
"""The steps of a leadership (keeper_loop.py); each has an answer, perhaps None."""
