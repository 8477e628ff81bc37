"""The decisions of a keeper during one leadership: views and answers in, effects out.

A voter moves when all of this holds: a leader with a majority behind it is known and does not hear
the voter; Ray says that the voter's node is dead, or has no actor of it though a move of it ended;
both have lasted for `heal_after_ms`; no step of a change and no repair is open, and the voter
neither comes nor goes by a change that has not ended (its operator starts it); the pauses are
over (pauses.py); there is a node for it (targets.py). The voter on a node that will go moves at
once, while the others are a majority and nobody restarts servers or changes the members.

Invariants: one move at a time, across keepers: a move begins with a decision in the tree, which
only the elected keeper can write, and a keeper reads the decisions of those before it first. A
server that is linked to the leader, or whose node is alive, does not move. Without a majority
nothing is begun, started or undone. What is unknown counts neither as dead nor as alive: a clock
that runs goes on, and nothing happens before the next sight of a majority.

Each effect but SaveLocations has one answer, and the next view comes after it.

Old folders are set aside when all voters vote. A drained server that has nowhere to go may wait for
ever, so folders do not wait for it. If some folder could not be judged, because a server or node
did not answer, they are looked for again: soon at first, then ever later, up to once in an hour.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.clusters.healing.pauses import pause_left
from raykeeper.clusters.healing.targets import choose_target
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Cause,
    Decision,
    Effect,
    Entry,
    HealSettings,
    Move,
    MoveStep,
    SaveLocations,
    ServerLocation,
    SetAside,
    Survey,
    Undo,
    View,
    WriteDecision,
    open_move_of,
)
from raykeeper.zab.ids import Millis, ServerId

ENTRIES_KEPT: Final = 100
SURVEY_PAUSE_MS: Final = 5_000
"""How long the nodes are not asked again after none was found for a server."""
QUIET_MS: Final = 10_000
"""How long the same nodes must be alive, and all voters vote, before old folders are set aside."""
SET_ASIDE_EVERY_MS: Final = 3_600_000


class _OpenMove(Struct):
    """The move under way."""

    decision: Decision
    started_at: Millis | None
    """When this keeper knew the server started; None before."""
    undo_reason: str = ""
    """Why the move is given up, while what it did is undone."""


class Healing:
    """What one elected keeper knows and decides."""

    def __init__(
        self,
        settings: HealSettings,
        entries: Iterable[Entry],
        locations: Mapping[ServerId, ServerLocation],
        now: Millis,
    ) -> None:
        """Go on from what stands in the tree.

        Args:
            settings: The limits.
            entries: The decisions of all keepers, in order.
            locations: Where the servers were seen by the last keeper.
            now: This keeper's clock; so are all times below.
        """
        self.waiting: str = ""
        """Why a server that should move does not; empty if all is well or a move is under way."""
        self.entries: list[Entry] = list(entries)
        self.locations: dict[ServerId, ServerLocation] = dict(locations)
        self.voters: tuple[ServerId, ...] = ()
        """Of the last view."""
        self._changing: tuple[ServerId, ...] = ()
        self._settings = settings
        self._alive_since: dict[str, Millis] = {}
        self._dead: dict[str, Millis] = {}
        self._leaving: dict[str, Cause] = {}
        self._actors: dict[ServerId, str] = {}
        self._lost_since: dict[ServerId, Millis] = {}
        self._written_at: dict[int, Millis] = {}
        self._read_at = now  # the other entries
        self._survey_at = now
        self._survey_problem = ""
        self._quiet_since = self._set_aside_due = now
        self._next_try_ms = QUIET_MS
        """After how long folders are looked for again if not all could be judged."""
        self._due: list[tuple[ServerId, Cause]] = []
        self._open = _open_move(self.entries, now)

    @property
    def is_moving(self) -> bool:
        """Whether a move is under way."""
        return self._open is not None

    @property
    def has_work(self) -> bool:
        """Whether the keeper should look often."""
        return self.is_moving or bool(self._lost_since) or bool(self._due)

    def on_view(self, view: View, now: Millis) -> list[Effect]:
        """Take what was seen of Ray and the servers."""
        effects = self._take_locations(view)
        self.voters, self._changing = view.voters, view.changing
        self._take_nodes(view, now)
        self._take_losses(view, now)
        self._actors = view.actors
        if self._open is not None:
            self.waiting = view.doubt
            return effects + self._continue_move(self._open, view, now)
        self._due = self._find_due(view, now)
        self.waiting = self._reason_to_wait(view) if self._due else ""
        if self._due and not self.waiting:
            if now >= self._survey_at:
                return [*effects, AskNodes()]
            self.waiting = self._survey_problem
        return effects + self._set_aside(view, now)

    def on_survey(self, survey: Survey, now: Millis) -> list[Effect]:
        """Take what the nodes have; begin the first move that is possible."""
        staying = [node for node in self._alive_since if node not in self._leaving]
        age = self._settings.node_age_ms
        old_enough = [node for node in staying if now - self._alive_since[node] >= age]
        ages = {number: now - written_at for number, written_at in self._written_at.items()}
        problems = []
        for server, cause in self._due:
            left, why = pause_left(
                self._settings,
                self.entries,
                server,
                cause,
                survey.time_ms,
                ages,
                now - self._read_at,
            )
            if left > 0:
                problems.append(f"server {server} waits for {duration(left)}: {why}")
                continue
            source = self.locations[server]
            leaves = None if cause is Cause.LOST else source.node_id
            target = choose_target(server, survey, self.locations, staying, old_enough, leaves)
            if target.node is None:
                problems.append(f"no node for server {server}: {target.problem}")
                continue
            decision = Decision(
                step=MoveStep.BEGUN,
                server=server,
                cause=cause,
                source=source.node_id,
                source_name=source.node_name,
                target=target.node.node_id,
                target_name=target.node.name,
                reason=self._reason(server, cause, now),
                actor=self._actors.get(server, ""),
            )
            self.waiting = ""
            return [WriteDecision(decision)]
        self.waiting = self._survey_problem = "; ".join(problems)
        self._survey_at = Millis(now + SURVEY_PAUSE_MS)
        return []

    def on_decision_written(self, entry: Entry, now: Millis) -> None:
        """Take a decision that stands in the tree now. The next view acts on it."""
        self.entries = [*self.entries, entry][-ENTRIES_KEPT:]
        self._written_at[entry.number] = now
        self._open = _open_move(self.entries, now)
        if self._open is None:
            # If it is lost again, its time begins anew.
            self._lost_since.pop(entry.decision.server, None)
            # A node that was drained is alive still, with the old folder.
            self._look_for_folders_soon(now)

    def on_act_done(self, problem: str) -> list[Effect]:
        """Take the end of `Move` or `Undo`; `problem` says why it failed, or is empty."""
        assert self._open is not None
        decision, why = self._open.decision, self._open.undo_reason
        if why:
            return [
                _write_step(
                    decision, MoveStep.UNDONE, "; ".join(text for text in (why, problem) if text)
                )
            ]
        if problem:
            self._open.undo_reason = problem
            return [Undo(decision)]
        return [_write_step(decision, MoveStep.STARTED)]

    def on_folders_judged(self, are_all: bool, now: Millis) -> None:
        """Take the end of `SetAside`: whether each folder could be judged."""
        if are_all:
            self._set_aside_due = Millis(now + SET_ASIDE_EVERY_MS)
            self._next_try_ms = QUIET_MS
        else:
            self._set_aside_due = Millis(now + self._next_try_ms)
            self._next_try_ms = min(2 * self._next_try_ms, SET_ASIDE_EVERY_MS)

    def _take_locations(self, view: View) -> list[Effect]:
        locations = {**self.locations, **view.running}
        if locations == self.locations:
            return []
        self.locations = locations
        return [SaveLocations(locations)]

    def _take_nodes(self, view: View, now: Millis) -> None:
        self._leaving = dict(view.leaving)
        before = list(self._alive_since)
        for node, is_alive in view.nodes.items():
            if is_alive:
                self._alive_since.setdefault(node, now)
            else:
                # Ray gives a node that comes back another id.
                self._dead.setdefault(node, now)
        gone = [node for node in self._alive_since if not view.nodes.get(node, False)]
        for node in gone:
            del self._alive_since[node]
        if list(self._alive_since) != before:
            self._look_for_folders_soon(now)

    def _look_for_folders_soon(self, now: Millis) -> None:
        self._quiet_since = self._set_aside_due = now
        self._next_try_ms = QUIET_MS

    def _set_aside(self, view: View, now: Millis) -> list[Effect]:
        """Have old folders set aside when all vote: soon after a node or server came, hourly."""
        is_well = not view.doubt and not view.open_change
        if not is_well or len(view.voting) < len(self.voters):
            self._quiet_since = now
            return []
        if now < self._set_aside_due or now - self._quiet_since < QUIET_MS:
            return []
        return [SetAside(self._settings.stale_after_s)]

    def _take_losses(self, view: View, now: Millis) -> None:
        for server in [each for each in self._lost_since if each not in self.voters]:
            del self._lost_since[server]  # it is no voter any more
        for server in self.voters:
            location = self.locations.get(server)
            is_there = server in view.linked or server in view.running
            is_gone = location is not None and (
                location.node_id in self._dead
                or (server not in view.actors and self._has_moved(server))
            )
            if is_there or not is_gone:
                self._lost_since.pop(server, None)
            elif not view.doubt:
                self._lost_since.setdefault(server, now)

    def _has_moved(self, server: ServerId) -> bool:
        """Return whether a move of this server has ended: a keeper may have left it stopped.

        A move that is undone may leave it so, and so may a keeper that ends the actor late: Ray may
        have started the same one again since, and another keeper have noted that the move is done.
        """
        steps = [e.decision.step for e in self.entries if e.decision.server == server]
        return steps[-1:] in ([MoveStep.UNDONE], [MoveStep.DONE])

    def _find_due(self, view: View, now: Millis) -> list[tuple[ServerId, Cause]]:
        """Return the servers that should move, those of dead nodes first."""
        lost = [
            (server, Cause.LOST)
            for server, since in sorted(self._lost_since.items(), key=lambda item: item[::-1])
            if now - since >= self._settings.heal_after_ms and server not in self._changing
        ]
        leaving = [
            (server, view.leaving[location.node_id])
            for server, location in sorted(view.running.items())
            if server in self.voters
            and server not in self._changing
            and location.node_id in view.leaving
        ]
        return lost + leaving

    def _reason_to_wait(self, view: View) -> str:
        """Return why nothing may move. Remove from `_due` the servers that the majority needs."""
        if view.doubt or view.open_change:
            return view.doubt or view.open_change
        if view.turn:  # what it does counts on the servers that live
            self._due = [each for each in self._due if each[1] is Cause.LOST]
            if not self._due:
                return _turn_text(view)
        self._due = [each for each in self._due if self._is_spare(each[0], view)]
        return "" if self._due else _NEEDED

    def _continue_move(self, move: _OpenMove, view: View, now: Millis) -> list[Effect]:
        decision = move.decision
        server = decision.server
        if view.doubt:
            return []
        location = view.running.get(server)
        has_left = location is not None and (
            location.node_id != decision.source or decision.source == decision.target
        )
        if has_left and server in view.voting:
            return [_write_step(decision, MoveStep.DONE)]
        is_target_lost = decision.target not in self._alive_since
        why = ""
        if is_target_lost and location is None and server not in view.linked:
            why = f"{decision.target_name} was lost too"
        elif move.started_at is not None:
            if now - move.started_at >= self._settings.vote_wait_ms:
                why = _NO_VOTE
        elif has_left:
            # The keeper before this one has started it.
            return [_write_step(decision, MoveStep.STARTED)]
        elif not (why := self._reason_to_stay(decision, view)):
            return [Move(decision, view)]
        else:
            return [_write_step(decision, MoveStep.UNDONE, why)]
        if not why:
            return []
        move.undo_reason = why
        return [Undo(decision)]

    def _reason_to_stay(self, decision: Decision, view: View) -> str:
        """Return why a server that still runs on its old node must stay there after all."""
        server = decision.server
        if decision.cause is Cause.LOST:
            return "it is there again" if server in view.linked else ""
        if server not in view.running:
            return ""  # it was stopped for the move
        if view.turn:
            return _turn_text(view)
        if decision.source not in view.leaving:
            return "its node stays"
        if decision.target not in self._alive_since:
            return f"{decision.target_name} was lost"
        return "" if self._is_spare(server, view) else _NEEDED

    def _is_spare(self, server: ServerId, view: View) -> bool:
        """Return whether the voters that follow are a majority without this one."""
        others = [voter for voter in view.voting if voter != server]
        return len(others) > len(self.voters) // 2

    def _reason(self, server: ServerId, cause: Cause, now: Millis) -> str:
        if cause is Cause.DRAINED:
            return "its node is drained"
        if cause is Cause.PREEMPTED:
            return "its node is about to be taken away"
        return f"its node was lost for {duration(now - self._lost_since[server])}"


_NO_VOTE: Final = "it did not get its vote in time"
_NEEDED: Final = "without it the other voters are no majority"


def duration(ms: int) -> str:
    """Format a duration in the largest unit that fits, such as `5 min`."""
    seconds = -(-ms // 1000)
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _write_step(decision: Decision, step: MoveStep, detail: str = "") -> WriteDecision:
    return WriteDecision(replace(decision, step=step, detail=detail))


def _turn_text(view: View) -> str:
    return f"{view.turn} restarts servers, or changes the members"


def _open_move(entries: list[Entry], now: Millis) -> _OpenMove | None:
    """Return the move that the keeper before has left open."""
    decision = open_move_of(entries)
    if decision is None:
        return None
    return _OpenMove(decision, now if decision.step is MoveStep.STARTED else None)
