"""Two-phase commit: all sites commit or all abort, and no site waits for ever."""

from typing import Any, Final

from raykeeper.client.errors import NoNodeError, WaitTimeoutError
from raykeeper.client.recipes.two_phase_commit import Decision
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/trips"


class Trip:
    """The facts of one trip: what an omniscient observer knows, and what the sites' disks have."""

    def __init__(self, path: str, sites: list[str]) -> None:
        self.path = path
        self.sites = sites
        self.votes: dict[str, bool] = {}
        self.known: dict[str, Decision] = {}
        self.is_finished = False


class TwoPhaseCommitScenario(Scenario):
    """Coordinators that die, sites that die, and successors that decide."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._trips: list[Trip] = []
        self._count = 0

    def scripts(self, process: Process) -> list[Script]:
        """Return scripts that are sometimes a coordinator, sometimes a site."""
        return [self._coordinate(process), self._take_part(process)]

    def _coordinate(self, process: Process) -> Script:
        random = process.random
        while not self.is_ending:
            yield Pause(span(random, 100, 1_000))
            self._count += 1
            trip = Trip(f"{PATH}/{self._count}", [member.name for member in self.members])
            commit = process.two_phase_commit(trip.path)
            yield commit.begin(trip.sites, b"a trip")
            self._trips.append(trip)
            self.maybe_inject(process)
            try:
                limit_s = random.choice([None, 0.3, 2])
                decision = yield Within(commit.decide(limit_s), patience(random))
            except NoNodeError:
                continue  # another process was quicker, and has finished the trip
            except GaveUpError:
                # The coordinator lives, so no other process decides in its place.
                self.counts["recipe.given_up"] += 1
                try:
                    decision = yield commit.abort()
                except NoNodeError:
                    continue
            self._is_decided(trip, process, decision)

    def _take_part(self, process: Process) -> Script:
        while self._may_begin() or self._open(process):
            yield Pause(span(process.random, 20, 200))
            for trip in self._open(process):
                yield from self._vote(process, trip, process.two_phase_commit(trip.path))

    def _may_begin(self) -> bool:
        """Return whether any process may begin a trip, in which all take part."""
        programs = [member.program for member in self.members if member.program is not None]
        return not self.is_ending or not all(each.scripts[0].is_done for each in programs)

    def _open(self, process: Process) -> list[Trip]:
        """Return the trips whose decision this site does not know."""
        return [trip for trip in self._trips if process.member.name not in trip.known]

    def _vote(self, process: Process, trip: Trip, commit: Any) -> Script:
        random, site = process.random, process.member.name
        if not (yield commit.join(site)):
            raise AssertionError("Decision: nothing is known of it")
        self.maybe_inject(process)
        yield Pause(span(random, 0, 50))
        trip.votes.setdefault(site, random.random() < 0.9)
        decision = yield commit.vote(site, trip.votes[site])
        self.maybe_inject(process)
        if decision is None:
            try:
                limit_s = None if self.is_ending else span(random, 300, 3_000) / 1_000
                decision = yield commit.outcome(limit_s)
            except WaitTimeoutError:
                self.counts["recipe.undecided"] += 1
                return
        self._is_decided(trip, process, decision)
        trip.known[site] = decision
        if trip.known.keys() >= set(trip.sites) and not trip.is_finished:
            trip.is_finished = True
            try:
                yield commit.finish()
            except NoNodeError:
                return  # the first answer was lost with an earlier life

    def _is_decided(self, trip: Trip, process: Process, decision: Decision) -> None:
        self.counts[f"recipe.{decision.name.lower()}"] += 1
        others = {*trip.known.values()} - {decision}
        assert not others, f"Decision: {process.name}, {trip.path} is {decision}, and {others}"
        trip.known.setdefault("", decision)
        votes = trip.votes
        assert decision is Decision.ABORT or all(votes.get(site) for site in trip.sites), (
            f"Decision: {process.name}, {trip.path} is {decision} by {votes}"
        )

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: trips that no process finished."""
        return {ABOVE, *(path for path in self.truth.znodes if path.startswith(PATH))}
