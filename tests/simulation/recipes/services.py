"""Service discovery: every cache gets one change after the other, and at last the present state."""

from typing import Any, Final

from raykeeper.client.errors import WaitTimeoutError
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/services"
NAMES: Final = ("web", "db")


class ServicesScenario(Scenario):
    """Instances that come and go, and processes that use them."""

    def scripts(self, process: Process) -> list[Script]:
        """Return the scripts of an instance and of a cache."""
        return [self._serve(process), self._need(process)]

    def _serve(self, process: Process) -> Script:
        random = process.random
        services = process.services(PATH)
        while not self.is_ending:
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            name = random.choice([None, "fixed"])
            call = services.register(
                random.choice(NAMES), process.name, 1, None, name, timeout_s(random)
            )
            try:
                held = yield Within(call, patience(random))
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            self.counts["recipe.registered"] += 1
            yield Pause(span(random, 20, 300, 1_000))
            if random.random() < 0.5:
                yield held.announce(process.name, 2)
            self.maybe_inject(process)
            yield held.leave()

    def _need(self, process: Process) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            services = process.services(PATH)
            told: list[Any] = []
            yield services.watch(told.append)
            if is_last:
                while (yield services.names()) or not self._nobody_serves():
                    yield Pause(50)
            else:
                yield Pause(span(random, 100, 1_000, 3_000))
                yield from self._pick(process, services)
            yield services.close()
            for name in NAMES:
                _follows([each for each in told if each.service == name])

    def _pick(self, process: Process, services: Any) -> Script:
        service = process.random.choice(NAMES)
        try:
            picked = yield services.pick(service, None, 0)
        except WaitTimeoutError:
            return
        self.counts["recipe.picked"] += 1
        path = f"{PATH}/{service}/{picked.name}"
        assert self.truth.at(path, picked.token) is not None, f"Observed: {path} never was"

    def _nobody_serves(self) -> bool:
        znodes = self.truth.znodes
        return not any(
            name in znodes and znodes[name].children for name in (f"{PATH}/{s}" for s in NAMES)
        )

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the parents of services."""
        return {ABOVE, PATH}


def _follows(told: list[Any]) -> None:
    """Check that each change begins where the one before ended."""
    before: set[Any] = set()
    for change in told:
        now = {(each.name, each.token) for each in change.instances}
        text = f"Observed: {change} after {before}"
        assert {(each.name, each.token) for each in change.joined} == now - before, text
        assert {(each.name, each.token) for each in change.left} == before - now, text
        before = now
