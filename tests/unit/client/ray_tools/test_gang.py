"""Gang: the end of a generation. The restarts, in actors of which one dies, are in tests/ray."""

import pickle
from typing import Any

import pytest

from raykeeper.client.errors import (
    BadArgumentsError,
    BrokenBarrierError,
    InvalidValueError,
    SessionExpiredError,
)
from raykeeper.client.ray_tools import Gang
from raykeeper.client.ray_tools.gang import _attempts, _breaks_generation, finish
from raykeeper.client.recipes.rendezvous import Generation
from raykeeper.znodes.requests import SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage

PATH = "/gangs/train"


@pytest.fixture
def stage() -> RecipeStage:
    return RecipeStage()


def met(members: list[Member]) -> list[Generation[Any]]:
    """All of them, in a new generation."""
    gang = Gang("coord", PATH, len(members))
    joins = [each.begin(gang._on(each).join) for each in members]
    return [each.value for each in joins]


def finishing(member: Member, meeting: Generation[Any]) -> Outcome:
    return member.begin(lambda: member._run_flow(finish(meeting), "finish"))


def test_all_finish_together(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(3)]
    for generation in (1, 2):
        meetings = met(members)
        assert [each.generation for each in meetings] == [generation] * 3
        ends = [finishing(*each) for each in zip(members[:2], meetings[:2], strict=True)]
        assert [each.is_done for each in ends] == [False, False]
        ends.append(finishing(members[2], meetings[2]))
        assert [each.value for each in ends] == [None] * 3
        for meeting in meetings:
            meeting.leave()
    assert stage.reported == []


def test_a_member_that_dies_unfinished_breaks_the_waiting_ones(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(3)]
    meetings = met(members)
    ends = [finishing(*each) for each in zip(members[:2], meetings[:2], strict=True)]
    members[2].die()
    stage.pass_time(15_000)
    for end in ends:
        with pytest.raises(BrokenBarrierError, match="of /gangs/train broke before all finished"):
            _ = end.value


def test_a_member_that_leaves_after_the_end_breaks_nothing(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(2)]
    meetings = met(members)
    late = finishing(members[0], meetings[0])
    members[0].freeze()
    assert finishing(members[1], meetings[1]).value is None
    meetings[1].leave()
    members[0].thaw()
    assert meetings[0].broken.is_set()
    assert late.value is None, "all had finished before one left"


def test_a_member_of_an_older_generation_cannot_finish(stage: RecipeStage) -> None:
    old, other, new = (stage.member() for _ in range(3))
    meetings = met([old, other])
    meetings[1].leave()
    stage.rest()
    assert meetings[0].broken.is_set()
    meetings[0].leave()
    later = met([other, new])
    ends = [finishing(*each) for each in zip([other, new], later, strict=True)]
    assert [each.value for each in ends] == [None, None]
    with pytest.raises(BrokenBarrierError):
        _ = finishing(old, meetings[0]).value


def test_the_work_may_learn_of_a_death_sooner_than_the_gang(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(2)]
    meetings = met(members)
    assert _breaks_generation(meetings[0], BrokenBarrierError("a barrier of the work's own"))
    assert not _breaks_generation(meetings[0], ConnectionResetError())
    members[1].die()
    stage.pass_time(15_000)
    assert _breaks_generation(meetings[0], ConnectionResetError())


def test_a_cancelled_wait_leaves_nothing_behind(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(2)]
    meetings = met(members)
    end = finishing(members[0], meetings[0])
    end.run.cancel()
    stage.rest()
    assert members[0].asked["WatchRemoval"] == 1
    assert stage.reported == []


def test_the_end_of_the_session_ends_the_wait(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(2)]
    meetings = met(members)
    end = finishing(members[0], meetings[0])
    members[0].cut()
    stage.pass_time(15_000)
    assert isinstance(end.error, SessionExpiredError)


def test_a_foreign_value_is_an_error(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(2)]
    meetings = met(members)
    finishing(members[0], meetings[0])
    members[0].ask(SetData(f"{PATH}/finished", b"soon", -1))
    with pytest.raises(InvalidValueError, match="not one of a gang"):
        _ = finishing(members[1], meetings[1]).value


@pytest.mark.parametrize("size", [0, 501, "4", True])
def test_a_size_that_is_not_a_number_is_refused(size: Any) -> None:
    with pytest.raises(BadArgumentsError, match="size"):
        Gang("coord", PATH, size)


def test_restarts_are_counted() -> None:
    assert [len(_attempts(restarts_max)) for restarts_max in (0, 3)] == [1, 4]
    for restarts_max in (-1, "1", True):
        with pytest.raises(BadArgumentsError, match="restarts_max"):
            _attempts(restarts_max)  # type: ignore[arg-type]


def test_a_gang_pickles_as_its_settings() -> None:
    gang = Gang("coord", PATH, 4)
    copy = pickle.loads(pickle.dumps(gang))
    assert vars(copy).keys() == vars(gang).keys()
    assert (copy.path, copy.size) == (PATH, 4)
