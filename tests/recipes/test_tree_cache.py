"""Caches: always what the tree is, whatever happens to it and to the link."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.client.errors import (
    CacheFullError,
    KeeperError,
    NoAuthError,
    RecipeError,
    SessionExpiredError,
)
from raykeeper.client.outstanding import Query, Unwatch
from raykeeper.client.recipes.copied_tree import ChangeKind, TreeChange
from raykeeper.client.recipes.steps import create
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import (
    Create,
    Delete,
    GetData,
    SetAcls,
    SetData,
    Transaction,
    WatchKind,
)
from raykeeper.znodes.tree import stat_of
from tests.recipes.server_memory import forget, watches
from tests.recipes.stage import Member, Stage

ROOT = "/app"
SHOWN = ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeral_owner", "data_length")


def make(member: Member, *paths: str) -> None:
    for path in paths:
        member.ask(Create(path, path.encode(), 0, None, 0))


def truth(stage: Stage, root: str = ROOT) -> dict[str, tuple[Any, ...]]:
    """What the subtree is on the server, as far as caches promise to know it."""
    znodes = stage.servers.leader.server._context.state.tree.znodes
    return {
        path: (znode.value, *(getattr(stat_of(znode), name) for name in SHOWN))
        for path, znode in sorted(znodes.items())
        if path == root or path.startswith(f"{root}/")
    }


class Watcher:
    """A cache, and what its callback was told."""

    def __init__(self, member: Member, root: str = ROOT, **options: Any) -> None:
        self.told: list[TreeChange] = []
        self.errors: list[Exception] = []
        self.cache = member.tree_cache(root, self.told.append, self.errors.append, **options)

    @property
    def shown(self) -> dict[str, tuple[Any, ...]]:
        """What the cache shows, which is what follows from what was told."""
        shown = self.cache.snapshot()
        built: dict[str, Any] = {}
        for change in self.told:
            assert built.get(change.path) == change.old, change
            assert (change.new is None) is (change.kind is ChangeKind.REMOVED)
            assert (change.old is None) is (change.kind is ChangeKind.ADDED)
            if change.new is None:
                del built[change.path]
            else:
                built[change.path] = change.new
        assert shown == built
        assert len(self.cache) == len(shown) == len(list(self.cache))
        for path in shown:
            below = f"{path}/"
            names = [
                each[len(below) :]
                for each in shown
                if each.startswith(below) and "/" not in each[len(below) :]
            ]
            assert self.cache.children(path) == sorted(names)
            assert path in self.cache
        return {
            path: (znode.value, *(getattr(znode.stat, name) for name in SHOWN))
            for path, znode in shown.items()
        }

    def take(self) -> list[tuple[str, str]]:
        """What was told since it was asked last."""
        taken = [(change.kind.value, change.path) for change in self.told[self._taken :]]
        self._taken = len(self.told)
        return taken

    _taken = 0


@pytest.fixture
def pair(stage: Stage) -> Iterator[tuple[Member, Member]]:
    """Who caches and who changes."""
    yield stage.member(), stage.member()


def test_it_shows_what_there_is_and_what_comes(stage: Stage, pair: tuple[Member, Member]) -> None:
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


def test_what_it_costs(stage: Stage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", *(f"/app/{number}" for number in range(50)), "/app/7/x")
    alice.asked.clear()
    cache = Watcher(alice).cache.start()
    assert dict(alice.asked) == {"Watch": 1, "GetData": 52, "GetChildren": 2}
    alice.asked.clear()
    make(bob, "/app/7/y")
    bob.ask(SetData("/app/7", b"1", -1))
    assert "/app/7/y" in cache
    assert dict(alice.asked) == {}
    cache.close()
    assert dict(alice.asked) == {"Unwatch": 1}


def test_its_root_may_be_missing_and_go_and_come(stage: Stage, pair: tuple[Member, Member]) -> None:
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


def test_a_client_finds_its_own_writes(stage: Stage) -> None:
    alice = stage.member()
    make(alice, "/app")
    cache = alice.tree_cache(ROOT).start()
    seen: list[object] = []
    outcome = alice.begin(lambda: alice.run_flow(create("/app/a", b"1"), "create"))
    outcome_value = outcome.value
    seen.append(cache.get("/app/a"))
    assert outcome_value[0] == "/app/a"
    assert seen != [None]


def test_a_transaction_is_one_step(stage: Stage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b")
    sizes: list[int] = []
    cache = alice.tree_cache(ROOT, lambda change: sizes.append(len(cache)))
    cache.start()
    sizes.clear()
    ops: list[Any] = [Create(f"/app/{name}", b"", 0, None, 0) for name in "xyz"]
    bob.ask(Transaction([], ops, []))
    assert sizes == [6, 6, 6]
    watcher = Watcher(alice)
    watcher.cache.start()
    watcher.take()
    again: list[Any] = [Delete("/app/a/b", -1), Delete("/app/a", -1)]
    again += [Create("/app/a", b"1", 0, None, 0), Create("/app/a/b", b"2", 0, None, 0)]
    bob.ask(Transaction([], [*again, SetData("/app/a", b"3", -1)], []))
    assert watcher.take() == [
        ("removed", "/app/a/b"),
        ("removed", "/app/a"),
        ("added", "/app/a/b"),
        ("added", "/app/a"),
    ]
    assert watcher.shown == truth(stage)


def test_values_that_no_event_can_hold_are_read(stage: Stage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/b", "/app/c")
    watcher = Watcher(alice)
    watcher.cache.start()
    watcher.take()
    long = b"x" * 700_000
    bob.ask(Transaction([], [SetData("/app/a", long, -1), SetData("/app/b", long, -1)], []))
    assert watcher.take() == [("changed", "/app/a"), ("changed", "/app/b")]
    ops: list[Any] = [SetData("/app/c", long, -1), SetData("/app/b", long, -1)]
    bob.ask(Transaction([], [*ops, Delete("/app/b", -1), Create("/app/d", long, 0)], []))
    assert watcher.take() == [
        ("removed", "/app/b"),
        ("changed", "/app/c"),
        ("added", "/app/d"),
    ]
    assert watcher.shown == truth(stage)


@pytest.mark.parametrize("remembers", [True, False])
def test_without_a_connection_it_stays_and_catches_up(
    stage: Stage, pair: tuple[Member, Member], remembers: bool
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


def test_what_happens_while_it_loads_is_not_missed(
    stage: Stage, pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
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
        stage.rest()
        step = next(steps, None)
        if step is not None:
            bob.ask(step)

    monkeypatch.setattr(alice, "submit", crossed)
    watcher = Watcher(alice)
    watcher.cache.start()
    assert next(steps, None) is None
    assert watcher.shown == truth(stage)


def test_it_goes_on_when_somebody_removes_all_watches(
    stage: Stage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app")
    watcher = Watcher(alice)
    watcher.cache.start()
    alice.ask(Unwatch(ROOT, WatchKind.ANY, None))
    make(bob, "/app/a")
    assert watcher.shown == truth(stage)
    assert watches(stage) == 1


def test_after_close_nothing_is_told_and_nothing_watched(
    stage: Stage, pair: tuple[Member, Member]
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
    with pytest.raises(TypeError, match="make one there"):
        cache.__reduce__()


def test_a_start_that_nobody_waited_for_leaves_no_watch(
    stage: Stage, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    make(bob, "/app")
    watcher = Watcher(alice)
    alice.cut()
    wait = alice.begin(watcher.cache.start)
    wait.run.abandon()
    alice.mend()
    assert watches(stage) == 0
    other = Watcher(alice)
    wait = alice.begin(other.cache.start)
    wait.run.abandon()  # it crosses the result
    stage.rest()
    assert watches(stage) == 0
    make(bob, "/app/a")
    assert other.take() == [("added", "/app")]
    assert watcher.told == []


def test_too_many_znodes_are_an_error(stage: Stage, pair: tuple[Member, Member]) -> None:
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


def test_the_end_of_the_session_leaves_the_copy(stage: Stage) -> None:
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


def test_ephemerals_go_with_their_session(stage: Stage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    make(alice, "/app")
    bob.do(create("/app/bob", ephemeral=True))
    watcher = Watcher(alice)
    watcher.cache.start()
    watcher.take()
    bob.die()
    stage.pass_time(3_000)
    assert watcher.take() == [("removed", "/app/bob")]


def test_what_may_not_be_read_is_not_shown(stage: Stage, pair: tuple[Member, Member]) -> None:
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


def test_the_children_alone(stage: Stage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a", "/app/a/b", "/app/c")
    told: list[TreeChange] = []
    with alice.children_cache(ROOT, told.append) as cache:
        assert cache.names() == ["a", "c"] == list(cache) == list(cache.snapshot())
        make(bob, "/app/a/d", "/app/e")
        bob.ask(SetData("/app/c", b"1", -1))
        bob.ask(SetData("/app", b"2", -1))
        bob.ask(Delete("/app/a/b", -1))
        alice.cut()
        forget(stage)
        make(bob, "/app/f", "/app/f/g")
        alice.mend()
        assert cache.names() == ["a", "c", "e", "f"]
        found = cache.get("c")
        assert found is not None
        assert found.value == b"1"
        assert (cache.get("x"), cache.get(""), len(cache)) == (None, None, 4)
        assert "a" in cache
        assert "a/d" not in cache
        assert 7 not in cache
    paths = [change.path for change in told]
    assert paths == ["/app/a", "/app/c", "/app/e", "/app/c", "/app/f"]
    assert watches(stage) == 0


def test_the_children_of_the_root(stage: Stage, pair: tuple[Member, Member]) -> None:
    alice, bob = pair
    make(bob, "/app", "/app/a")
    children, tree = alice.children_cache("/").start(), alice.tree_cache("/").start()
    assert {"app", "zookeeper"} >= set(children.names()) >= {"app"}
    make(bob, "/apple", "/apple/a")
    assert "apple" in children
    assert tree.children("/apple") == ["a"]


@pytest.mark.parametrize(
    "options",
    [
        {"path": "app"},
        {"path": ""},
        {"path": 7},
        {"on_change": 7},
        {"on_error": "f"},
        {"znodes_max": 0},
        {"znodes_max": True},
        {"znodes_max": 1.5},
    ],
)
def test_bad_arguments_are_refused(stage: Stage, options: dict[str, Any]) -> None:
    alice = stage.member()
    for method in (alice.tree_cache, alice.children_cache):
        with pytest.raises(BadArgumentsError):
            method(**{"path": ROOT, **options})


PATHS = st.sampled_from(
    ["/app", *(f"/app/{a}" for a in "ab"), *(f"/app/{a}/{b}" for a in "ab" for b in "cd")]
)
OPS = st.one_of(
    st.builds(lambda path, value: Create(path, value, 0), PATHS, st.binary(max_size=2)),
    st.builds(lambda path, value: SetData(path, value, -1), PATHS, st.binary(max_size=2)),
    st.builds(lambda path: Delete(path, -1), PATHS),
)
STEPS = st.one_of(
    OPS,
    OPS,
    st.builds(lambda ops: Transaction([], ops, []), st.lists(OPS, min_size=2, max_size=4)),
    st.sampled_from(["cut", "forget", "mend", "start"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_whatever_happens_it_is_what_the_tree_is(steps: list[Any]) -> None:
    stage = Stage()
    alice, bob = stage.member(session_timeout_ms=20_000), stage.member(session_timeout_ms=20_000)
    watchers = [Watcher(alice)]
    watchers[0].cache.start()
    is_cut = False
    for step in [*steps, "mend"]:
        if step == "cut" and not is_cut:
            alice.cut()
            is_cut = True
        elif step == "mend" and is_cut:
            alice.mend()
            is_cut = False
        elif step == "forget":
            forget(stage)
        elif step == "start":
            watchers.append(Watcher(alice))
            alice.begin(watchers[-1].cache.start)
        elif not isinstance(step, str):
            try:
                bob.ask(step)
            except KeeperError:
                continue
        if not is_cut:
            assert [watcher.shown for watcher in watchers] == [truth(stage)] * len(watchers)
    assert stage.reported == []
