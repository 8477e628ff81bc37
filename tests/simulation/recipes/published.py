"""Publications: no reader sees a part of one, or an older one after a newer one."""

from typing import Any, Final

from raykeeper.client.errors import BadVersionError, NoNodeError
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.followed import FollowedScenario, follower
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, patience, span
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/routes"


class PublishedScenario(FollowedScenario):
    """All processes publish, read and follow. Each version has one value under several names."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._newest = 0
        self._is_published = False

    def scripts(self, process: Process) -> list[Script]:
        """Return one script of each kind."""
        published = process.published(PATH)
        return [self._publish(process, published), self._follow(process, published)]

    def _publish(self, process: Process, published: Any) -> Script:
        random, count = process.random, 0
        while True:
            is_last = self.is_ending
            yield Pause(span(random, 50, 500))
            self.maybe_inject(process)
            count += 1
            value = f"{process.name}.{count}".encode()
            values = dict.fromkeys("abc"[: random.randint(1, 3)], value)
            before = self._newest
            try:
                limit_ms = None if is_last else patience(random)
                version = yield Within(published.publish(values), limit_ms)
            except BadVersionError:
                self.counts["recipe.overtaken"] += 1
            except GaveUpError:
                self.counts["recipe.given_up"] += 1
            else:
                self.counts["recipe.published"] += 1
                self._is_published = True
                assert version > before, f"Edition: {version} is published after {before}"
                self._newest = max(self._newest, version)
            if is_last:
                return

    def _follow(self, process: Process, published: Any) -> Script:
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(process.random, 20, 200))
            seen: list[Any] = []
            live = yield published.follow(
                follower(seen, _is_whole, lambda edition: edition.version)
            )
            was_there = bool(seen)
            try:
                read = yield published.read()
                _is_whole(read)
            except NoNodeError:
                assert not was_there, "Edition: it was there, and is gone"
            except BadVersionError:
                self.counts["recipe.overtaken"] += 1
            yield from self.follow_for_a_while(process, live, is_last=is_last)

    def is_newest(self, live: Any) -> bool:
        """Return whether it is the last publication, or none was done."""
        newest = live.newest
        return not self._is_published or (newest is not None and newest.version >= self._newest)

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the last version, and those the next one deletes."""
        paths = (path for path in self.truth.znodes if path.startswith(PATH))
        return {ABOVE, *paths}


def _is_whole(edition: Any) -> None:
    assert edition is not None, "Edition: it is gone"
    assert len(set(edition.values.values())) == 1, f"Edition: {edition} is a part"
    assert sorted(edition.values) == list("abc"[: len(edition.values)]), f"Edition: {edition}"
