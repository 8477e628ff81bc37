"""The rules of the index from modules to tests. `make check` compares the page itself."""

import pytest

from tests.tidy.proofs import HEAD, own_module, page, product_modules, recipe_methods, used_modules


def test_each_module_has_a_row() -> None:
    text = page()
    for module in product_modules():
        assert f"| {module.rpartition('/')[2]} |" in text
    assert "| barrier.py | recipes/test_barrier.py, simulation/recipes/barrier.py |" in text
    assert text.startswith(HEAD)


@pytest.mark.parametrize(
    ("test", "module"),
    [
        ("unit/zab/test_quorum.py", "zab/quorum.py"),
        ("unit/zab/test_quorum_disks.py", "zab/quorum.py"),
        ("unit/zab/data/quorum_disks.txt", "zab/quorum.py"),
        ("unit/zab/test_other.py", None),
        ("recipes/test_lock_queue.py", "client/recipes/lock_queue.py"),
        ("recipes/test_lock_again.py", "client/recipes/lock.py"),
        ("simulation/recipes/lock.py", "client/recipes/lock.py"),
        ("paper/test_quorum.py", None),
    ],
)
def test_a_test_belongs_to_the_longest_module_that_its_name_begins_with(
    test: str, module: str | None
) -> None:
    modules = {"zab/quorum.py", "client/recipes/lock.py", "client/recipes/lock_queue.py"}
    assert own_module(test, modules) == module


def test_a_recipe_is_found_by_its_import_and_by_the_method_of_the_client() -> None:
    methods = recipe_methods(
        "from raykeeper.client.recipes.group import Group\n"
        "def group(self, path): return Group(self.client, path)\n"
        "def other(self): return 1\n"
    )
    assert methods == {"group": "client/recipes/group.py"}
    assert used_modules("member.group('/a')", methods) == {"client/recipes/group.py"}
    assert used_modules("match.group(1) or match.group()", methods) == set()
    assert "zab/ids.py" in used_modules("from raykeeper.zab.ids import Zxid", methods)
