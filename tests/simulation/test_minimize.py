"""The minimizer: keeps the parts that cause the same failure, and nothing that is not needed."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.simulation import known_bug
from tests.simulation.attempt import Failure, Outcome, attempt
from tests.simulation.draw import draw_plan
from tests.simulation.keepers.plans import KEEPER, KEEPERS
from tests.simulation.minimize import minimize
from tests.simulation.plan import Fault, FaultKind, Plan
from tests.simulation.plan_file import read_plan, write_plan

CRASH = Fault(500, FaultKind.CRASH, 1, lasts_ms=100)
CUT = Fault(900, FaultKind.CUT, 2, (1,), 100)


def failed(kind: str, at_ms: int) -> Failure:
    return Failure(kind, kind, kind, at_ms)


def fails_of_two_faults(plan: Plan) -> Outcome:
    """Fail in one way with both faults, in another way with either."""
    known = {fault.kind for fault in plan.faults if fault in (CRASH, CUT)}
    failure = None
    if len(plan.servers) >= 2 and known:
        failure = failed("both" if len(known) == 2 else "one", 1_000)
    return Outcome(plan.seed, 0, 0, 0.0, None, failure)


def plan_with_both() -> Plan:
    """Return a large plan, with two faults that matter among many that do not."""
    drawn = next(plan for plan in map(draw_plan, range(1, 200)) if large(plan))
    # Drop other faults of the two kinds.
    others = [f for f in drawn.faults if f.kind not in (FaultKind.CRASH, FaultKind.CUT)]
    faults = tuple(sorted([*others, CRASH, CUT], key=lambda fault: fault.at_ms))
    return replace(drawn, faults=faults)


def large(plan: Plan) -> bool:
    return len(plan.faults) > 30 and len(plan.servers) == 5 and len(plan.clients) > 1


def test_the_minimizer_keeps_only_what_the_failure_needs() -> None:
    plan = plan_with_both()
    small = minimize(plan, failed("both", 1_000), fails_of_two_faults)
    assert small.is_complete
    assert {f.kind for f in small.plan.faults} == {FaultKind.CRASH, FaultKind.CUT}
    assert [server.server_id for server in small.plan.servers] == [1, 2]
    assert len(small.plan.clients) == 1
    assert small.plan.safety_ms == 1_001  # just enough for the failure at 1 000
    assert fails_of_two_faults(small.plan).failure == small.failure == failed("both", 1_000)


def test_another_kind_of_failure_is_not_followed() -> None:
    plan = replace(plan_with_both(), faults=(CRASH, CUT))
    small = minimize(plan, failed("both", 1_000), fails_of_two_faults)
    assert len(small.plan.faults) == 2


def test_keepers_and_their_servers_stay() -> None:
    plan = next(plan for seed in range(1, 50) if (plan := draw_plan(seed, KEEPER)).faults)
    fault = plan.faults[0]

    def fails_of_one_fault(tried: Plan) -> Outcome:
        failure = failed("Healed", 1_000) if fault in tried.faults else None
        return Outcome(tried.seed, 0, 0, 0.0, None, failure)

    small = minimize(plan, failed("Healed", 1_000), fails_of_one_fault).plan
    assert [client.number for client in small.clients] == list(range(1, KEEPERS + 1))
    assert len(small.servers) == len(plan.servers)
    assert small.faults == (fault,)


def test_the_minimizer_is_bounded_by_runs_and_seconds() -> None:
    plan = plan_with_both()
    few = minimize(plan, failed("both", 1_000), fails_of_two_faults, runs_max=3)
    assert (few.runs, few.is_complete) == (3, False)
    none = minimize(plan, failed("both", 1_000), fails_of_two_faults, seconds_max=0)
    assert (none.runs, none.is_complete, none.plan) == (0, False, plan)


def test_progress_reports_runs_and_the_best_plan() -> None:
    told: list[tuple[int, Plan]] = []
    small = minimize(
        plan_with_both(),
        failed("both", 1_000),
        fails_of_two_faults,
        progress=lambda runs, plan: told.append((runs, plan)),
    )
    assert [runs for runs, _ in told] == list(range(1, small.runs + 1))
    assert told[-1][1] == small.plan


def test_a_bug_is_found_made_small_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_bug.break_repeats(monkeypatch)
    tries = (attempt(draw_plan(seed)) for seed in range(1, 100))
    outcome = next(outcome for outcome in tries if outcome.failure is not None)
    assert outcome.failure is not None
    assert outcome.failure.kind.endswith(known_bug.WORDS)
    plan = draw_plan(outcome.seed)
    small = minimize(plan, outcome.failure, attempt, runs_max=30)
    assert len(small.plan.faults) < len(plan.faults)
    path = tmp_path / "plan.json"
    write_plan(path, "a repeated write is not answered", small.plan)
    again = attempt(read_plan(path).plan).failure
    assert again is not None
    assert again.kind.endswith(known_bug.WORDS)
    monkeypatch.undo()
    assert attempt(small.plan).failure is None  # the plan itself is correct
