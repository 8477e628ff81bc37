"""The cache of children: a tree cache of two levels, by name."""

from typing import Any

import pytest

from raykeeper.client.recipes.tree_mirror import TreeChange
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Delete, SetData
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.cache_watcher import ROOT, make
from tests.recipes.server_memory import forget, watches


@pytest.fixture
def pair(stage: RecipeStage) -> tuple[Member, Member]:
    """Who caches and who changes."""
    return stage.member(), stage.member()


def test_the_cache_holds_the_children_alone(
    stage: RecipeStage, pair: tuple[Member, Member]
) -> None:
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


def test_the_root_has_a_cache_of_children(stage: RecipeStage, pair: tuple[Member, Member]) -> None:
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
def test_bad_arguments_are_refused(stage: RecipeStage, options: dict[str, Any]) -> None:
    alice = stage.member()
    for method in (alice.tree_cache, alice.children_cache):
        with pytest.raises(BadArgumentsError):
            method(**{"path": ROOT, **options})
