"""The double barrier when others come, go and die between any two requests of a participant."""

from typing import Any

import pytest

from raykeeper.client.errors import BarrierFullError, BrokenBarrierError
from raykeeper.client.recipes.primitives import ensure_parent
from tests.harness.recipe_stage import Outcome
from tests.recipes.rivals import PATH, Act, Duel, Scene, play


def _cross(scene: Scene, place: int, size: int) -> Any:
    barriers = scene.notes.setdefault("barriers", {})
    member = [scene.me, scene.rival, scene.judge][place]
    if place not in barriers:
        barriers[place] = member.double_barrier(PATH, size, b"", scene.notes["mode"])
    return member, barriers[place]


def _enters(scene: Scene, place: int, size: int) -> Outcome:
    member, barrier = _cross(scene, place, size)
    entering: Outcome = member.begin(barrier.enter)
    return entering


def _leaves(scene: Scene, place: int, size: int) -> Outcome:
    member, barrier = _cross(scene, place, size)
    leaving: Outcome = member.begin(barrier.leave)
    return leaving


def _entering(mode: str, rival: Act, check: Any, prepare: Act = lambda _: None) -> Duel:
    def before(scene: Scene) -> None:
        scene.notes["mode"] = mode
        scene.judge.do(ensure_parent(PATH, stays=True))
        prepare(scene)

    return Duel(lambda scene: _cross(scene, 0, 2)[1].enter, rival, check, before)


def _comes(scene: Scene) -> None:
    scene.notes["other"] = _enters(scene, 1, 2)


def _comes_and_goes(scene: Scene) -> None:
    _comes(scene)
    scene.notes["other"].run.cancel()
    scene.stage.rest()


def _both_come(scene: Scene) -> None:
    _comes(scene)
    scene.notes["third"] = _enters(scene, 2, 2)


def _together(scene: Scene, outcome: Outcome) -> None:
    assert outcome.value.round == scene.notes["other"].value.round


def _alone(scene: Scene, outcome: Outcome) -> None:
    """The rival is gone; both who come next enter together, unless the member saw it come or go."""
    if scene.notes["other"].is_done and not outcome.error:
        return  # for a moment both were inside
    if outcome.is_done:
        assert isinstance(outcome.error, BrokenBarrierError)
        outcome = _enters(scene, 0, 2)
    assert not outcome.is_done
    assert _enters(scene, 1, 2).value.round == outcome.value.round


def _two_of_three(scene: Scene, outcome: Outcome) -> None:
    """A round of two has two; the third waits for the next, or was refused."""
    outcomes = [outcome, scene.notes["other"], scene.notes["third"]]
    inside = [each for each in outcomes if each.is_done and each.error is None]
    assert len(inside) == 2
    assert len({each.value.round for each in inside}) == 1
    (left,) = [each for each in outcomes if each not in inside]
    assert isinstance(left.error, BarrierFullError)


def _leaving(mode: str, size: int, rival: Act, check: Any, gone: int = 0) -> Duel:
    def before(scene: Scene) -> None:
        scene.notes["mode"] = mode
        entering = [_enters(scene, place, size) for place in range(size)]
        assert [each.error for each in entering] == [None] * size
        scene.notes["left"] = [_leaves(scene, size - 1 - place, size) for place in range(gone)]

    return Duel(lambda scene: _cross(scene, 0, size)[1].leave, rival, check, before)


def _leaves_too(place: int, size: int) -> Act:
    return lambda scene: scene.notes["left"].append(_leaves(scene, place, size))


def _all_left(scene: Scene, outcome: Outcome) -> None:
    assert [each.error for each in (outcome, *scene.notes["left"])] == [None] * (
        1 + len(scene.notes["left"])
    )
    scene.stage.pass_time(1_000)
    assert scene.names() == []


def _is_broken(scene: Scene, outcome: Outcome) -> None:
    """Somebody died inside, or after it had left: nobody has left a whole round."""
    assert isinstance(outcome.error, BrokenBarrierError)
    scene.stage.pass_time(1_000)
    assert scene.names() == []


def _dies(place: int) -> Act:
    return lambda scene: [scene.me, scene.rival, scene.judge][place].close()


DUELS: dict[str, Duel] = {
    **{
        f"enter, {name} ({mode})": _entering(mode, rival, check)
        for mode in ("abort", "continue")
        for name, rival, check in [
            ("one comes", _comes, _together),
            ("one comes and goes", _comes_and_goes, _alone),
            ("two come", _both_come, _two_of_three),
        ]
    },
    **{
        f"leave, {name} ({mode})": _leaving(mode, size, rival, check, gone)
        for mode in ("abort", "continue")
        for name, size, rival, check, gone in [
            ("the other leaves", 2, _leaves_too(1, 2), _all_left, 0),
            ("the last leaves", 3, _leaves_too(1, 3), _all_left, 1),
        ]
    },
    "leave, the other dies": _leaving("abort", 2, _dies(1), _is_broken),
    "leave, one that left dies": _leaving("abort", 3, _dies(1), _is_broken, 2),
}


@pytest.mark.parametrize("name", DUELS)
def test_a_rival_between_any_two_requests(name: str) -> None:
    play(DUELS[name])
