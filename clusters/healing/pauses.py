"""How long the keeper waits between two moves, so that flapping nodes do not shuffle servers.

The limits count the beginnings of moves in the tree, so they hold across keepers. A keeper counts
those that it began by its own monotonic clock. Of others it knows the ensemble's time, which never
goes back: it jumps ahead with the clock of a leader, and then stands still under one whose clock is
behind. So at least the time counts for which the keeper has known of a move.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from raykeeper.clusters.healing.vocabulary import Cause, Entry, HealSettings, MoveStep
from raykeeper.zab.ids import Millis, ServerId

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def pause_left(
    settings: HealSettings,
    entries: Sequence[Entry],
    server: ServerId,
    cause: Cause,
    time_ms: Millis,
    own_ages_ms: Mapping[int, int],
    known_ms: int,
) -> tuple[int, str]:
    """Return for how long a server must not move yet, and why; 0 if it may.

    The move of a server that an operator drains counts, and waits for other moves of this server
    only.

    Args:
        settings: The limits.
        entries: The decisions in the tree, in order.
        server: The server that is to move.
        cause: Why it is to move.
        time_ms: The ensemble's time.
        own_ages_ms: For the numbers of entries of this keeper: how long ago they were made, by its
            own clock.
    """
    begun = [each for each in entries if each.decision.step is MoveStep.BEGUN]

    def age(entry: Entry) -> int:
        own = own_ages_ms.get(entry.number)
        return max(known_ms, time_ms - entry.time_ms) if own is None else own

    own = [each for each in begun if each.decision.server == server and age(each) < DAY_MS]
    waits: list[tuple[int, str]] = [(0, "")]
    if own:
        count = len(own)
        left = settings.pause_ms * 2 ** (count - 1) - age(own[-1])
        waits.append((left, f"server {server} has moved {_times(count)} within a day"))
    if cause is not Cause.DRAINED:
        if begun:
            waits.append((settings.pause_ms - age(begun[-1]), "a server has moved just now"))
        recent = [each for each in begun if age(each) < HOUR_MS]
        if len(recent) >= settings.moves_per_hour:
            first = recent[-settings.moves_per_hour]
            why = f"{_times(len(recent))} a server has moved within an hour"
            waits.append((HOUR_MS - age(first), why))
    return max(waits, key=lambda wait: wait[0])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
