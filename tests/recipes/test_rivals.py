"""Somebody else acts between two requests of an operation: at each such moment, once.

The guards of a recipe, the conditions of its transactions and what it reads again, are for these
moments, which no seed of the simulator is sure to meet.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.errors import (
    BadVersionError,
    LostError,
    NodeExistsError,
    RecipeError,
    StaleTokenError,
    WaitTimeoutError,
)
from raykeeper.client.ray_tools.rate_limit import Bucket
from raykeeper.client.recipes.primitives import ensure_parent
from raykeeper.client.recipes.two_phase_commit import Decision
from raykeeper.znodes.requests import Create, CreateMode, Delete, Multi, SetData
from tests.harness.recipe_stage import Member, Outcome
from tests.recipes.rivals import PATH, Act, Duel, Scene, play


def _begun(scene: Scene, member: Member, operation: Callable[..., Any], *args: Any) -> None:
    scene.notes["other"] = member.begin(operation, *args)


def _permits(number: int) -> Callable[[Member], Any]:
    return lambda member: member.semaphore(PATH, number).acquire


def _one_number(scene: Scene, outcome: Outcome) -> None:
    """All who hold named the same number: one of the two was refused."""
    errors = [outcome.error, scene.notes["other"].error]
    assert [type(each) for each in errors if each] == [RecipeError]
    assert len(scene.names()) == 1


def _semaphore(prepare: Act) -> Duel:
    return Duel(
        lambda scene: _permits(3)(scene.me),
        lambda scene: _begun(scene, scene.rival, _permits(2)(scene.rival)),
        _one_number,
        prepare,
    )


def _counter(rival: Callable[[Any, Scene], object], *ends: int) -> Duel:
    """A counter of 5 to which 1 is added by one who has counted before."""

    def prepare(scene: Scene) -> None:
        scene.notes["counter"] = scene.me.counter(PATH)
        assert scene.notes["counter"].add(5) == 5

    return Duel(
        lambda scene: scene.notes["counter"].increment,
        lambda scene: rival(scene.rival.counter(PATH), scene),
        lambda scene, outcome: _in(
            (outcome.value, scene.judge.counter(PATH).get()), [(end, end) for end in ends]
        ),
        prepare,
    )


def _in(found: object, allowed: list[Any]) -> None:
    assert found in allowed


def _remake(scene: Scene, path: str, value: bytes) -> None:
    scene.rival.ask(Delete(path, -1))
    scene.rival.ask(Create(path, value, 0))


def _config(scene: Scene, member: Member) -> Any:
    return member.configuration(PATH, dict)


def _both(member: Member) -> Any:
    return member.configurations({f"{PATH}/a": dict, f"{PATH}/b": dict})


def _sums(scene: Scene, outcome: Outcome) -> None:
    """a was made of the b that is there."""
    assert outcome.error is None
    found = {path[-1]: each.value for path, each in _both(scene.judge).get().items()}
    assert found == {"a": {"n": 10 * found["b"]["n"]}, "b": {"n": 7}}


def _whole(scene: Scene, outcome: Outcome) -> None:
    published = scene.judge.published(PATH)
    read = published.read()
    assert set(read.values.values()) in ({b"mine"}, {b"other"})
    if outcome.error is None:
        assert (read.version == outcome.value) == (read.values["a"] == b"mine")
    else:
        assert isinstance(outcome.error, BadVersionError)
        assert read.values["a"] == b"other"
    assert scene.names(f"{PATH}/publishing") == []
    assert len(scene.names(f"{PATH}/versions")) == 1


def _publish(member: Member, value: bytes) -> Any:
    return lambda: member.published(PATH).publish({"a": value, "b": value})


def _is_lost(scene: Scene, outcome: Outcome) -> None:
    assert isinstance(outcome.error, LostError) or outcome.error is None


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


def _queue(member: Member, size_max: int | None = None) -> Any:
    return member.queue(PATH, size_max)


def _puts(*values: bytes, size_max: int | None = None) -> Act:
    return lambda scene: _queue(scene.judge, size_max).put_many(values)


def _bounded(scene: Scene, outcome: Outcome) -> None:
    """The bound holds, and who does not fit waits."""
    waits = [outcome, scene.notes["other"]]
    assert _queue(scene.judge).size() <= 3
    while any(not each.is_done for each in waits):
        _queue(scene.judge).get()
        assert _queue(scene.judge).size() <= 3


def _taken_once(*values: bytes) -> Callable[[Scene, Outcome], None]:
    def check(scene: Scene, outcome: Outcome) -> None:
        taken = [bytes(each) for each in (outcome.value, scene.notes["got"]) if each is not None]
        left = [_queue(scene.judge).get_nowait() for _ in range(len(values) - len(taken))]
        assert sorted([*taken, *left]) == sorted(values)
        assert left == sorted(left)

    return check


def _gets(scene: Scene) -> None:
    scene.notes["got"] = _queue(scene.rival).get_nowait()


def _share(scene: Scene, member: Member) -> Any:
    return Bucket(member, PATH, 0.001, 2)


def _two_shares(scene: Scene, outcome: Outcome) -> None:
    assert outcome.value is None
    with pytest.raises(WaitTimeoutError):
        _share(scene, scene.judge).take(timeout_s=0)


def _newest(scene: Scene, outcome: Outcome) -> None:
    assert outcome.error is None or isinstance(outcome.error, StaleTokenError)
    with pytest.raises(StaleTokenError):
        scene.judge.fenced_resource(PATH).check(8)


def _new_epoch(scene: Scene, outcome: Outcome) -> None:
    assert outcome.value.epoch > scene.notes["epoch"]


def _sets_epoch(scene: Scene) -> None:
    scene.notes["epoch"] = 41
    scene.rival.ask(SetData(PATH, b'{"epoch":41,"candidate":"","token":0}', -1))


def _meeting(member: Member) -> Any:
    return member.rendezvous(PATH, 2).join


def _met(scene: Scene, outcome: Outcome) -> None:
    """Who left is in no generation of those who are there."""
    scene.notes["other"].run.cancel()
    scene.stage.rest()
    assert not outcome.is_done or outcome.value.broken.is_set()
    if not outcome.is_done:
        assert scene.judge.begin(_meeting(scene.judge)).value.members == outcome.value.members


def _leaves_meeting(scene: Scene) -> None:
    scene.notes["other"].run.cancel()
    scene.stage.rest()


def _joined(scene: Scene, outcome: Outcome) -> None:
    """One has the name, the other waits for it."""
    scene.notes["other"].run.cancel() if not scene.notes["other"].is_done else None
    first, second = sorted((outcome, scene.notes["other"]), key=lambda each: not each.is_done)
    assert (first.error, second.is_done) == (None, False)
    assert [each.name for each in scene.judge.group(PATH).members()] == ["n"]


def _remove_member(scene: Scene) -> None:
    scene.rival.ask(Delete(f"{PATH}/n", -1))


def _take_name(scene: Scene) -> None:
    path = f"{PATH}/n"
    scene.rival.ask(
        Multi([], [Delete(path, -1), Create(path, b"theirs", CreateMode.EPHEMERAL)], [])
    )


def _member(scene: Scene) -> None:
    scene.notes["me"] = scene.me.group(PATH).join("n", b"old")


def _other_simple(scene: Scene) -> None:
    _begun(scene, scene.rival, scene.rival.simple_lock(PATH).acquire)


def _one_holder(scene: Scene, outcome: Outcome) -> None:
    held = [each for each in (outcome, scene.notes["other"]) if each.is_done]
    assert len(held) == 1
    held[0].value.release()
    assert all(each.is_done for each in (outcome, scene.notes["other"]))


def _is_owner(scene: Scene, outcome: Outcome) -> None:
    """Each partition has one owner, and all have one."""
    mine = {each.name for each in scene.notes["mine"].owned}
    theirs = {each.name for each in scene.notes["theirs"].owned}
    assert mine.isdisjoint(theirs)
    assert mine | theirs == {"a", "b", "c"}
    assert scene.names(f"{PATH}/owners") == ["a", "b", "c"]


def _delete_owners(scene: Scene) -> None:
    owners = f"{PATH}/owners"
    deletions: list[Any] = [Delete(f"{owners}/{name}", -1) for name in scene.names(owners)]
    scene.rival.ask(Multi([], deletions, []))


def _partitioner(name: str, member: str) -> Callable[[Scene], Any]:
    def make(scene: Scene) -> Any:
        scene.notes[name] = getattr(scene, member).partitioner(PATH, "abc")
        return scene.notes[name]

    return make


DUELS: dict[str, Duel] = {
    "semaphore, new": _semaphore(lambda scene: None),
    "semaphore, unused": _semaphore(lambda scene: _permits(2)(scene.judge)().release()),
    "semaphore, of others": _semaphore(lambda scene: _permits(4)(scene.judge)().release()),
    "semaphore, no number": _semaphore(
        lambda scene: scene.judge.do(ensure_parent(PATH, stays=True))
    ),
    "counter, add": _counter(lambda counter, _: counter.add(10), 16),
    "counter, set": _counter(lambda counter, _: counter.set(100), 101),
    "counter, delete": _counter(lambda _, scene: scene.rival.ask(Delete(PATH, -1)), 1),
    "counter, made again": _counter(lambda _, scene: _remake(scene, PATH, b"70"), 71),
    "counter, new": Duel(
        lambda scene: scene.me.counter(PATH).increment,
        lambda scene: scene.rival.counter(PATH).add(10),
        lambda scene, outcome: _in((outcome.value, scene.value()), [(11, b"11")]),
    ),
    "counter, compare": Duel(
        lambda scene: lambda: scene.me.counter(PATH).compare_and_set(5, 7),
        lambda scene: scene.rival.counter(PATH).increment(),
        lambda scene, outcome: _in((outcome.value, scene.value()), [(False, b"6")]),
        lambda scene: scene.judge.counter(PATH).set(5),
    ),
    "configuration": Duel(
        lambda scene: lambda: _config(scene, scene.me).update(lambda now: {**now, "mine": 1}),
        lambda scene: _config(scene, scene.rival).update(lambda now: {**now, "other": 1}),
        lambda scene, outcome: _in(
            _config(scene, scene.judge).get().value, [{"mine": 1, "other": 1}]
        ),
        lambda scene: _config(scene, scene.judge).set({}),
    ),
    "configurations": Duel(
        lambda scene: (
            lambda: _both(scene.me).update(
                lambda now: {f"{PATH}/a": {"n": 10 * now[f"{PATH}/b"]["n"]}}
            )
        ),
        lambda scene: _both(scene.rival).set({f"{PATH}/b": {"n": 7}}),
        _sums,
        lambda scene: _both(scene.judge).set({f"{PATH}/a": {}, f"{PATH}/b": {"n": 1}}),
    ),
    "configurations, of a version": Duel(
        lambda scene: lambda: _both(scene.me).set({f"{PATH}/a": {"n": 1}}, {f"{PATH}/b": 0}),
        lambda scene: _both(scene.rival).set({f"{PATH}/b": {"n": 7}}),
        lambda scene, outcome: _in(
            (type(outcome.error), scene.value(f"{PATH}/a")), [(BadVersionError, b"{}")]
        ),
        lambda scene: _both(scene.judge).set({f"{PATH}/a": {}, f"{PATH}/b": {}}),
    ),
    "published": Duel(
        lambda scene: _publish(scene.me, b"mine"),
        lambda scene: _publish(scene.rival, b"other")(),
        _whole,
    ),
    "published, again": Duel(
        lambda scene: _publish(scene.me, b"mine"),
        lambda scene: _publish(scene.rival, b"other")(),
        _whole,
        lambda scene: _publish(scene.judge, b"before")(),
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
    "outcome": Duel(
        lambda scene: _trip(scene.me).outcome,
        lambda scene: _trip(scene.rival).decide(timeout_s=0),
        _agreed,
        _begin("a", votes="a"),
    ),
    "begin": Duel(
        lambda scene: lambda: _trip(scene.me).begin(["a"]),
        lambda scene: _trip(scene.rival).begin(["b"]),
        lambda scene, outcome: _in(
            (type(outcome.error), scene.names(f"{PATH}/sites")), [(NodeExistsError, ["b"])]
        ),
    ),
    "join": Duel(
        lambda scene: lambda: _trip(scene.me).join("a"),
        lambda scene: _trip(scene.rival).join("a"),
        lambda scene, outcome: _in(
            (outcome.value, _trip(scene.judge).progress().present), [(b"", ["a"])]
        ),
        _begin("a"),
    ),
    "finish": Duel(
        lambda scene: _trip(scene.me).finish,
        lambda scene: _trip(scene.rival).join("a"),
        lambda scene, outcome: _in((outcome.value, scene.names()), [(None, [])]),
        lambda scene: (_begin("a")(scene), _trip(scene.judge).abort()),
    ),
    "queue, get": Duel(
        lambda scene: _queue(scene.me).get,
        _gets,
        _taken_once(b"1", b"2"),
        _puts(b"1", b"2"),
    ),
    "queue, get now": Duel(
        lambda scene: _queue(scene.me).get_nowait, _gets, _taken_once(b"1"), _puts(b"1")
    ),
    "queue, put": Duel(
        lambda scene: lambda: _queue(scene.me, 3).put_many([b"1", b"1"]),
        lambda scene: _begun(scene, scene.rival, _queue(scene.rival, 3).put_many, [b"2", b"2"]),
        _bounded,
        _puts(b"0", size_max=3),
    ),
    "queue, put where there is none": Duel(
        lambda scene: lambda: _queue(scene.me, 3).put_many([b"1", b"1"]),
        lambda scene: _begun(scene, scene.rival, _queue(scene.rival, 3).put_many, [b"2", b"2"]),
        _bounded,
    ),
    "rate limit": Duel(
        lambda scene: _share(scene, scene.me).take,
        lambda scene: _share(scene, scene.rival).take(),
        _two_shares,
    ),
    "guard": Duel(
        lambda scene: lambda: scene.me.fenced_resource(PATH).check(5),
        lambda scene: scene.rival.fenced_resource(PATH).check(9),
        _newest,
    ),
    "election": Duel(
        lambda scene: scene.me.election(PATH).lead,
        _sets_epoch,
        _new_epoch,
        lambda scene: scene.judge.election(PATH).lead().resign(),
    ),
    "rendezvous": Duel(
        lambda scene: _meeting(scene.me),
        _leaves_meeting,
        _met,
        lambda scene: _begun(scene, scene.rival, _meeting(scene.rival)),
    ),
    "join a group": Duel(
        lambda scene: lambda: scene.me.group(PATH).join("n"),
        lambda scene: _begun(scene, scene.rival, scene.rival.group(PATH).join, "n"),
        _joined,
    ),
    "update a member": Duel(
        lambda scene: lambda: scene.notes["me"].update(b"new"),
        _remove_member,
        lambda scene, outcome: _in((outcome.value, scene.value(f"{PATH}/n")), [(None, b"new")]),
        _member,
    ),
    "update a member whose name was taken": Duel(
        lambda scene: lambda: scene.notes["me"].update(b"new"),
        _take_name,
        lambda scene, outcome: _in(
            (scene.value(f"{PATH}/n"), scene.notes["me"].lost.is_set()), [(b"theirs", True)]
        ),
        _member,
    ),
    "leave a group": Duel(
        lambda scene: scene.notes["me"].leave,
        _take_name,
        lambda scene, outcome: _in(scene.value(f"{PATH}/n"), [b"theirs"]),
        _member,
    ),
    "simple lock": Duel(
        lambda scene: scene.me.simple_lock(PATH).acquire, _other_simple, _one_holder
    ),
    "partitioner": Duel(
        lambda scene: _partitioner("mine", "me")(scene).start,
        lambda scene: _partitioner("theirs", "rival")(scene).start(),
        _is_owner,
    ),
    "partitioner, of others": Duel(
        lambda scene: _partitioner("mine", "me")(scene).start,
        _delete_owners,
        _is_owner,
        lambda scene: _partitioner("theirs", "rival")(scene).start(),
    ),
}


@pytest.mark.parametrize("name", DUELS)
def test_a_rival_between_any_two_requests(name: str) -> None:
    play(DUELS[name])
