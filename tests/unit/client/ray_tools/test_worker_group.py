"""WorkerGroup: what workers say of themselves. In actors: tests/ray/test_ray_tools.py."""

import os
import pickle
from typing import Any

import pytest

from raykeeper.client.errors import BadArgumentsError, InvalidValueError
from raykeeper.client.ray_tools import WorkerGroup
from raykeeper.client.ray_tools.worker_group import (
    WorkersChange,
    _encode_worker_info,
    worker_of,
)
from tests.harness.recipe_stage import Member, RecipeStage

PATH = "/workers/app"


def group_of(member: Member) -> WorkerGroup:
    """The tool, as the process of `member` has it."""

    class Here(WorkerGroup):
        def _get_client(self) -> Any:
            return member

    return Here("coord", PATH)


def test_a_watch_receives_workers() -> None:
    stage = RecipeStage()
    one, other = group_of(stage.member()), group_of(stage.member())
    told: list[WorkersChange] = []
    other.watch(told.append)
    membership = one.join("first", b"10.0.0.7:4000")
    membership.leave()
    stage.rest()
    assert [[each.name for each in change.workers] for change in told] == [[], ["first"], []]
    (joined,) = told[1].joined
    assert (joined.data, joined.pid, joined.node_id) == (b"10.0.0.7:4000", os.getpid(), "")
    assert (joined.actor_id, joined.token) == (None, membership.token)
    assert told[2].left == [joined]


def test_a_foreign_member_is_an_error() -> None:
    member = RecipeStage().member()
    group = WorkerGroup("coord", PATH)._on(member)
    group.join("outsider", b"hello")
    with pytest.raises(InvalidValueError, match="outsider is not a worker"):
        worker_of(PATH, group.members()[0])


def test_a_watch_leaves_a_foreign_member_out() -> None:
    stage = RecipeStage()
    member = stage.member()
    one, other = group_of(member), group_of(stage.member())
    told: list[WorkersChange] = []
    other.watch(told.append)
    outsider = one._on(member).join("outsider", b"hello")
    one.join("worker")
    outsider.leave()
    stage.rest()
    assert [each.name for each in other.members()] == ["worker"]
    assert [[each.name for each in change.workers] for change in told] == [
        *([], [], ["worker"], ["worker"])
    ]


def test_a_worker_with_new_data_is_the_same_worker() -> None:
    stage = RecipeStage()
    me = group_of(stage.member()).join("worker", b"old")
    me.update(b"new")
    (worker,) = group_of(stage.member()).members()
    assert (worker.data, worker.pid, worker.token) == (b"new", os.getpid(), me.token)


def test_data_that_are_not_bytes_are_refused() -> None:
    with pytest.raises(BadArgumentsError, match="data"):
        _encode_worker_info("text")  # type: ignore[arg-type]


def test_a_group_pickles_as_its_settings() -> None:
    workers = WorkerGroup("coord", PATH, session_timeout_s=3)
    copy = pickle.loads(pickle.dumps(workers))
    assert (copy.ensemble, copy.path, copy._session_timeout_s) == ("coord", PATH, 3)


def test_a_watch_takes_no_coroutine() -> None:
    async def told(change: WorkersChange) -> None:
        raise AssertionError("it runs")

    with pytest.raises(BadArgumentsError, match="a coroutine function: see watch_async"):
        group_of(RecipeStage().member()).watch(told)
