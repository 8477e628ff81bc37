"""Scenarios of writers and followers: followers see rising numbers, up to the last."""

from collections.abc import Callable
from typing import Any

from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import Scenario, span
from tests.simulation.recipes.script import Pause, Script


class FollowedScenario(Scenario):
    """The first script of each process writes, the second one follows."""

    def follow_for_a_while(self, process: Process, live: Any, *, is_last: bool) -> Script:
        """Leave `live` open for a while; at the end, until it has the newest value."""
        self.counts["recipe.followed"] += 1
        if is_last:
            while not (self._all_have_written() and self.is_newest(live)):
                yield Pause(50)
        else:
            yield Pause(span(process.random, 100, 1_000, 3_000))
            self.maybe_inject(process)
        yield live.close()

    def is_newest(self, live: Any) -> bool:
        """Return whether it has the last written value, now that no script writes any more."""
        raise NotImplementedError

    def _all_have_written(self) -> bool:
        programs = [member.program for member in self.members]
        return all(
            program is not None and not program.is_over and program.scripts[0].is_done
            for program in programs
        )


def follower(
    seen: list[Any], is_whole: Callable[[Any], object], number_of: Callable[[Any], int]
) -> Any:
    """Return a callback that notes in `seen` what it gets; the numbers must rise."""

    def on_change(new: Any, old: Any) -> None:
        assert old == (seen[-1] if seen else None), f"Observed: {old} after {seen}"
        is_whole(new)
        assert old is None or number_of(new) > number_of(old), f"Observed: {new} after {old}"
        seen.append(new)

    return on_change
