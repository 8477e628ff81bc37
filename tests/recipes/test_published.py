"""Publications: nobody ever sees a part of one, whoever dies when."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from raykeeper.client.core.outstanding import Query, WatchRemoval
from raykeeper.client.errors import (
    InvalidValueError,
    LostError,
    SessionExpiredError,
)
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.publication import TRANSACTION_OPS_MAX, PublishedVersion
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import BadArgumentsError, BadVersionError, NoAuthError, NoNodeError
from raykeeper.znodes.requests import Delete, SetAcls, SetData, WatchKind
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.server_memory import forget, watches

PATH = "/app/routes"
OLD = {"a": b"old", "b": b"old", "c": b"old"}
MANY = {f"n{number}": b"%d" % number for number in range(2 * TRANSACTION_OPS_MAX + 50)}
NEW = {"b": b"new", "d": b"new", **MANY}


def versions(member: Member) -> list[str]:
    return sorted(member.do(get_children(f"{PATH}/versions")))


def busy(member: Member) -> list[str]:
    names: list[str] = member.do(get_children(f"{PATH}/publishing"))
    return names


class Reader:
    """Who follows, and what it was told."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.told: list[PublishedVersion | None] = []
        self.errors: list[Exception] = []
        self.live = member.published(PATH).follow(self._changed, self.errors.append)

    def _changed(self, new: PublishedVersion | None, old: PublishedVersion | None) -> None:
        assert old == (self.told[-1] if self.told else None)
        self.told.append(new)

    def check(self, *allowed: dict[str, bytes]) -> None:
        """Whatever it was told, and finds, is one of these, and never goes back."""
        read = self.member.published(PATH).read()
        for edition in [*self.told, read, self.live.newest]:
            assert edition is not None
            assert edition.values in allowed
        numbers = [edition.version for edition in self.told if edition]
        assert numbers == sorted(set(numbers))
        assert self.errors == []


def before_each_ask(
    monkeypatch: pytest.MonkeyPatch, member: Member, act: Callable[[int], bool]
) -> None:
    """Call `act` with the number of each request of a member; whether it is made at all."""
    submit, numbers = member.submit, count(1)

    def asked(ask: Any, token: Any) -> None:
        if act(next(numbers)):
            submit(ask, token)

    monkeypatch.setattr(member, "submit", asked)


def freeze_at_its_end(monkeypatch: pytest.MonkeyPatch, member: Member) -> None:
    """Stop a publisher when it looks at `ready`: everything is written, and nothing published."""
    submit = member.submit

    def asked(ask: Any, token: Any) -> None:
        submit(ask, token)
        if type(ask) is Query:
            member.freeze()

    monkeypatch.setattr(member, "submit", asked)


