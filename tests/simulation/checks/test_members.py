"""The checks of the member list, against histories that break it."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from raykeeper.server.effects import ReconfigAnswered, ReconfigResult
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import FOUNDING_DISK, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import ReconfigTxn, SetDataTxn
from tests.simulation.checks import members
from tests.simulation.checks.reconfigs import Reconfigs
from tests.simulation.checks.truth import CONFIG, Truth

S3, OLD, NEW = ServerId(3), Zxid(5), Zxid(9)
JOINS = Reconfig(4, 0, True)


def listed(version: Zxid, *observers: int, voters: tuple[int, ...] = (1, 2)) -> MemberList:
    seats = dict.fromkeys(map(ServerId, voters), FOUNDING_DISK)
    return MemberList(version, seats, tuple(map(ServerId, observers)))


def truth_of(said: int = 2, asked: tuple[Reconfig, ...] = (JOINS,)) -> Truth:
    truth = Truth()
    truth.members, truth.times_said = listed(OLD), said
    truth.operators_steps += asked
    return truth


def step_to(new: MemberList, text: bytes | None = None) -> ReconfigTxn:
    kinds = dict.fromkeys(new.observers, "observer") | dict.fromkeys(new.voters, "participant")
    lines = [f"server.{server}=unknown:2888:3888:{kind}" for server, kind in sorted(kinds.items())]
    due = "\n".join([*lines, f"version={NEW:x}"]).encode()
    stat = Stat(Zxid(0), NEW, 0, 0, 1, 0, 0, 0, 0, 0, Zxid(0))
    return ReconfigTxn(new, SetDataTxn(CONFIG, due if text is None else text, stat))


def asked_and_answered(result: ReconfigResult, *, times: int = 1, said: Zxid = NEW) -> Reconfigs:
    made = Reconfigs(Counter())
    request = made.asks(JOINS).request
    node: Any = SimpleNamespace(server=SimpleNamespace(state=SimpleNamespace(members_said=said)))
    for _ in range(times):
        made.answered(node, ReconfigAnswered(request, result))
    return made


DONE = ReconfigResult(Code.OK, "", NEW)
BROKEN: dict[str, Callable[[], object]] = {
    "nobody asked": lambda: members.is_an_operators_step(
        truth_of(asked=(Reconfig(5, 0, True),)), NEW, step_to(listed(NEW, 4))
    ),
    "another step is open": lambda: members.is_an_operators_step(
        truth_of(said=1), NEW, step_to(listed(NEW, 4))
    ),
    "two seats": lambda: members.is_an_operators_step(
        truth_of(), NEW, step_to(listed(NEW, 4, voters=(5, 6)))
    ),
    "another config": lambda: members.is_an_operators_step(
        truth_of(), NEW, step_to(listed(NEW, 4), b"another")
    ),
    "it leaves while it is a member": lambda: members.may_leave(
        truth_of(), ServerId(1), listed(OLD)
    ),
    "it leaves after one word": lambda: members.may_leave(truth_of(said=1), S3, listed(OLD)),
    "it leaves by a list of nobody": lambda: members.may_leave(truth_of(), S3, listed(NEW)),
    "it leaves the founders": lambda: members.may_leave(Truth(), S3, listed(Zxid(0))),
    "a follower counts by a logged list": lambda: members.counts_as_its_role(
        S3, Role.FOLLOWER, is_changing=True
    ),
    "answered twice": lambda: asked_and_answered(DONE, times=2),
    "done and not said again": lambda: asked_and_answered(DONE, said=OLD),
    "done without a version": lambda: asked_and_answered(ReconfigResult(Code.OK)),
    "refused without a reason": lambda: asked_and_answered(ReconfigResult(Code.NO_AUTH)),
    "answered to nobody": lambda: Reconfigs(Counter()).answered(
        SimpleNamespace(),
        ReconfigAnswered(1, DONE),  # type: ignore[arg-type]
    ),
    "never answered": lambda: asked_and_answered(DONE, times=0).all_answered(S3),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_named(breaks: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=r"^Membership: "):
        breaks()


def test_kept_promises_pass() -> None:
    members.is_an_operators_step(truth_of(), NEW, step_to(listed(NEW, 4)))
    members.counts_as_its_role(S3, Role.LEADER, is_changing=True)
    members.counts_as_its_role(S3, Role.FOLLOWER, is_changing=False)
    members.may_leave(truth_of(), S3, listed(OLD))
    members.may_leave(truth_of(said=1), S3, listed(Zxid(OLD - 1)))
    asked_and_answered(DONE).all_answered(S3)
    asked_and_answered(ReconfigResult(Code.NO_AUTH, "why")).all_answered(S3)
