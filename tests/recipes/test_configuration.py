"""Configurations: who changes them knows what it replaces, who follows them sees every version."""

from typing import Any

import msgspec
import pytest

from raykeeper.client.core.outstanding import Query, WatchRemoval
from raykeeper.client.errors import InvalidValueError, SessionExpiredError
from raykeeper.client.recipes.compare_and_set import ATTEMPTS_MAX
from raykeeper.client.recipes.configuration import NO_VERSION, Configuration, LiveConfiguration
from raykeeper.client.recipes.primitives import create
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import (
    BadArgumentsError,
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from raykeeper.znodes.requests import (
    Create,
    Delete,
    GetData,
    Multi,
    SetAcls,
    SetData,
    WatchKind,
)
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.server_memory import forget, watches

PATH = "/app/limits"
CREATION = Create(PATH, b"{}", 0, None, 0)


class Limits(msgspec.Struct):
    """What the tests configure."""

    rate: int = 100
    name: str = ""

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("a rate is positive")
        if self.rate == 131313:
            raise LookupError("no luck")


def limits_of(member: Member, default: Limits | None = None) -> Configuration[Blocking, Limits]:
    return member.configuration(PATH, Limits, default)


def faster(now: Limits) -> Limits:
    return msgspec.structs.replace(now, rate=now.rate + 1)


class Told:
    """What callbacks were told."""

    def __init__(self) -> None:
        self.rates: list[tuple[int | None, int | None]] = []
        self.errors: list[Exception] = []

    def changed(self, new: Any, old: Any) -> None:
        self.rates.append((new and new.rate, old and old.rate))

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def follow(self, member: Member) -> LiveConfiguration[Blocking, Limits]:
        return limits_of(member).follow(self.changed, self.failed)

    @property
    def news(self) -> list[int | None]:
        assert [old for _, old in self.rates] == [None, *(new for new, _ in self.rates)][:-1]
        return [new for new, _ in self.rates]


def test_a_value_is_written_and_read_with_its_version(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = limits_of(alice), limits_of(bob)
    assert ours.set(Limits(1)).version == 0
    assert theirs.get() == (Limits(1), 0)
    assert theirs.set(Limits(2), version=0) == (Limits(2), 1)
    with pytest.raises(BadVersionError):
        ours.set(Limits(3), version=0)
    value, version = ours.get()
    assert (value.rate, version) == (2, 1)
    assert alice.ask(Query(GetData, PATH))[0] == b'{"rate":2,"name":""}'


def test_only_one_client_creates_the_value(stage: RecipeStage) -> None:
    ours, theirs = limits_of(stage.member()), limits_of(stage.member())
    with pytest.raises(NoNodeError):
        ours.get()
    with pytest.raises(NoNodeError):
        ours.set(Limits(), version=0)
    with pytest.raises(NoNodeError):
        ours.update(faster)
    assert ours.set(Limits(1), version=NO_VERSION) == (Limits(1), 0)
    with pytest.raises(BadVersionError, match="it exists"):
        theirs.set(Limits(2), version=NO_VERSION)
    assert theirs.get().value.rate == 1


def test_a_default_replaces_a_missing_znode(stage: RecipeStage) -> None:
    alice = stage.member()
    ours = limits_of(alice, Limits(7))
    assert ours.get() == (Limits(7), NO_VERSION)
    live = ours.follow()
    assert (live.value, live.version, live.is_missing) == (Limits(7), NO_VERSION, True)
    assert ours.update(faster) == (Limits(8), 0)
    assert (live.value, live.version, live.is_missing) == (Limits(8), 0, False)


def test_an_update_is_computed_from_the_value_it_replaces(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(10)]
    limits_of(members[0]).set(Limits(0))
    theirs = limits_of(members[1])
    calls: list[int] = []

    def crossed(now: Limits) -> Limits:
        calls.append(now.rate)
        if len(calls) < 4:
            theirs.update(faster)
        return faster(now)

    assert limits_of(members[0]).update(crossed).value.rate == 4
    assert calls == [0, 1, 2, 3]
    for member in members:
        limits_of(member).update(faster)
    assert theirs.get() == (Limits(14), 14)


def test_an_update_that_fails_changes_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = limits_of(alice), limits_of(bob)
    ours.set(Limits(1))
    with pytest.raises(ZeroDivisionError):
        ours.update(lambda now: Limits(1 // 0))
    with pytest.raises(BadArgumentsError, match="must be a Limits"):
        ours.update(lambda now: {"rate": 1})  # type: ignore[arg-type, return-value]
    with pytest.raises(BadVersionError, match=f"{ATTEMPTS_MAX} times"):
        ours.update(lambda now: (theirs.update(faster), now)[1])
    assert ours.get() == (Limits(1 + ATTEMPTS_MAX), ATTEMPTS_MAX)


def test_a_recreated_znode_is_not_taken_for_the_one_that_was_read(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = limits_of(alice), limits_of(bob)
    ours.set(Limits(1))
    calls: list[int] = []

    def crossed(now: Limits) -> Limits:
        calls.append(now.rate)
        if len(calls) == 1:
            bob.ask(Delete(PATH, -1))
            theirs.set(Limits(50))  # at version 0 again
        return faster(now)

    assert ours.update(crossed).value.rate == 51
    assert calls == [1, 50]


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours = limits_of(alice)
    ours.set(Limits())
    for operation, cost in (
        (ours.get, {"GetData": 1}),
        (lambda: ours.set(Limits(1)), {"SetData": 1}),
        (lambda: ours.update(faster), {"GetData": 1, "Multi": 1}),
        (ours.follow, {"WatchAddition": 1, "GetData": 1}),
        (lambda: limits_of(bob).set(Limits(5)), {}),  # followed at no cost
    ):
        alice.asked.clear()
        operation()
        assert dict(alice.asked) == cost
    assert alice.events == 1


def test_a_follower_sees_every_version_in_order(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), limits_of(bob)
    theirs.set(Limits(1))
    live = told.follow(alice)
    assert (told.rates, live.value, live.version) == ([(1, None)], Limits(1), 0)
    for _ in range(5):
        theirs.update(faster)
    assert told.news == [1, 2, 3, 4, 5, 6]
    assert (live.value, live.version, live.last_error) == (Limits(6), 5, None)
    assert live.newest == (Limits(6), 5)


def test_a_follower_reports_a_deletion_and_goes_on_after_a_creation(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), limits_of(bob)
    theirs.set(Limits(1))
    live = told.follow(alice)
    bob.ask(Delete(PATH, -1))
    assert (told.news, live.value, live.is_missing) == ([1, None], Limits(1), True)
    stage.pass_time(1_000)  # the container above it goes too
    theirs.set(Limits(2))
    assert (told.news, live.value, live.is_missing) == ([1, None, 2], Limits(2), False)


def test_one_transaction_is_one_change(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    told.follow(alice)
    made_anew = Multi([], [Delete(PATH, -1)], [])
    made_anew.then.extend([msgspec.structs.replace(CREATION), SetData(PATH, b'{"rate":3}', -1)])
    bob.ask(made_anew)
    assert told.news == [1, 3]


def test_an_invalid_value_does_not_replace_the_last_valid_one(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), limits_of(bob)
    theirs.set(Limits(1))
    live = told.follow(alice)
    for bad in (b"", b"{", b'{"rate":"x"}', b'{"rate":-1}', b'{"rate":131313}'):
        bob.ask(SetData(PATH, bad, -1))
        assert isinstance(live.last_error, InvalidValueError)
        assert (live.value, live.version) == (Limits(1), 0)
        with pytest.raises(InvalidValueError, match="no valid Limits"):
            limits_of(alice).get()
        with pytest.raises(InvalidValueError):
            limits_of(alice).update(faster)
    assert len(told.errors) == 5
    theirs.set(Limits(2))
    assert (told.news, live.value, live.last_error) == ([1, 2], Limits(2), None)


def test_a_follower_may_start_at_an_invalid_value(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    bob.do(create(PATH, b"?"))
    live = told.follow(alice)
    assert (live.value, live.version, live.is_missing) == (None, NO_VERSION, True)
    assert len(told.errors) == 1
    limits_of(bob).set(Limits(2))
    assert (told.news, live.value) == ([2], Limits(2))


@pytest.mark.parametrize("remembers", [True, False])
def test_a_follower_without_a_connection_keeps_the_last_value(
    stage: RecipeStage, remembers: bool
) -> None:
    alice, bob = stage.member(), stage.member()
    told, theirs = Told(), limits_of(bob)
    theirs.set(Limits(1))
    live = told.follow(alice)
    alice.cut()
    for _ in range(3):
        theirs.update(faster)
    assert (live.value, live.is_current) == (Limits(1), True)
    if not remembers:
        forget(stage)
    alice.mend()
    assert (live.value, live.version) == (Limits(4), 3)
    assert told.news == [1, 4]
    theirs.update(faster)
    assert told.news == [1, 4, 5]


def test_a_known_value_that_is_read_again_is_not_reported_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    told.follow(alice)
    alice.cut()
    forget(stage)
    alice.mend()
    assert told.news == [1]
    bob.ask(Delete(PATH, -1))
    alice.cut()
    forget(stage)
    alice.mend()
    assert told.news == [1, None]


def test_a_value_too_large_for_an_event_is_read(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    live = told.follow(alice)
    bob.do(create("/app/big"))
    long = msgspec.json.encode(Limits(2, "x" * 700_000))
    bob.ask(Multi([], [SetData("/app/big", b"y" * 700_000, -1), SetData(PATH, long, -1)], []))
    assert (told.news, live.version) == ([1, 2], 1)


def test_a_follower_goes_on_after_all_watches_were_removed(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    live = told.follow(alice)
    alice.ask(WatchRemoval(PATH, WatchKind.ANY, None))
    limits_of(bob).set(Limits(2))
    assert (told.news, live.value) == ([1, 2], Limits(2))
    assert watches(stage) == 1


def test_a_closed_follower_reports_nothing_and_watches_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    with told.follow(alice) as live:
        assert (live.is_closed, live.is_current) == (False, True)
    assert (live.is_closed, live.is_current) == (True, False)
    limits_of(bob).set(Limits(2))
    assert (told.news, live.value) == ([1], Limits(1))
    assert watches(stage) == 0
    live.close()  # again: nothing


def test_a_callback_may_close_its_follower(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    lives: list[LiveConfiguration[Blocking, Limits]] = []
    seen: list[int | None] = []

    def once(new: Any, old: Any) -> None:
        seen.append(new.rate)
        alice.begin(lives[0].close)

    lives.append(limits_of(alice).follow(once))
    limits_of(bob).set(Limits(1))
    limits_of(bob).set(Limits(2))
    assert seen == [1]
    assert watches(stage) == 0


def test_the_end_of_the_session_leaves_the_last_value(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    live = told.follow(alice)
    alice.cut()
    stage.pass_time(3_000)
    assert (live.value, live.is_current, told.errors) == (Limits(1), False, [])
    with pytest.raises(SessionExpiredError):
        limits_of(alice).follow()
    live.close()


def test_a_cancelled_follow_leaves_no_watch(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    limits_of(bob).set(Limits(1))
    alice.cut()
    wait = alice.begin(limits_of(alice).follow, told.changed)
    wait.run.cancel()
    alice.mend()
    assert watches(stage) == 0
    limits_of(bob).set(Limits(2))
    assert told.news == []


def test_a_reader_without_read_permission_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = Told()
    bob.do(create(PATH, b"?"))
    bob.ask(SetAcls(PATH, [Acl(Permission.WRITE, "world", "anyone")], -1))
    with pytest.raises(NoAuthError):
        told.follow(alice)
    assert watches(stage) == 0
    bob.ask(Delete(PATH, -1))
    live = told.follow(alice)
    alice.cut()
    bob.do(create(PATH, b"?"))
    bob.ask(SetAcls(PATH, [Acl(Permission.WRITE, "world", "anyone")], -1))
    forget(stage)
    alice.mend()
    assert isinstance(live.last_error, NoAuthError)
    assert (told.errors, live.is_current) == ([live.last_error], False)
    assert watches(stage) == 0


def test_a_value_may_be_stored_as_msgpack(stage: RecipeStage) -> None:
    alice = stage.member()
    config = alice.configuration(PATH, Limits, form="msgpack")
    config.set(Limits(5))
    assert config.get().value == Limits(5)
    assert msgspec.msgpack.decode(alice.ask(Query(GetData, PATH))[0], type=Limits) == Limits(5)


@pytest.mark.parametrize("value", [None, {"rate": 1}, Limits(1, 5), Limits(1, "\ud800")])  # type: ignore[arg-type]
def test_a_value_that_cannot_be_decoded_is_not_written(stage: RecipeStage, value: Limits) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError):
        limits_of(alice).set(value)
    if value is not None:
        with pytest.raises(BadArgumentsError):
            limits_of(alice, value)
    with pytest.raises(NoNodeError):
        alice.ask(Delete(PATH, -1))


def test_a_value_that_reading_would_change_is_not_written(stage: RecipeStage) -> None:
    alice = stage.member()
    one, two = alice.configuration(PATH, dict), alice.configurations({PATH: dict, "/b": dict})
    one.set({"a": 1})
    for value in ({"a": (1,)}, {1: "a"}, {"a": float("nan")}, {"a": {1}}):
        with pytest.raises(BadArgumentsError, match="JSON would change the value: "):
            alice.configuration(PATH, dict, default=value)
        asked = alice.asked.total()
        for act in (lambda value: one.set(value), lambda value: two.set({PATH: value})):
            with pytest.raises(BadArgumentsError, match="a `kind` that says what it is"):
                act(value)
        assert alice.asked.total() == asked
        with pytest.raises(BadArgumentsError, match="JSON would change"):
            one.update(lambda now, value=value: value)  # type: ignore[misc]
        assert one.get() == ({"a": 1}, 0)
    typed = alice.configuration("/typed", dict[int, tuple[int, ...]])
    typed.set({1: (2, 3)})
    assert typed.get().value == {1: (2, 3)}


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    for kind in (Limits(), 7, Limits | Told, Limits | list[int] | tuple[int, ...]):
        with pytest.raises(BadArgumentsError, match="kind must be a type for msgspec"):
            alice.configuration(PATH, kind)  # type: ignore[arg-type]
    for kind in (None, object, Limits | None, Any):
        with pytest.raises(BadArgumentsError, match="None stands for a missing value"):
            alice.configuration(PATH, kind)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="format"):
        alice.configuration(PATH, Limits, form="xml")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError):
        alice.configuration("app", Limits)
    for version in (-2, "1", 1 << 31):
        with pytest.raises(BadArgumentsError, match="version"):
            limits_of(alice).set(Limits(), version=version)  # type: ignore[arg-type]


def test_a_set_that_always_conflicts_gives_up(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = stage.member(), stage.member()
    submit = alice.submit

    def crossed(ask: object, token: object) -> None:
        try:
            bob.do(create(PATH, b"{}"))
        except NodeExistsError:
            bob.ask(Delete(PATH, -1))
        submit(ask, token)  # type: ignore[arg-type]

    limits_of(bob).set(Limits(1))
    monkeypatch.setattr(alice, "submit", crossed)
    with pytest.raises(BadVersionError):
        limits_of(alice).set(Limits(2))
