"""A member and its rival, who acts once, between two requests of an operation."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from raykeeper.client.recipes.primitives import get_children, get_or_none
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.crew import Between
from tests.recipes.test_every_step_of_recipes import STEPS_MAX

PATH = "/recipes/x"


@dataclass
class Scene:
    """A member, and a rival, who acts once. `notes` is what they and the preparation leave."""

    stage: RecipeStage = field(default_factory=RecipeStage)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.me, self.rival, self.judge = (self.stage.member() for _ in range(3))

    def value(self, path: str = PATH) -> bytes | None:
        found = self.judge.do(get_or_none(path))
        return found and bytes(found[0])

    def names(self, path: str = PATH) -> list[str]:
        return sorted(self.judge.do(get_children(path)))


Act = Callable[[Scene], object]


@dataclass
class Duel:
    """`begin` is the member's operation; `check` is told how it ended, when the rival has acted."""

    begin: Callable[[Scene], Any]
    rival: Act
    check: Callable[[Scene, Outcome], object]
    prepare: Act = lambda _: None


def begun(scene: Scene, member: Member, operation: Callable[..., Any], *args: Any) -> None:
    scene.notes["other"] = member.begin(operation, *args)


def is_in(found: object, allowed: list[Any]) -> None:
    assert found in allowed


def play(duel: Duel) -> None:
    """Have the rival act right before the first request, before the second, and so on."""
    for nth in range(1, STEPS_MAX):
        scene, has_acted = Scene(), list[int]()
        duel.prepare(scene)

        def act(scene: Scene = scene, has_acted: list[int] = has_acted) -> None:
            has_acted.append(1)
            duel.rival(scene)

        scene.me.flows.host = Between(scene.me, nth, act)
        outcome = scene.me.begin(duel.begin(scene))
        if not has_acted:
            break
        scene.stage.rest()
        duel.check(scene, outcome)
        assert scene.stage.reported == []
    assert nth > 1
