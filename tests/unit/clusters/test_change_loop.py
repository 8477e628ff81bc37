"""The loop of a change: it acts until the plan is done, waits, and gives up in time."""

from collections.abc import Callable

import pytest
import ray.exceptions

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.clusters.change_loop import ChangeLoop, NotYetError
from raykeeper.clusters.member_steps.vocabulary import (
    Act,
    MemberChangeError,
    Members,
    Plan,
    ServerView,
    Start,
    Step,
    View,
)
from raykeeper.clusters.members_view import MembersView
from raykeeper.zab.ids import ZERO, ServerId

S1, S2, S3, S4 = (ServerId(number) for number in range(1, 5))
THREE, FOUR = Members((S1, S2, S3)), Members((S1, S2, S3), (S4,))
PLAN = Plan(text="add server 4", begun_by="me", before=THREE, target=FOUR, newcomers=(S4,))
WAIT_S = 10.0


def seen(members: Members, *running: ServerId, doubt: str = "") -> MembersView:
    view = View(
        members=members,
        leader=None if doubt else S1,
        doubt=doubt,
        servers=dict.fromkeys(running, ServerView()),
    )
    return MembersView(view, ZERO, None, {}, {})


class Stage:
    """An ensemble that shows one view after the other, the last one again and again."""

    def __init__(self, *views: MembersView) -> None:
        self.views = list(views)
        self.acts: list[Act] = []
        self.lines: list[str] = []
        self.now = 0.0
        self.error: Callable[[], Exception | None] = lambda: None
        self.loop = ChangeLoop(
            self.look, self.act, self.lines.append, WAIT_S, self.sleep, lambda: self.now
        )

    def look(self) -> MembersView:
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]

    def act(self, act: Act, _seen: MembersView) -> None:
        self.acts.append(act)
        error = self.error()
        if error is not None:
            raise error

    def sleep(self, for_s: float) -> None:
        self.now += for_s


def test_it_acts_until_the_plan_is_done() -> None:
    end = seen(FOUR, S4)
    stage = Stage(seen(THREE), seen(THREE, S4), end)
    assert stage.loop.run(PLAN) is end
    assert stage.acts == [Start(S4, ""), Step(S4, as_observer=True)]
    assert (stage.lines, stage.now) == ([], 0.0)


@pytest.mark.parametrize(
    "error", [NotYetError("it lags by 9"), ray.exceptions.GetTimeoutError("it lags by 9")]
)
def test_what_is_refused_or_unknown_is_looked_at_again_for_a_while(error: Exception) -> None:
    stage = Stage(seen(THREE, S4))
    stage.error = lambda: error
    with pytest.raises(MemberChangeError, match="no act succeeded for 10 s: it lags by 9"):
        stage.loop.run(PLAN)
    assert WAIT_S <= stage.now < WAIT_S + 1
    assert set(stage.lines) == {"waiting: it lags by 9"}
    assert 2 <= len(stage.lines) <= 3, "now and then"


def test_each_act_has_its_time() -> None:
    """The first takes nearly all that one may take, and so does the second."""
    stage = Stage(*[seen(THREE, doubt="an election")] * 45, seen(THREE), seen(THREE, S4))
    errors = iter([None, *[NotYetError("it has kept up for 0 ms")] * 45])
    stage.error = lambda: next(errors, None)
    stage.views += [seen(THREE, S4)] * 44 + [seen(FOUR, S4)]
    stage.loop.run(PLAN)
    assert stage.now > 1.7 * WAIT_S
    assert stage.lines[:1] == ["waiting: an election"]
    assert "waiting: it has kept up for 0 ms" in stage.lines


def test_an_act_that_cannot_be_done_ends_it() -> None:
    stage = Stage(seen(THREE))
    stage.error = lambda: StorageError("host-a: no space left")
    with pytest.raises(MemberChangeError, match=r"^host-a: no space left$"):
        stage.loop.run(PLAN)
    assert len(stage.acts) == 1


def test_a_leader_is_waited_for() -> None:
    leads = seen(THREE)
    assert Stage(seen(THREE, doubt="an election"), leads).loop.until_leader() is leads
    with pytest.raises(MemberChangeError, match="the ensemble has no leader: an election"):
        Stage(seen(THREE, doubt="an election")).loop.until_leader()