def test_a_version_is_published_and_read(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = alice.published(PATH), bob.published(PATH)
    with pytest.raises(NoNodeError):
        ours.read()
    first = ours.publish(OLD)
    assert theirs.read() == PublishedVersion(first, OLD)
    second = theirs.publish({})
    assert second > first
    assert ours.read() == PublishedVersion(second, {})
    third = ours.publish(NEW)
    assert theirs.read() == PublishedVersion(third, NEW)
    assert (len(versions(alice)), busy(alice)) == (1, [])


def test_a_follower_sees_each_version_whole(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    reader = Reader(bob)
    assert (reader.told, reader.live.newest, reader.live.is_missing) == ([], None, True)
    for values in (OLD, NEW, {}):
        alice.published(PATH).publish(values)
    assert [edition and edition.values for edition in reader.told] == [OLD, NEW, {}]
    assert reader.live.newest == reader.told[-1]
    reader.live.close()
    alice.published(PATH).publish(OLD)
    assert len(reader.told) == 3
    assert watches(stage) == 0


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours, theirs = alice.published(PATH), bob.published(PATH)
    ours.publish(OLD)
    alice.asked.clear()
    ours.publish(OLD)
    assert dict(alice.asked) == {
        "Create": 1,
        "GetData": 1,
        "Multi": 2,
        "MultiRead": 1,
        "GetChildren": 1,
        "Delete": 4,
    }
    bob.asked.clear()
    theirs.read()
    assert dict(bob.asked) == {"GetData": 5, "GetChildren": 1}


def test_between_any_two_steps_of_a_publisher_readers_see_a_whole_version(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)
    steps: list[int] = []

    def look(number: int) -> bool:
        reader.check(OLD, NEW)
        steps.append(number)
        return True

    before_each_ask(monkeypatch, alice, look)
    alice.published(PATH).publish(NEW)
    reader.check(OLD, NEW)
    assert len(steps) > 10
    assert [edition and edition.values for edition in reader.told] == [OLD, NEW]


def test_between_any_two_steps_of_a_reader_others_may_publish(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    every = [{str(number): b"%d" % number, "x": b"%d" % number} for number in range(30)]
    left = iter(every)

    def publish(number: int) -> bool:
        stage.rest()
        values = next(left, None)
        if values is not None:
            alice.published(PATH).publish(values)
        return True

    before_each_ask(monkeypatch, bob, publish)
    reader = Reader(bob)
    monkeypatch.undo()
    reader.check(OLD, *every)
    assert next(left, None) is None
    assert reader.live.newest is not None
    assert reader.live.newest.values == every[-1]


def steps_of_a_publication() -> int:
    stage = RecipeStage()
    alice = stage.member()
    alice.published(PATH).publish(OLD)
    alice.asked.clear()
    alice.published(PATH).publish(NEW)
    return sum(alice.asked.values())


@pytest.mark.parametrize("is_taken", [True, False])
@pytest.mark.parametrize("step", range(1, steps_of_a_publication() + 1))
def test_a_publisher_may_die_at_any_step(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch, step: int, is_taken: bool
) -> None:
    alice, bob, carol = stage.member(session_timeout_ms=2_000), stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)

    def die(number: int) -> bool:
        if number == step:
            monkeypatch.setattr(alice, "_take", lambda: False)  # it is deaf
        return number < step + is_taken

    before_each_ask(monkeypatch, alice, die)
    publication = alice.begin(alice.published(PATH).publish, NEW)
    assert not publication.is_done
    reader.check(OLD, NEW)
    alice.die()
    reader.check(OLD, NEW)
    stage.pass_time(3_000)
    assert busy(bob) == []
    reader.check(OLD, NEW)
    last = {"e": b"last"}
    carol.published(PATH).publish(last)
    reader.check(OLD, NEW, last)
    assert reader.live.newest is not None
    assert reader.live.newest.values == last
    assert len(versions(bob)) == 1  # whatever was left behind is cleared away


@pytest.mark.parametrize("step", range(1, steps_of_a_publication() + 1))
def test_a_publisher_may_lose_its_link_at_any_step(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)
    outcome = Outcome()

    def lose(number: int) -> bool:
        if number == step:
            alice._is_cut = True
            host, alice._host = alice._host, None
            assert host is not None
            alice.core.link_failed("cut by the test", alice.now())
        return True

    before_each_ask(monkeypatch, alice, lose)
    outcome = alice.begin(alice.published(PATH).publish, NEW)
    assert not outcome.is_done
    reader.check(OLD, NEW)
    alice.mend()
    assert outcome.value > 0
    reader.check(OLD, NEW)
    assert reader.live.newest is not None
    assert reader.live.newest.values == NEW
    assert (len(versions(bob)), busy(bob)) == (1, [])


@pytest.mark.parametrize("step", range(1, steps_of_a_publication() + 1))
def test_a_publication_may_be_cancelled_at_any_step(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)
    outcome = Outcome()

    def freeze(number: int) -> bool:
        if number == step:
            alice.freeze()
        return True

    before_each_ask(monkeypatch, alice, freeze)
    outcome = alice.begin(alice.published(PATH).publish, NEW)
    outcome.run.cancel()
    alice.thaw()
    reader.check(OLD, NEW)
    assert (len(versions(bob)), busy(bob)) == (1, [])


def test_the_newer_of_two_publications_stays(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    alice.published(PATH).publish(OLD)
    reader = Reader(carol)
    taken: list[int] = []

    def cross(number: int) -> bool:
        stage.rest()
        if number == 3:
            taken.append(bob.published(PATH).publish(NEW))
            assert len(versions(carol)) == 2  # what is being written is not cleared away
        return True

    before_each_ask(monkeypatch, alice, cross)
    with pytest.raises(BadVersionError, match="newer version"):
        alice.published(PATH).publish({"x": b"never"})
    reader.check(OLD, NEW)
    assert carol.published(PATH).read() == PublishedVersion(taken[0], NEW)
    assert (len(versions(carol)), busy(carol)) == (1, [])


@pytest.mark.parametrize("what", ["marker", "version"])
def test_a_publication_whose_znodes_are_deleted_is_lost(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)

    def delete(number: int) -> bool:
        stage.rest()
        if what == "marker":
            for name in busy(bob):
                bob.ask(Delete(f"{PATH}/publishing/{name}", -1))
        elif len(names := versions(bob)) > 1:
            path = f"{PATH}/versions/{names[-1]}"
            for name in bob.do(get_children(path)):
                bob.ask(Delete(f"{path}/{name}", -1))
            bob.ask(Delete(path, -1))
        return True

    before_each_ask(monkeypatch, alice, delete)
    with pytest.raises(LostError, match="somebody deleted"):
        alice.published(PATH).publish(NEW)
    monkeypatch.undo()
    assert bob.published(PATH).read().values == OLD
    alice.published(PATH).publish(NEW)
    assert bob.published(PATH).read().values == NEW


def test_a_publisher_without_its_marker_does_not_take_an_equal_name(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    alice.published(PATH).publish(OLD)
    stage.pass_time(1_000)

    waits = []
    for member in (alice, bob):
        freeze_at_its_end(monkeypatch, member)
        waits.append(member.begin(member.published(PATH).publish, {"from": b"it"}))
        assert not waits[-1].is_done
        (name,) = busy(carol)
        assert name == "p-0000000000"
        if member is alice:
            carol.ask(Delete(f"{PATH}/publishing/{name}", -1))
            stage.pass_time(1_000)  # the container goes, and counts from 0 again
    alice.thaw()
    with pytest.raises(LostError):
        _ = waits[0].value
    assert len(busy(carol)) == 1
    monkeypatch.undo()
    bob.thaw()
    assert carol.published(PATH).read() == PublishedVersion(waits[1].value, {"from": b"it"})


def test_a_damaged_version_is_an_error_and_the_last_whole_one_stays(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    ours = alice.published(PATH)
    first = ours.publish(OLD)
    reader = Reader(bob)
    (name,) = versions(alice)
    alice.ask(Delete(f"{PATH}/versions/{name}/a", -1))
    with pytest.raises(InvalidValueError, match="2 values of 3"):
        ours.read()
    for junk in (b"", b"{}", b'{"version":"x"}'):
        alice.ask(SetData(f"{PATH}/ready", junk, -1))
        with pytest.raises(InvalidValueError, match="names no version"):
            ours.read()
    assert len(reader.errors) == 3
    assert reader.live.newest == PublishedVersion(first, OLD)
    assert isinstance(reader.live.last_error, InvalidValueError)
    ours.publish(NEW)
    assert [edition and edition.values for edition in reader.told] == [OLD, NEW]


def test_a_deleted_publication_is_reported(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)
    alice.ask(Delete(f"{PATH}/ready", -1))
    assert reader.told[1:] == [None]
    assert reader.live.is_missing
    alice.published(PATH).publish(NEW)
    assert reader.told[-1] == reader.live.newest == alice.published(PATH).read()


def test_readers_of_other_servers_see_whole_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = RecipeStage(3)
    alice, *others = (stage.member(server=server) for server in (1, 2, 3))
    alice.published(PATH).publish(OLD)
    readers = [Reader(member) for member in others]

    def look(number: int) -> bool:
        stage.rest()
        for reader in readers:
            reader.check(OLD, NEW)
        return True

    before_each_ask(monkeypatch, alice, look)
    alice.published(PATH).publish(NEW)
    monkeypatch.undo()
    for reader in readers:
        assert [edition and edition.values for edition in reader.told] == [OLD, NEW]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_reader_without_a_link_catches_up(stage: RecipeStage, remembers: bool) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)
    bob.cut()
    for number in range(3):
        alice.published(PATH).publish({"n": b"%d" % number})
    if not remembers:
        forget(stage)
    bob.mend()
    assert [edition and edition.values for edition in reader.told] == [OLD, {"n": b"2"}]


def test_the_end_of_the_session_ends_a_publication_and_keeps_the_last_value(
    stage: RecipeStage,
) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    alice.published(PATH).publish(OLD)
    reader = Reader(bob)
    bob.cut()
    publication = bob.begin(bob.published(PATH).publish, NEW)
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = publication.value
    assert reader.live.newest is not None
    assert (reader.live.newest.values, reader.live.is_current) == (OLD, False)
    assert alice.published(PATH).read().values == OLD


def test_a_cancelled_follow_leaves_no_watch(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    bob.cut()
    wait = bob.begin(bob.published(PATH).follow)
    wait.run.cancel()
    bob.mend()
    assert watches(stage) == 0
    reader = Reader(bob)
    bob.ask(WatchRemoval(f"{PATH}/ready", WatchKind.ANY, None))
    alice.published(PATH).publish(NEW)
    reader.check(OLD, NEW)
    assert len(reader.told) == 2


def test_long_values_are_written_in_several_transactions(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    values = {str(number): bytes([number]) * 600_000 for number in range(5)}
    alice.published(PATH).publish(values)
    assert alice.asked["Multi"] >= 6
    assert bob.published(PATH).read().values == values


def test_a_reader_without_read_permission_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.published(PATH).publish(OLD)
    (name,) = versions(alice)
    for path in (f"{PATH}/versions/{name}/b", f"{PATH}/ready"):
        alice.ask(SetAcls(path, [Acl(Permission.WRITE, "world", "anyone")], -1))
        ours = bob.published(PATH)
        for operation in (ours.read, ours.follow):
            with pytest.raises(NoAuthError):
                operation()
        assert watches(stage) == 0


def test_a_read_that_always_conflicts_gives_up(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = stage.member(), stage.member()
    monkeypatch.setattr("raykeeper.client.recipes.publication.ATTEMPTS_MAX", 5)
    alice.published(PATH).publish(OLD)

    def publish(number: int) -> bool:
        stage.rest()
        alice.published(PATH).publish({"n": b"%d" % number})
        return True

    before_each_ask(monkeypatch, bob, publish)
    with pytest.raises(BadVersionError, match="in between"):
        bob.published(PATH).read()


@pytest.mark.parametrize(
    "values",
    [None, 7, [("a", b"")], {"": b""}, {"a/b": b""}, {".": b""}, {7: b""}, {"a": "text"}],
)
def test_bad_arguments_are_refused(stage: RecipeStage, values: Any) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError):
        alice.published(PATH).publish(values)
    with pytest.raises(BadArgumentsError):
        alice.published("/")
    assert dict(alice.asked) == {}
