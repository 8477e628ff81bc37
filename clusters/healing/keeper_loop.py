"""All that an elected keeper does, in order: observe, decide, write it down, act, pause. Pure.

The steps are a generator, which runs until a step raises: LostError when another keeper may lead,
KeeperError when it is unknown whether a write was done. The keeper after it goes on from the tree.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Never

from raykeeper.clusters.healing.healing import Healing
from raykeeper.clusters.healing.move_steps import (
    KeeperSteps,
    MoveError,
    move,
    set_folders_aside,
    undo,
)
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Effect,
    Entry,
    ForgetDrains,
    HealSettings,
    Log,
    Move,
    Observe,
    Pause,
    ReadClock,
    SaveLocations,
    ServerLocation,
    SetAside,
    Undo,
    View,
    WriteDecision,
)
from raykeeper.zab.ids import Millis, ServerId

PAUSE_MS: Final = 2_000
"""The pause between two views."""
BUSY_PAUSE_MS: Final = 500
"""The same while a server is lost or moves."""
STALE_LINES_KEPT: Final = 20


class KeeperLoop:
    """The steps of one leadership."""

    def __init__(
        self,
        settings: HealSettings,
        entries: Iterable[Entry],
        locations: Mapping[ServerId, ServerLocation],
        now: Millis,
    ) -> None:
        """Go on from what stands in the tree; see `Healing`."""
        self.healing = Healing(settings, entries, locations, now)
        self.stale_folders: list[str] = []
        """The newest acts on old folders, a line each, with its node."""

    def steps(self) -> KeeperSteps[Never]:
        """Return the steps, without an end."""
        healing = self.healing
        while True:
            view: View = yield Observe()
            yield from self._perform(healing.on_view(view, (yield ReadClock())))
            yield ForgetDrains(view.nodes)
            yield Pause(BUSY_PAUSE_MS if healing.has_work else PAUSE_MS)

    def _perform(self, effects: list[Effect]) -> KeeperSteps[None]:
        """Do the effects, in order, and those that follow from their answers."""
        healing = self.healing
        for effect in effects:
            match effect:
                case SaveLocations():
                    yield effect
                case AskNodes():
                    survey = yield effect
                    yield from self._perform(healing.on_survey(survey, (yield ReadClock())))
                case WriteDecision():
                    entry = yield effect
                    healing.on_decision_written(entry, (yield ReadClock()))
                case Move() | Undo():
                    problem = yield from _act(effect)
                    yield from self._perform(healing.on_act_done(problem))
                case _:
                    set_aside: SetAside = effect
                    are_all = yield from self._set_aside(set_aside)
                    healing.on_folders_judged(are_all, (yield ReadClock()))

    def _set_aside(self, effect: SetAside) -> KeeperSteps[bool]:
        """Set old folders aside; return whether each could be judged."""
        try:
            lines, are_all = yield from set_folders_aside(self.healing.voters, effect.older_than_s)
        except MoveError as error:
            lines, are_all = [f"folders out of date were not looked for: {error}"], False
        for line in lines:
            yield Log(line)
        self.stale_folders = (self.stale_folders + lines)[-STALE_LINES_KEPT:]
        return are_all


def _act(effect: Move | Undo) -> KeeperSteps[str]:
    """Do a move, or undo it; return why it failed, or an empty text."""
    try:
        if isinstance(effect, Move):
            yield from move(effect.decision, effect.view)
        else:
            yield from undo(effect.decision)
    except MoveError as error:
        return str(error)
    return ""
