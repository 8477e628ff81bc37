"""Publications and two-phase commits when another one acts between any two requests."""

from types import NoneType
from typing import Any

import pytest

from raykeeper.client.errors import BadVersionError, NodeExistsError, NoNodeError
from raykeeper.client.recipes.two_phase_commit import Decision
from raykeeper.znodes.requests import SetData
from tests.harness.recipe_stage import Member, Outcome
from tests.recipes.freezing import freeze_at
from tests.recipes.rivals import PATH, Act, Duel, Scene, begun, is_in, play


def _whole(scene: Scene, outcome: Outcome) -> None:
    """The version that was begun last is there as a whole, and nothing else."""
    read, other = scene.judge.published(PATH).read(), scene.notes["other"]
    if outcome.error is None:
        is_mine = outcome.value > other.value
    else:
        assert isinstance(outcome.error, BadVersionError)
        is_mine = False
    assert read.version == (outcome.value if is_mine else other.value)
    assert set(read.values.values()) == {b"mine" if is_mine else b"other"}
    assert scene.names(f"{PATH}/publishing") == []
    assert len(scene.names(f"{PATH}/versions")) == 1


def _latest(scene: Scene, outcome: Outcome) -> None:
    read = scene.judge.published(PATH).read()
    assert (read.version, read.values["a"]) == (outcome.value, b"mine")
    assert isinstance(scene.notes["other"].error, BadVersionError | None)


def _publish(member: Member, value: bytes) -> Any:
    return lambda: member.published(PATH).publish({"a": value, "b": value})


def _publishes(scene: Scene) -> None:
    begun(scene, scene.rival, _publish(scene.rival, b"other"))


def _begins_to_publish(scene: Scene) -> None:
    """The rival has its number, which is lower, and goes on later."""
    _publish(scene.judge, b"before")()
    freeze_at(scene.rival, 2)
    _publishes(scene)


def _trip(member: Member) -> Any:
    return member.two_phase_commit(PATH)


def _begin(*sites: str, votes: str = "") -> Act:
    def prepare(scene: Scene) -> None:
        _trip(scene.judge).begin(sites)
        for site in votes:
            _trip(scene.judge).vote(site, commit=True)

    return prepare


def _agreed(scene: Scene, outcome: Outcome) -> None:
    progress = _trip(scene.judge).progress()
    assert outcome.value is progress.decision is not None
    if progress.decision is Decision.COMMIT:
        assert set(progress.votes.values()) == {Decision.COMMIT}


def _voted(scene: Scene, outcome: Outcome) -> None:
    """A vote that came after the decision was not counted."""
    assert (outcome.value, _trip(scene.judge).progress().votes) == (Decision.ABORT, {"a": None})


def _alters(scene: Scene) -> None:
    scene.notes["was"] = _trip(scene.judge).progress().decision
    scene.rival.ask(SetData(f"{PATH}/votes/b", b"abort", -1))


def _is_told_in_time(scene: Scene, outcome: Outcome) -> None:
    assert outcome.value is (scene.notes["was"] or Decision.ABORT)


DUELS: dict[str, Duel] = {
    "published": Duel(lambda scene: _publish(scene.me, b"mine"), _publishes, _whole),
    "published, again": Duel(
        lambda scene: _publish(scene.me, b"mine"),
        _publishes,
        _whole,
        lambda scene: _publish(scene.judge, b"before")(),
    ),
    "published, one that began before": Duel(
        lambda scene: _publish(scene.me, b"mine"),
        lambda scene: scene.rival.thaw(),
        _latest,
        _begins_to_publish,
    ),
    "vote": Duel(
        lambda scene: lambda: _trip(scene.me).vote("a", commit=True),
        lambda scene: _trip(scene.rival).abort(),
        _voted,
        _begin("a"),
    ),
    "decide, abort": Duel(
        lambda scene: _trip(scene.me).decide,
        lambda scene: _trip(scene.rival).abort(),
        _agreed,
        _begin("a", "b", votes="ab"),
    ),
    "decide, a vote is altered": Duel(
        lambda scene: _trip(scene.me).decide,
        _alters,
        _is_told_in_time,
        _begin("a", "b", votes="ab"),
    ),
    "decide, last vote": Duel(
        lambda scene: _trip(scene.me).decide,
        lambda scene: _trip(scene.rival).vote("b", commit=True),
        _agreed,
        _begin("a", "b", votes="a"),
    ),
    "decide, no vote": Duel(
        lambda scene: _trip(scene.me).decide,
        lambda scene: _trip(scene.rival).vote("b", commit=False),
        _agreed,
        _begin("a", "b", votes="a"),
    ),
    "vote again": Duel(
        lambda scene: lambda: _trip(scene.me).vote("a", commit=True),
        lambda scene: (_trip(scene.rival).abort(), _trip(scene.rival).finish()),
        lambda scene, outcome: is_in(type(outcome.error), [NoneType, NoNodeError]),
        _begin("a", votes="a"),
    ),
    "outcome": Duel(
        lambda scene: _trip(scene.me).outcome,
        lambda scene: _trip(scene.rival).decide(timeout_s=0),
        _agreed,
        _begin("a", votes="a"),
    ),
    "begin": Duel(
        lambda scene: lambda: _trip(scene.me).begin(["a"]),
        lambda scene: _trip(scene.rival).begin(["b"]),
        lambda scene, outcome: is_in(
            (type(outcome.error), scene.names(f"{PATH}/sites")), [(NodeExistsError, ["b"])]
        ),
    ),
    "join": Duel(
        lambda scene: lambda: _trip(scene.me).join("a"),
        lambda scene: _trip(scene.rival).join("a"),
        lambda scene, outcome: is_in(
            (outcome.value, _trip(scene.judge).progress().present), [(b"", ["a"])]
        ),
        _begin("a"),
    ),
    "finish, a site goes": Duel(
        lambda scene: _trip(scene.me).finish,
        lambda scene: scene.rival.close(),
        lambda scene, outcome: is_in((outcome.value, scene.names()), [(None, [])]),
        lambda scene: (
            _begin("a")(scene),
            _trip(scene.judge).abort(),
            _trip(scene.rival).join("a"),
        ),
    ),
    "finish": Duel(
        lambda scene: _trip(scene.me).finish,
        lambda scene: _trip(scene.rival).join("a"),
        lambda scene, outcome: is_in((outcome.value, scene.names()), [(None, [])]),
        lambda scene: (_begin("a")(scene), _trip(scene.judge).abort()),
    ),
}


@pytest.mark.parametrize("name", DUELS)
def test_a_rival_between_any_two_requests(name: str) -> None:
    play(DUELS[name])
