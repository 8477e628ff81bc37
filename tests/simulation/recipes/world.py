"""The world of a recipe: members work under faults, then all end and leave nothing behind."""

from typing import Final

from msgspec.structs import replace

from raykeeper.zab.ids import Millis
from tests.simulation.client import SimClient
from tests.simulation.recipes.catalogue import SCENARIOS
from tests.simulation.recipes.member import Member
from tests.simulation.recipes.scenario import Scenario
from tests.simulation.world import Report, World

FIXED: Final = "/zookeeper"


class RecipeWorld(World):
    """The world of a plan with a recipe."""

    def _run(self) -> Report:
        if self.plan.faults:
            self.scenario.inject = self.faults.inject
        return super()._run()

    def _new_clients(self) -> list[SimClient]:
        scenario = self.scenario = self._new_scenario()
        scenario.members = [
            Member(client, self.nodes, self.schedule, self.network, self.checks, scenario)
            for client in self.plan.clients
        ]
        self.schedule.watcher = scenario.look
        return list(scenario.members)

    def _new_scenario(self) -> Scenario:
        return SCENARIOS[self.plan.recipe](self.schedule, self.checks.truth)

    def _finish_work(self) -> None:
        scenario = self.scenario
        scenario.is_ending = True
        bound_ms = self.plan.timing.converge_ms
        done = self.schedule.run_until(Millis(self.schedule.now + bound_ms), scenario.is_done)
        assert done, f"Progress: after {bound_ms} ms: {scenario.why_not()}"
        self.schedule.say("everybody has ended")

    def _report(self, converged_ms: int) -> Report:
        report = super()._report(converged_ms)
        return replace(report, counts={**report.counts, **self.scenario.counts})

    def _look_around(self) -> None:
        scenario, truth = self.scenario, self.checks.truth
        # A container stays if its creator died before it had a child, as in ZooKeeper.
        stays = {
            path
            for path, znode in truth.znodes.items()
            if path != "/" and not path.startswith(FIXED) and (znode.creates or not znode.ttl_ms)
        }
        remain = scenario.may_stay()
        stays -= remain
        assert not stays, f"LeftBehind: the znodes {sorted(stays)}"
        for member in scenario.members:
            process = member.program
            assert process is not None
            waiting = [str(run) for run in process.flows._waiting_tasks]
            assert not waiting, f"LeftBehind: {process.name} still waits in {waiting}"
            assert not process.timers, f"LeftBehind: {process.timers} alarms of {process.name}"
            watchers = list(process.core._watches.tables._watches())
            assert not watchers, f"LeftBehind: {process.name} watches {watchers}"
        for node in self.nodes:
            assert node.server is not None
            table = node.server._context.watches
            for number in node._clients:
                # A one-shot watch of a znode that stays may wait for ever:
                # client/core/session_watches.py.
                watched = [path for _, path, _ in table.watches_of(number) if path not in remain]
                assert not watched, f"LeftBehind: server {node.server_id} watches {watched}"
        scenario.finish()
