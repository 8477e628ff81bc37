"""Those who go through a double barrier together, and one of whose requests others are quicker."""

from typing import Any

from raykeeper.client.recipes.double_barrier import DoubleBarrier, OnCrash
from raykeeper.client.recipes.primitives import get_children
from tests.harness.recipe_stage import Member, Outcome, RecipeStage

PATH = "/barriers/x"


class Crew:
    """Members, and the barrier of each."""

    def __init__(self, stage: RecipeStage, size: int, mode: OnCrash, more: int = 0) -> None:
        self.stage = stage
        self.members = [stage.member(session_timeout_ms=2_000) for _ in range(size + more)]
        self.barriers: list[DoubleBarrier[Any]] = [
            member.double_barrier(PATH, size, b"%d" % place, mode)
            for place, member in enumerate(self.members)
        ]
        self.watcher = stage.member()

    def enter(self, place: int, **options: Any) -> Outcome:
        return self.members[place].begin(self.barriers[place].enter, **options)

    def leave(self, place: int, **options: Any) -> Outcome:
        return self.members[place].begin(self.barriers[place].leave, **options)

    def begin(self, *places: int) -> list[Outcome]:
        """All of these enter."""
        return [self.enter(place) for place in places]

    def end(self, *places: int) -> list[Outcome]:
        """All of these leave."""
        return [self.leave(place) for place in places]

    def left_behind(self) -> list[str]:
        """What there is when containers had time to go."""
        self.stage.pass_time(500)
        names: list[str] = self.watcher.do(get_children(PATH))
        return names


class Between:
    """A client for one of whose requests, counted from now on, something else is quicker."""

    def __init__(self, member: Member, count: int, what: Any, kind: type = object) -> None:
        self._member, self._left, self._what, self._kind = member, count, what, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)

    def submit(self, ask: Any, token: Any) -> None:
        if isinstance(ask, self._kind):
            self._left -= 1
            if not self._left:
                self._what()
        self._member.submit(ask, token)
