"""A cache, what its callback was told, and what the tree really is."""

from typing import Any

from raykeeper.client.recipes.tree_mirror import ChangeKind, TreeChange
from raykeeper.znodes.requests import Create
from raykeeper.znodes.znode import stat_of
from tests.harness.recipe_stage import Member, RecipeStage

ROOT = "/app"
SHOWN = ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeral_owner", "data_length")


def make(member: Member, *paths: str) -> None:
    for path in paths:
        member.ask(Create(path, path.encode(), 0, None, 0))


def truth(stage: RecipeStage, root: str = ROOT) -> dict[str, tuple[Any, ...]]:
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
