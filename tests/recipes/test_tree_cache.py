"""Caches: always what the tree is, whatever happens to it and to the link."""

from itertools import islice
from typing import Any

import pytest

from raykeeper.client.core.outstanding import Query, WatchRemoval
from raykeeper.client.errors import (
    CacheFullError,
    NoAuthError,
    RecipeError,
    SessionExpiredError,
)
from raykeeper.client.recipes.primitives import create
from raykeeper.znodes.acl import Acl, Permission
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
from tests.recipes.cache_watcher import ROOT, Watcher, make, truth
from tests.recipes.server_memory import forget, watches


@pytest.fixture
def pair(stage: RecipeStage) -> tuple[Member, Member]:
    """Who caches and who changes."""
    return stage.member(), stage.member()


def test_the_cache_shows_the_tree_and_its_changes(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b", "/apple")
    watcher = Watcher(alice)
    with watcher.cache as cache:
        assert watcher.take() == [("added", "/app"), ("added", "/app/a"), ("added", "/app/a/b")]
        assert watcher.shown == truth(stage)
        make(bob, "/app/c", "/app/c/d")
        bob.ask(SetData("/app/c", b"new", -1))
        bob.ask(Delete("/app/a/b", -1))
        assert watcher.take() == [
            ("added", "/app/c"),
            ("added", "/app/c/d"),
            ("changed", "/app/c"),
            ("removed", "/app/a/b"),
        ]
        changed = watcher.told[-2]
        assert changed.old is not None
        assert changed.new is not None
        assert (changed.old.value, changed.new.value) == (b"/app/c", b"new")
        found = cache.get("/app/c")
        assert found is not None
        assert (found.value, found.stat.version) == (b"new", 1)
        assert cache.get("/apple") is None
        assert cache.children("/app") == ["a", "c"]
        assert cache.children("/app/none") == []
        assert watcher.shown == truth(stage)


def test_it_sends_the_documented_number_of_requests(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app", *(f"/app/{number}" for number in range(50)), "/app/7/x")
    alice.asked.clear()
    cache = Watcher(alice).cache.start()
    assert dict(alice.asked) == {"WatchAddition": 1, "GetData": 52, "GetChildren": 2}
    alice.asked.clear()
    make(bob, "/app/7/y")
    bob.ask(SetData("/app/7", b"1", -1))
    assert "/app/7/y" in cache
    assert dict(alice.asked) == {}
    cache.close()
    assert dict(alice.asked) == {"WatchRemoval": 1}


def test_the_root_may_be_missing_and_deleted_and_created(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    watcher = Watcher(alice)
    watcher.cache.start()
    assert (len(watcher.cache), watcher.told) == (0, [])
    make(bob, "/app", "/app/a")
    bob.ask(Delete("/app/a", -1))
    bob.ask(Delete("/app", -1))
    make(bob, "/app")
    assert [kind for kind, _ in watcher.take()] == ["added"] * 2 + ["removed"] * 2 + ["added"]
    assert watcher.shown == truth(stage)


def test_a_client_finds_its_own_writes(stage: RecipeStage) -> None:
    alice = stage.member()
    make(alice, "/app")
    cache = alice.tree_cache(ROOT).start()
    seen: list[object] = []
    outcome = alice.begin(lambda: alice._run_flow(create("/app/a", b"1"), "create"))
    outcome_value = outcome.value
    seen.append(cache.get("/app/a"))
    assert outcome_value[0] == "/app/a"
    assert seen != [None]


def test_a_transaction_is_one_step(stage: RecipeStage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b")
    sizes: list[int] = []
    cache = alice.tree_cache(ROOT, lambda change: sizes.append(len(cache)))
    cache.start()
    sizes.clear()
    ops: list[Any] = [Create(f"/app/{name}", b"", 0, None, 0) for name in "xyz"]
    bob.ask(Multi([], ops, []))
    assert sizes == [6, 6, 6]
    watcher = Watcher(alice)
    watcher.cache.start()
    watcher.take()
    again: list[Any] = [Delete("/app/a/b", -1), Delete("/app/a", -1)]
    again += [Create("/app/a", b"1", 0, None, 0), Create("/app/a/b", b"2", 0, None, 0)]
    bob.ask(Multi([], [*again, SetData("/app/a", b"3", -1)], []))
    assert watcher.take() == [
        ("removed", "/app/a/b"),
        ("removed", "/app/a"),
        ("added", "/app/a/b"),
        ("added", "/app/a"),
    ]
    assert watcher.shown == truth(stage)


def test_a_value_too_large_for_an_event_is_read(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/b", "/app/c")
    watcher = Watcher(alice)
    watcher.cache.start()
    watcher.take()
    long = b"x" * 700_000
    bob.ask(Multi([], [SetData("/app/a", long, -1), SetData("/app/b", long, -1)], []))
    assert watcher.take() == [("changed", "/app/a"), ("changed", "/app/b")]
    ops: list[Any] = [SetData("/app/c", long, -1), SetData("/app/b", long, -1)]
    bob.ask(Multi([], [*ops, Delete("/app/b", -1), Create("/app/d", long, 0)], []))
    assert watcher.take() == [
        ("removed", "/app/b"),
        ("changed", "/app/c"),
        ("added", "/app/d"),
    ]
    assert watcher.shown == truth(stage)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_cache_without_a_connection_stays_and_catches_up(
    stage: RecipeStage, pair: tuple[Member, Member], remembers: bool
) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b", "/app/c")
    watcher = Watcher(alice)
    watcher.cache.start()
    before = watcher.shown
    alice.cut()
    bob.ask(Delete("/app/a/b", -1))
    make(bob, "/app/d")
    for value in (b"1", b"2"):
        bob.ask(SetData("/app/c", value, -1))
    bob.ask(Delete("/app/a", -1))
    make(bob, "/app/a")
    assert watcher.shown == before
    assert watcher.cache.is_current
    if not remembers:
        forget(stage)
    alice.mend()
    assert watcher.shown == truth(stage)
    make(bob, "/app/e")
    assert watcher.shown == truth(stage)


def test_changes_during_the_load_are_not_missed(
    stage: RecipeStage, pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b", "/app/c", "/app/d", "/app/d/e")
    steps = iter(
        [
            SetData("/app/c", b"1", -1),
            Delete("/app/a/b", -1),
            Create("/app/f", b"", 0),
            Delete("/app/d/e", -1),
            Delete("/app/d", -1),
            Create("/app/d", b"again", 0),
            Create("/app/a/b", b"again", 0),
            SetData("/app/a/b", b"more", -1),
            SetData("/app", b"2", -1),
        ]
    )
    submit = alice.submit

    def crossed(ask: Any, token: Any) -> None:
        submit(ask, token)
        for step in islice(steps, 2):
            bob.ask(step)

    monkeypatch.setattr(alice, "submit", crossed)
    watcher = Watcher(alice)
    watcher.cache.start()
    assert next(steps, None) is None
    assert watcher.shown == truth(stage)


def test_a_cache_goes_on_after_all_watches_were_removed(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app")
    watcher = Watcher(alice)
    watcher.cache.start()
    alice.ask(WatchRemoval(ROOT, WatchKind.ANY, None))
    make(bob, "/app/a")
    assert watcher.shown == truth(stage)
    assert watches(stage) == 1


def test_a_closed_cache_reports_nothing_and_watches_nothing(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app")
    watcher = Watcher(alice)
    with watcher.cache as cache:
        assert cache.is_current
    assert not cache.is_current
    make(bob, "/app/a")
    assert watcher.take() == [("added", "/app")]
    assert list(cache) == ["/app"]
    assert watches(stage) == 0
    cache.close()
    with pytest.raises(RecipeError, match="started before"):
        cache.start()


def test_a_cancelled_start_leaves_no_watch(stage: RecipeStage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app")
    watcher = Watcher(alice)
    alice.cut()
    wait = alice.begin(watcher.cache.start)
    wait.run.cancel()
    alice.mend()
    assert watches(stage) == 0
    other = Watcher(alice)
    wait = alice.begin(other.cache.start)
    wait.run.cancel()  # it crosses the result
    stage.rest()
    assert watches(stage) == 0
    make(bob, "/app/a")
    assert other.take() == [("added", "/app")]
    assert watcher.told == []


def test_too_many_znodes_are_an_error(stage: RecipeStage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/b")
    for most in (1, 2):
        with pytest.raises(CacheFullError, match=f"more than {most}"):
            Watcher(alice, znodes_max=most).cache.start()
    assert watches(stage) == 0
    watcher = Watcher(alice, znodes_max=3)
    watcher.cache.start()
    bob.ask(Delete("/app/b", -1))
    make(bob, "/app/c")
    assert watcher.shown == truth(stage)
    make(bob, "/app/d")
    assert watcher.errors == [watcher.cache.last_error]
    assert not watcher.cache.is_current
    for read in (
        watcher.cache.snapshot,
        lambda: watcher.cache.get("/app"),
        lambda: len(watcher.cache),
    ):
        with pytest.raises(CacheFullError):
            read()
    assert watches(stage) == 0


def test_the_end_of_the_session_keeps_the_copy(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    make(bob, "/app", "/app/a")
    watcher = Watcher(alice)
    watcher.cache.start()
    alice.cut()
    stage.pass_time(3_000)
    assert list(watcher.cache) == ["/app", "/app/a"]
    assert not watcher.cache.is_current
    assert (watcher.errors, watcher.cache.last_error) == ([], None)
    watcher.cache.close()
    with pytest.raises(SessionExpiredError):
        Watcher(alice).cache.start()


def test_ephemerals_go_with_their_session(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    make(alice, "/app")
    bob.do(create("/app/bob", ephemeral=True))
    watcher = Watcher(alice)
    watcher.cache.start()
    watcher.take()
    bob.die()
    stage.pass_time(3_000)
    assert watcher.take() == [("removed", "/app/bob")]


def test_an_unreadable_znode_is_not_shown(stage: RecipeStage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b", "/app/c")
    bob.ask(SetAcls("/app/a", [Acl(Permission.ALL & ~Permission.READ, "world", "anyone")], -1))
    watcher = Watcher(alice)
    watcher.cache.start()
    assert list(watcher.cache) == ["/app", "/app/c"]
    alice.cut()
    bob.ask(SetData("/app/c", b"1", -1))
    bob.ask(SetAcls("/app/c", [Acl(Permission.ALL & ~Permission.READ, "world", "anyone")], -1))
    alice.mend()
    bob.ask(Delete("/app/c", -1))
    assert watcher.cache.last_error is None
    assert "/app" in watcher.cache
    with pytest.raises(NoAuthError):
        bob.ask(Query(GetData, "/app/a"))
