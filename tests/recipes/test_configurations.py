"""Configurations that belong together: seen at one moment, changed as one."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import msgspec
import pytest

from raykeeper.client.core.outstanding import WatchRemoval
from raykeeper.client.errors import InvalidValueError, SessionExpiredError
from raykeeper.client.recipes.compare_and_set import ATTEMPTS_MAX
from raykeeper.client.recipes.configuration import NO_VERSION
from raykeeper.client.recipes.multi_configuration import PATHS_MAX, Configurations
from raykeeper.client.recipes.primitives import create
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import (
    BadArgumentsError,
    BadVersionError,
    NoAuthError,
    NoNodeError,
)
from raykeeper.znodes.requests import Delete, Multi, SetAcls, SetData, WatchKind
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.server_memory import forget, watches

FROM, TO = "/accounts/a/main", "/accounts/b/main"


class Account(msgspec.Struct):
    """What the tests configure."""

    amount: int


def accounts_of(member: Member) -> Configurations[Blocking]:
    return member.configurations({FROM: Account, TO: Account})


def amounts(versions: Mapping[str, Any] | None) -> tuple[int, int] | None:
    return versions and (versions[FROM].value.amount, versions[TO].value.amount)  # type: ignore[return-value]


def bare_amounts(values: Mapping[str, Account] | None) -> tuple[int, int] | None:
    return None if values is None else (values[FROM].amount, values[TO].amount)


def begun(member: Member) -> Configurations[Blocking]:
    accounts = accounts_of(member)
    accounts.set({FROM: Account(100), TO: Account(0)})
    return accounts


def move(now: dict[str, Any]) -> dict[str, Any]:
    return {FROM: Account(now[FROM].amount - 1), TO: Account(now[TO].amount + 1)}


class Told:
    """What callbacks were told."""

    def __init__(self) -> None:
        self.amounts: list[tuple[int, int] | None] = []
        self.errors: list[Exception] = []

    def changed(self, new: Any, old: Any) -> None:
        assert bare_amounts(old) == (self.amounts[-1] if self.amounts else None)
        self.amounts.append(bare_amounts(new))

    def follow(self, member: Member) -> Any:
        return accounts_of(member).follow(self.changed, self.errors.append)


def test_several_values_are_written_and_read_together(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = accounts_of(alice), accounts_of(bob)
    with pytest.raises(NoNodeError):
        ours.get()
    written = ours.set({FROM: Account(1), TO: Account(2)})
    assert written == theirs.get() == {FROM: (Account(1), 0), TO: (Account(2), 0)}
    assert theirs.set({TO: Account(3)}) == {TO: (Account(3), 1)}
    assert ours.get() == {FROM: (Account(1), 0), TO: (Account(3), 1)}


def test_one_wrong_version_prevents_every_write(stage: RecipeStage) -> None:
    alice = stage.member()
    ours = accounts_of(alice)
    ours.set({FROM: Account(1)}, versions={FROM: NO_VERSION, TO: NO_VERSION})
    ours.set({TO: Account(2)}, versions={FROM: 0, TO: NO_VERSION})
    for versions in ({FROM: 1}, {FROM: 0, TO: 1}, {TO: NO_VERSION}, {FROM: NO_VERSION}):
        with pytest.raises(BadVersionError):
            ours.set({FROM: Account(7), TO: Account(8)}, versions=versions)
    assert amounts(ours.get()) == (1, 2)
    ours.set({FROM: Account(3), TO: Account(4)}, versions={FROM: 0, TO: 0})
    assert amounts(ours.get()) == (3, 4)


def test_an_update_is_computed_from_the_values_it_replaces(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = begun(alice), accounts_of(bob)
    calls: list[tuple[int, int]] = []

    def crossed(now: dict[str, Any]) -> dict[str, Any]:
        calls.append((now[FROM].amount, now[TO].amount))
        if len(calls) < 3:
            theirs.update(move)
        return {TO: Account(now[TO].amount + 50)}

    assert ours.update(crossed) == {FROM: (Account(98), 2), TO: (Account(52), 3)}
    assert calls == [(100, 0), (99, 1), (98, 2)]


def test_an_update_also_checks_values_that_it_only_reads(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours = begun(alice)
    calls: list[int] = []

    def crossed(now: dict[str, Any]) -> dict[str, Any]:
        calls.append(now[FROM].amount)
        if len(calls) == 1:
            bob.ask(Delete(FROM, -1))
            accounts_of(bob).set({FROM: Account(5)})  # at version 0 again
        return {TO: Account(now[FROM].amount)}

    assert amounts(ours.update(crossed)) == (5, 5)
    assert calls == [100, 5]


def test_an_update_that_fails_changes_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    with pytest.raises(NoNodeError):
        accounts_of(alice).update(move)
    ours, theirs = begun(alice), accounts_of(bob)
    with pytest.raises(ZeroDivisionError):
        ours.update(lambda now: {FROM: Account(1 // 0)})
    with pytest.raises(BadArgumentsError, match="none of these"):
        ours.update(lambda now: {"/other": Account(1)})
    with pytest.raises(BadArgumentsError, match="must be a Account"):
        ours.update(lambda now: {FROM: 1})
    with pytest.raises(BadArgumentsError, match="by path"):
        ours.update(lambda now: None)  # type: ignore[arg-type, return-value]
    alice.asked.clear()
    assert amounts(ours.update(lambda now: {})) == (100, 0)
    assert dict(alice.asked) == {"MultiRead": 1}
    with pytest.raises(BadVersionError, match=f"{ATTEMPTS_MAX} times"):
        ours.update(lambda now: (theirs.update(move), now)[1])
    assert amounts(ours.get()) == (100 - ATTEMPTS_MAX, ATTEMPTS_MAX)


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice = stage.member()
    ours = begun(alice)
    for operation, cost in (
        (ours.get, {"MultiRead": 1}),
        (lambda: ours.set({FROM: Account(1)}), {"MultiRead": 1, "Multi": 1}),
        (lambda: ours.update(move), {"MultiRead": 1, "Multi": 1}),
        (ours.follow, {"WatchAddition": 2, "MultiRead": 1}),
        (lambda: begun(stage.member()), {"MultiRead": 1}),  # one for each change
    ):
        alice.asked.clear()
        operation()
        assert dict(alice.asked) == cost


def test_a_follower_never_sees_a_part_of_a_change(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), begun(bob)
    live = told.follow(alice)
    for _ in range(5):
        theirs.update(move)
    assert told.amounts == [(100 - count, count) for count in range(6)]
    assert amounts(live.newest) == (95, 5)
    assert (bare_amounts(live.values), live.versions) == ((95, 5), {FROM: 5, TO: 5})
    bob.ask(Delete(TO, -1))
    assert (told.amounts[-1], live.is_missing, amounts(live.newest)) == (None, True, (95, 5))
    theirs.set({TO: Account(6)})
    assert (told.amounts[-1], live.is_missing) == ((95, 6), False)
    live.close()
    theirs.update(move)
    assert told.amounts[-1] == (95, 6)
    assert watches(stage) == 0


def test_an_invalid_value_does_not_replace_the_last_valid_one(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), begun(bob)
    live = told.follow(alice)
    bob.ask(SetData(TO, b"?", -1))
    assert isinstance(live.last_error, InvalidValueError)
    assert (told.errors, amounts(live.newest)) == ([live.last_error], (100, 0))
    for operation in (theirs.get, lambda: theirs.update(move)):
        with pytest.raises(InvalidValueError):
            operation()
    theirs.set({TO: Account(1)})
    assert told.amounts == [(100, 0), (100, 1)]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_follower_without_a_link_catches_up(stage: RecipeStage, remembers: bool) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), begun(bob)
    told.follow(alice)
    alice.cut()
    for _ in range(3):
        theirs.update(move)
    if not remembers:
        forget(stage)
    alice.mend()
    assert told.amounts == [(100, 0), (97, 3)]
    alice.ask(WatchRemoval(FROM, WatchKind.ANY, None))
    theirs.update(move)
    assert told.amounts[-1] == (96, 4)


def test_a_cancelled_follow_leaves_no_watch(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    begun(bob)
    alice.cut()
    wait = alice.begin(accounts_of(alice).follow, told.changed)
    wait.run.cancel()
    alice.mend()
    assert (watches(stage), told.amounts) == (0, [])


def test_the_end_of_the_session_leaves_the_values(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    told = Told()
    begun(bob)
    live = told.follow(alice)
    alice.cut()
    stage.pass_time(3_000)
    assert (amounts(live.newest), live.is_current, told.errors) == ((100, 0), False, [])
    for operation in (accounts_of(alice).get, accounts_of(alice).follow):
        with pytest.raises(SessionExpiredError):
            operation()


def test_a_reader_without_read_permission_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    theirs = begun(bob)
    live = told.follow(alice)
    bob.do(create("/accounts/c"))
    bob.ask(SetAcls(TO, [Acl(Permission.WRITE, "world", "anyone")], -1))
    theirs_too = bob.configurations({FROM: Account})
    theirs_too.set({FROM: Account(1)})
    assert isinstance(live.last_error, NoAuthError)
    assert (told.errors, live.is_current) == ([live.last_error], False)
    assert watches(stage) == 0
    for operation in (theirs.get, theirs.follow, lambda: theirs.update(move)):
        with pytest.raises(NoAuthError):
            operation()
    assert watches(stage) == 0


def test_a_set_that_always_conflicts_gives_up(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = stage.member(), stage.member()
    begun(bob)
    submit = alice.submit

    toggles = count()

    def crossed(ask: Any, token: Any) -> None:
        if type(ask) is Multi:
            is_there = next(toggles) % 2 == 0
            bob.ask(Delete(TO, -1)) if is_there else accounts_of(bob).set({TO: Account(0)})
        submit(ask, token)

    monkeypatch.setattr(alice, "submit", crossed)
    with pytest.raises(BadVersionError, match=f"{ATTEMPTS_MAX} times"):
        accounts_of(alice).set({TO: Account(9)})


@pytest.mark.parametrize(
    "kinds", [None, {}, [FROM], {FROM: int | None}, {"x": Account}, {7: Account}]
)
def test_bad_types_are_refused(stage: RecipeStage, kinds: Any) -> None:
    with pytest.raises(BadArgumentsError):
        stage.member().configurations(kinds)


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError):
        alice.configurations({f"/{number}": Account for number in range(PATHS_MAX + 1)})
    ours = begun(alice)
    for values in ({}, None, 7, {"/x": Account(1)}, {7: Account(1)}, {FROM: 1}):
        with pytest.raises(BadArgumentsError):
            ours.set(values)  # type: ignore[arg-type]
    for versions in ({"/x": 1}, {FROM: "1"}, {FROM: -2}, 7):
        with pytest.raises(BadArgumentsError):
            ours.set({FROM: Account(1)}, versions=versions)  # type: ignore[arg-type]
    assert amounts(ours.get()) == (100, 0)


def test_the_largest_allowed_number_of_paths_works(stage: RecipeStage) -> None:
    alice = stage.member()
    many = alice.configurations({f"/many/{number}": Account for number in range(PATHS_MAX)})
    many.set({path: Account(1) for path in many.paths})
    many.update(lambda now: {path: Account(value.amount + 1) for path, value in now.items()})
    assert {each.value.amount for each in many.get().values()} == {2}
