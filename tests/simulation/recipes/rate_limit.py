"""The bucket of a rate limit: a share is taken once, and returned only if it was the last."""

from typing import Final

from raykeeper.client.errors import WaitTimeoutError
from raykeeper.client.ray_tools.rate_limit import Bucket
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.zab.ids import ZERO
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/bucket"
PER_SECOND: Final = 20
SHARE_NS: Final = 1_000_000_000 // PER_SECOND
BURST: Final = 3


class RateLimitScenario(Scenario):
    """All processes take shares, one after the other."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._taken = 0

    def scripts(self, process: Process) -> list[Script]:
        """Return scripts of threads that share a bucket, as they may."""
        bucket: Bucket[Blocking] = Bucket(process, PATH, PER_SECOND, BURST)
        return [self._take(process, bucket) for _ in range(process.random.choice([1, 1, 2]))]

    def _take(self, process: Process, bucket: Bucket[Blocking]) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 0, 20, 200))
            self.maybe_inject(process)
            limit_s, limit_ms = (None, None) if is_last else (timeout_s(random), patience(random))
            try:
                yield Within(bucket.take(1, limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            self.counts["recipe.taken"] += 1
            self._taken += 1

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the bucket."""
        return {ABOVE, PATH}

    def finish(self) -> None:
        """Check that a take advanced the bucket by a share at least, and a return undid one."""
        shares = before = earlier = 0
        for zxid, was in self.truth.between(PATH, ZERO, self.truth.zxid):
            if was is None or was.stat.mzxid != zxid:
                continue
            full_ns = int(was.value.split()[0])
            if full_ns > before:
                assert full_ns - before >= SHARE_NS, f"Rate: from {before} to {full_ns}"
                shares += 1
            elif full_ns < before:
                assert full_ns == earlier, f"Rate: back from {before} to {full_ns}, not {earlier}"
                shares -= 1
            if full_ns != before:
                earlier, before = before, full_ns
        assert self._taken <= shares, f"Rate: {self._taken} were taken of {shares}"
