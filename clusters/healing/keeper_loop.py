"""All that an elected keeper does, in order: look, decide, write it down, act, rest. Pure.

The steps are a generator, which runs until a step raises: LostError when another keeper may lead,
KeeperError when it is unknown whether a write was done. The keeper after it goes on from the tree.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Never

from raykeeper.clusters.healing.healing import Healing
from raykeeper.clusters.healing.moving import MoveError, Steps, move, set_folders_aside, undo
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Effect,
    Entry,
    ForgetDrains,
    HealSettings,
    Log,
    Look,
    Move,
    Note,
    Now,
    Pause,
    SaveSeats,
    Seat,
    SetAside,
    Undo,
    View,
)
from raykeeper.zab.ids import Millis, ServerId

LOOK_MS: Final = 2_000
BUSY_LOOK_MS: Final = 500
"""The pause between looks while a server is lost or moves."""
STALE_LINES_KEPT: Final = 20


class Leading:
    """One leadership."""

    def __init__(
        self,
        settings: HealSettings,
        entries: Iterable[Entry],
        seats: Mapping[ServerId, Seat],
        now: Millis,
    ) -> None:
        """Go on from what stands in the tree; see `Healing`."""
        self.healing = Healing(settings, entries, seats, now)
        self.stale_folders: list[str] = []
        """What was done with old folders, each line with its node; the newest."""

    def steps(self) -> Steps[Never]:
        """Return the steps, without an end."""
        healing = self.healing
        while True:
            view: View = yield Look()
            yield from self._perform(healing.look(view, (yield Now())))
            yield ForgetDrains(view.nodes)
            yield Pause(BUSY_LOOK_MS if healing.has_work else LOOK_MS)

    def _perform(self, effects: list[Effect]) -> Steps[None]:
        """Do the effects, in order, and those that follow from their answers."""
        healing = self.healing
        for effect in effects:
            match effect:
                case SaveSeats():
                    yield effect
                case AskNodes():
                    survey = yield effect
                    yield from self._perform(healing.surveyed(survey, (yield Now())))
                case Note():
                    entry = yield effect
                    healing.noted(entry, (yield Now()))
                case Move() | Undo():
                    problem = yield from _act(effect)
                    yield from self._perform(healing.acted(problem))
                case _:
                    set_aside: SetAside = effect
                    yield from self._set_aside(set_aside)

    def _set_aside(self, effect: SetAside) -> Steps[None]:
        try:
            told = yield from set_folders_aside(effect.older_than_s)
        except MoveError as error:
            told = [f"folders out of date were not looked for: {error}"]
        for line in told:
            yield Log(line)
        self.stale_folders = (self.stale_folders + told)[-STALE_LINES_KEPT:]


def _act(effect: Move | Undo) -> Steps[str]:
    """Do a move, or undo it; return why it failed, or an empty text."""
    try:
        if isinstance(effect, Move):
            yield from move(effect.decision, effect.view)
        else:
            yield from undo(effect.decision)
    except MoveError as error:
        return str(error)
    return ""
