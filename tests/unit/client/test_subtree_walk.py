"""The walk of a copy: every znode once, parents first, in batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.client import subtree_walk
from raykeeper.client.subtree_walk import SubtreeWalk

Tree = dict[str, "Tree"]
trees: st.SearchStrategy[Tree] = st.recursive(
    st.just({}),
    lambda below: st.dictionaries(st.sampled_from("abcdefg"), below, max_size=7),
    max_leaves=60,
)


def at(tree: Tree, relative: str) -> Tree:
    for name in relative.split("/")[1:]:
        tree = tree[name]
    return tree


def below(tree: Tree, relative: str = "") -> list[str]:
    """The paths of all znodes, a parent before its children."""
    found = [relative]
    for name, each in tree.items():
        found += below(each, f"{relative}/{name}")
    return found


@pytest.mark.parametrize("batch_max", [1, 3, 250])
@given(tree=trees)
def test_every_znode_is_visited_once_after_its_parent(batch_max: int, tree: Tree) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subtree_walk, "BATCH_ZNODES", batch_max)
        walk = SubtreeWalk(lambda batch: [list(at(tree, each)) for each in batch], {"/a/b"})
        visited: list[str] = []
        for batch in walk.batches():
            assert 0 < len(batch) <= batch_max
            for relative in batch:
                assert relative == "" or relative.rpartition("/")[0] in visited
                visited.append(relative)
                if children := at(tree, relative):
                    walk.add_parent(relative, len(children))
            assert walk.waiting >= 0
        left_out = [x for x in below(tree) if x == "/a/b" or x.startswith("/a/b/")]
        assert sorted(visited) == sorted(set(below(tree)) - set(left_out))
        assert walk.waiting == 0


def test_lists_that_differ_from_the_numbers_before() -> None:
    """Children come and go between the Stat of a parent and its list."""
    walk = SubtreeWalk(lambda batch: [["a", "b"] if not each else [] for each in batch])
    seen: list[str] = []
    for batch in walk.batches():
        for relative in batch:
            walk.add_parent(relative, 5)
        seen += batch
    assert (sorted(seen), walk.waiting) == (["", "/a", "/b"], 0)


def test_names_are_held_once_and_lists_of_a_few_parents() -> None:
    """Of a thousand parents with a thousand children each, one batch of lists is held."""
    held = 0

    def list_children(batch: list[str]) -> list[list[str]]:
        return [[str(n) for n in range(100)] for _ in batch]

    walk = SubtreeWalk(list_children)
    for batch in walk.batches():
        for relative in batch:
            if relative.count("/") < 2:
                walk.add_parent(relative, 100)
        held = max(held, sum(len(names) for _, names in walk._levels))
    assert held <= 100 + 3 * 100
