"""The caches: each shows the state of one moment, and never goes back."""

from bisect import bisect_left
from typing import Any, Final

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import NodeExistsError, NoNodeError, NotEmptyError
from raykeeper.client.recipes.primitives import create
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.requests import ANY_VERSION, Create, Delete, Multi, SetData, WriteOp
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, span
from tests.simulation.recipes.script import Pause, Script

PATH: Final = f"{ABOVE}/app"
PLACES: Final = [f"{PATH}/a", f"{PATH}/b", f"{PATH}/a/c", f"{PATH}/a/d", f"{PATH}/b/e"]


class TreeCacheScenario(Scenario):
    """All processes write below a path, sometimes two znodes at once, and cache the tree."""

    def scripts(self, process: Process) -> list[Script]:
        """Return one script of each kind."""
        return [self._write(process), self._copy(process)]

    def _write(self, process: Process) -> Script:
        random = process.random
        while not self.is_ending:
            yield Pause(span(random, 20, 100))
            self.maybe_inject(process)
            if PATH not in self.truth.znodes:
                yield _begun()
            yield _several([self._draw(process) for _ in range(random.choice([1, 1, 2]))])
            self.counts["recipe.written"] += 1

    def _draw(self, process: Process) -> WriteOp:
        random = process.random
        path = random.choice([PATH, *PLACES, *PLACES, *PLACES[:2]])
        value = process.name.encode()
        kind = random.random()
        if kind < 0.5:
            return Create(path, value, 0)
        return SetData(path, value, ANY_VERSION) if kind < 0.8 else Delete(path, ANY_VERSION)

    def _copy(self, process: Process) -> Script:
        random = process.random
        while True:
            is_last = self.is_ending
            yield Pause(span(random, 20, 300))
            cache: Any = process.tree_cache(PATH)
            yield cache.start()
            at = ZERO
            for _ in range(random.choice([1, 5, 20])):
                at = self._is_true(process, cache, at)
                self.counts["recipe.looked"] += 1
                yield Pause(span(random, 10, 100))
            self.maybe_inject(process)
            while is_last and not self._is_current(cache):
                yield Pause(50)
            yield cache.close()
            if is_last:
                return

    def _is_true(self, process: Process, cache: Any, since: Zxid) -> Zxid:
        """Return the first zxid, not before `since`, at which the tree was as the cache shows."""
        shown = _known(cache)
        moments = self._moments()
        for zxid in [since, *moments[bisect_left(moments, since) :]]:
            if self._at(zxid) == shown:
                return zxid
        raise AssertionError(f"Copy: {process.name} shows {shown}, which never was")

    def _is_current(self, cache: Any) -> bool:
        for member in self.members:
            program = member.program
            if program is None or program.is_over or not program.scripts[0].is_done:
                return False
        return _known(cache) == self._at(self.truth.zxid)

    def _moments(self) -> list[Zxid]:
        moments: set[Zxid] = set()
        for path in [PATH, *PLACES]:
            moments.update(zxid for zxid, _ in self.truth.between(path, ZERO, self.truth.zxid))
        return sorted(moments)

    def _at(self, zxid: Zxid) -> dict[str, Zxid]:
        found = {path: self.truth.at(path, zxid) for path in [PATH, *PLACES]}
        return {path: was.stat.mzxid for path, was in found.items() if was is not None}

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the written ones."""
        return {ABOVE, PATH, *PLACES}


def _known(cache: Any) -> dict[str, Zxid]:
    return {path: znode.stat.mzxid for path, znode in cache.snapshot().items()}


def _begun() -> Flow[None]:
    try:
        yield from create(PATH)
    except NodeExistsError:
        return


def _several(ops: list[WriteOp]) -> Flow[None]:
    """Do the operations in one multi, or none of them if one fails."""
    try:
        if len(ops) == 1:
            yield ops[0]
        else:
            yield Multi([], ops, [])  # type: ignore[arg-type]
    except (NoNodeError, NodeExistsError, NotEmptyError):
        return
