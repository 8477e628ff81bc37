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
    RecipeError,
    StaleTokenError,
    WaitTimeoutError,
)
from raykeeper.client.ray_tools.rate_limit import Bucket
from raykeeper.client.recipes.primitives import ensure_parent
from raykeeper.znodes.requests import Create, CreateMode, Delete, Multi, SetData
from tests.harness.recipe_stage import Member, Outcome
from tests.recipes.rivals import PATH, Act, Duel, Scene, begun, is_in, play


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
        lambda scene: begun(scene, scene.rival, _permits(2)(scene.rival)),
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
        lambda scene, outcome: is_in(
            (outcome.value, scene.judge.counter(PATH).get()), [(end, end) for end in ends]
        ),
        prepare,
    )


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
    begun(scene, scene.rival, scene.rival.simple_lock(PATH).acquire)


def _one_holder(scene: Scene, outcome: Outcome) -> None:
    held = [each for each in (outcome, scene.notes["other"]) if each.is_done]
    assert len(held) == 1
    held[0].value.release()
    assert all(each.is_done for each in (outcome, scene.notes["other"]))


def _holds_simple(scene: Scene) -> None:
    scene.notes["held"] = scene.rival.simple_lock(PATH).acquire()


def _delete_it(scene: Scene) -> None:
    scene.notes["was there"] = scene.value() is not None
    if scene.notes["was there"]:
        scene.rival.ask(Delete(PATH, -1))


def _is_lost_if_deleted(scene: Scene, outcome: Outcome) -> None:
    assert isinstance(outcome.error, LostError) == scene.notes["was there"]


def _locking(member: Member) -> Any:
    return member.lock_queue(PATH)


def _gets_and_consumes(scene: Scene) -> None:
    scene.notes["other"] = _locking(scene.rival).get()
    scene.notes["other"].consume()


def _each_has_one(scene: Scene, outcome: Outcome) -> None:
    assert {bytes(each.value) for each in (outcome.value, scene.notes["other"])} == {b"1", b"2"}


def _has_a_job(scene: Scene) -> None:
    _locking(scene.judge).put(b"1")
    scene.notes["job"] = _locking(scene.me).get()


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


def _take_partition(scene: Scene) -> None:
    path = f"{PATH}/owners/a"
    deletion = [Delete(path, -1)] * (scene.value(path) is not None)
    scene.rival.ask(Multi([], [*deletion, Create(path, b"theirs", CreateMode.EPHEMERAL)], []))


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
        lambda scene, outcome: is_in((outcome.value, scene.value()), [(11, b"11")]),
    ),
    "counter, compare": Duel(
        lambda scene: lambda: scene.me.counter(PATH).compare_and_set(5, 7),
        lambda scene: scene.rival.counter(PATH).increment(),
        lambda scene, outcome: is_in((outcome.value, scene.value()), [(False, b"6")]),
        lambda scene: scene.judge.counter(PATH).set(5),
    ),
    "configuration": Duel(
        lambda scene: lambda: _config(scene, scene.me).update(lambda now: {**now, "mine": 1}),
        lambda scene: _config(scene, scene.rival).update(lambda now: {**now, "other": 1}),
        lambda scene, outcome: is_in(
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
        lambda scene, outcome: is_in(
            (type(outcome.error), scene.value(f"{PATH}/a")), [(BadVersionError, b"{}")]
        ),
        lambda scene: _both(scene.judge).set({f"{PATH}/a": {}, f"{PATH}/b": {}}),
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
    "queue, get now of two": Duel(
        lambda scene: _queue(scene.me).get_nowait,
        _gets,
        lambda scene, outcome: is_in({outcome.value, scene.notes["got"]}, [{b"1", b"2"}]),
        _puts(b"1", b"2"),
    ),
    "queue, peek": Duel(
        lambda scene: _queue(scene.me).peek,
        _gets,
        lambda scene, outcome: is_in((outcome.value, scene.notes["got"]), [(b"2", b"1")]),
        _puts(b"1", b"2"),
    ),
    "queue, put": Duel(
        lambda scene: lambda: _queue(scene.me, 3).put_many([b"1", b"1"]),
        lambda scene: begun(scene, scene.rival, _queue(scene.rival, 3).put_many, [b"2", b"2"]),
        _bounded,
        _puts(b"0", size_max=3),
    ),
    "queue, put where there is none": Duel(
        lambda scene: lambda: _queue(scene.me, 3).put_many([b"1", b"1"]),
        lambda scene: begun(scene, scene.rival, _queue(scene.rival, 3).put_many, [b"2", b"2"]),
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
        lambda scene: begun(scene, scene.rival, _meeting(scene.rival)),
    ),
    "join a group": Duel(
        lambda scene: lambda: scene.me.group(PATH).join("n"),
        lambda scene: begun(scene, scene.rival, scene.rival.group(PATH).join, "n"),
        _joined,
    ),
    "update a member": Duel(
        lambda scene: lambda: scene.notes["me"].update(b"new"),
        _remove_member,
        lambda scene, outcome: is_in((outcome.value, scene.value(f"{PATH}/n")), [(None, b"new")]),
        _member,
    ),
    "update a member whose name was taken": Duel(
        lambda scene: lambda: scene.notes["me"].update(b"new"),
        _take_name,
        lambda scene, outcome: is_in(
            (scene.value(f"{PATH}/n"), scene.notes["me"].lost.is_set()), [(b"theirs", True)]
        ),
        _member,
    ),
    "leave a group": Duel(
        lambda scene: scene.notes["me"].leave,
        _take_name,
        lambda scene, outcome: is_in(scene.value(f"{PATH}/n"), [b"theirs"]),
        _member,
    ),
    "simple lock": Duel(
        lambda scene: scene.me.simple_lock(PATH).acquire, _other_simple, _one_holder
    ),
    "simple lock, released": Duel(
        lambda scene: scene.me.simple_lock(PATH).acquire,
        lambda scene: scene.notes["held"].release(),
        lambda scene, outcome: is_in(outcome.value.lost.is_set(), [False]),
        _holds_simple,
    ),
    "simple lock, deleted": Duel(
        lambda scene: scene.me.simple_lock(PATH).acquire,
        _delete_it,
        _is_lost_if_deleted,
    ),
    "lock queue, get": Duel(
        lambda scene: _locking(scene.me).get,
        lambda scene: scene.notes.update(other=_locking(scene.rival).get()),
        _each_has_one,
        lambda scene: _locking(scene.judge).put_many([b"1", b"2"]),
    ),
    "lock queue, consume": Duel(
        lambda scene: _locking(scene.me).get,
        _gets_and_consumes,
        _each_has_one,
        lambda scene: _locking(scene.judge).put_many([b"1", b"2"]),
    ),
    "lock queue, a deleted lock": Duel(
        lambda scene: scene.notes["job"].consume,
        lambda scene: scene.rival.ask(Delete(scene.notes["job"].path, -1)),
        lambda scene, outcome: is_in(
            (type(outcome.error), _locking(scene.judge).size()), [(LostError, 1)]
        ),
        _has_a_job,
    ),
    "partitioner": Duel(
        lambda scene: _partitioner("mine", "me")(scene).start,
        lambda scene: _partitioner("theirs", "rival")(scene).start(),
        _is_owner,
    ),
    "partitioner, whose partition is taken": Duel(
        lambda scene: scene.notes["mine"].close,
        _take_partition,
        lambda scene, outcome: is_in(
            (outcome.error, scene.value(f"{PATH}/owners/a")), [(None, b"theirs")]
        ),
        lambda scene: _partitioner("mine", "me")(scene).start(),
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
