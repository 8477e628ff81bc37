"""The run with two keepers: faults, then every vote comes back, and old folders are set aside."""

from typing import Final

from raykeeper.clusters.healing.healing import QUIET_MS, SURVEY_PAUSE_MS
from raykeeper.clusters.healing.vocabulary import MoveStep
from raykeeper.zab.ids import Millis
from tests.simulation.keepers.node_faults import NodeFaults
from tests.simulation.keepers.ray_cluster import Machine
from tests.simulation.keepers.scenario import KeeperScenario
from tests.simulation.recipes.scenario import Scenario
from tests.simulation.recipes.world import RecipeWorld
from tests.simulation.world import Report

SLACK_MS: Final = 60_000
"""Elections, sessions that end, synchronization, and an answer that comes late."""


class KeeperWorld(RecipeWorld):
    """The world of a plan with keepers."""

    def _new_scenario(self) -> Scenario:
        self._keepers = KeeperScenario(self.schedule, self.checks.truth)
        self._keepers.prepare(self.plan, self.nodes, self.checks)
        return self._keepers

    def _run(self) -> Report:
        self.faults = NodeFaults(
            self.schedule, self.network, self.nodes, self.clients, self._keepers.cluster
        )
        return super()._run()

    def _finish_work(self) -> None:
        scenario, schedule = self._keepers, self.schedule
        scenario.is_ending = True
        self._end_node_faults()
        bound_ms = self._bound_ms()
        healed = schedule.run_until(Millis(schedule.now + bound_ms), self._is_healed)
        assert healed, f"Healed: not after {bound_ms} ms: {self._reason_to_wait()}"
        scenario.counts["recipe.moved"] += sum(
            decision.step is MoveStep.DONE for decision in scenario.judge.decisions
        )
        scenario.is_over = True
        super()._finish_work()

    def _end_node_faults(self) -> None:
        """Mend what is cut, and bring machines back as long as a majority needs them."""
        cluster = self._keepers.cluster
        cluster.silent_share = 0.0
        for node in list(cluster.nodes.values()):
            if not node.is_reached:
                cluster.reach(node)
        self.schedule.run_until(Millis(self.schedule.now + 2_000))
        away = [machine for machine in cluster.machines if not cluster.is_there(machine)]
        for machine in away:
            if cluster.random.random() < 0.5 or not self._has_majority():
                cluster.return_machine(machine)
        assert self.plan.keeper is not None
        quickest_s = max(self.plan.keeper.clocks_ahead_s)
        for server in cluster.slots:
            if not cluster.is_disk_there(server):
                machine = Machine(len(cluster.machines) + 1, quickest_s)
                cluster.machines.append(machine)
                cluster.join(machine)
        if not self._has_majority(is_running=True):
            # A person has to, who moves away what holds the names of servers that could vote.
            cluster.end_without_votes()
            cluster.launch()

    def _has_majority(self, *, is_running: bool = False) -> bool:
        cluster = self._keepers.cluster
        is_there = cluster.runs_with_vote if is_running else cluster.is_disk_there
        there = [server for server in cluster.slots if is_there(server)]
        return len(there) > len(cluster.slots) // 2

    def _bound_ms(self) -> int:
        """Return the time until all votes are back: of each server its limits, and some slack."""
        keeper, decisions = self.plan.keeper, self._keepers.judge.decisions
        assert keeper is not None
        each_ms = keeper.heal_after_ms + 2 * keeper.vote_wait_ms + SURVEY_PAUSE_MS
        pauses_ms = 0
        for server in self._keepers.cluster.slots:
            begun = [d for d in decisions if d.server == server and d.step is MoveStep.BEGUN]
            pauses_ms += keeper.pause_ms * 2 ** (len(begun) + 1)
        return SLACK_MS + len(self.nodes) * each_ms + pauses_ms + keeper.node_age_ms + QUIET_MS

    def _is_healed(self) -> bool:
        if self.schedule.steps % 64:
            return False
        cluster = self._keepers.cluster
        if self._keepers.judge.open_move is not None:
            return False
        if not all(cluster.votes(server) for server in cluster.slots):
            if self._waits_for_the_hour():
                cluster.launch(anywhere=True)  # a person need not
            return False
        return not any(self._stale_folders())

    def _waits_for_the_hour(self) -> bool:
        """Return whether all moves of an hour are used up, so that the votes stay away."""
        keeper = self.plan.keeper
        assert keeper is not None
        is_used_up = len(self._keepers.judge.begun_ms) >= keeper.moves_per_hour
        return is_used_up and self._has_majority(is_running=True)

    def _stale_folders(self) -> list[str]:
        """Return the folders on live machines of servers that vote elsewhere."""
        cluster = self._keepers.cluster
        return [
            f"{server} on machine {machine.number}"
            for machine in cluster.machines
            if cluster.is_there(machine)
            for server, disk in machine.disks.items()
            if disk.disk != cluster.voting_disk(server)
        ]

    def _reason_to_wait(self) -> str:
        cluster = self._keepers.cluster
        votes = {server: cluster.votes(server) for server in cluster.slots}
        at = {server: actor.node.name for server, actor in cluster.actors.items()}
        last = self._keepers.judge.decisions[-2:]
        return f"votes {votes}, at {at}, {last}, stale {self._stale_folders()}, {self._why()}"
