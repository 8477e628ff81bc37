"""Many seeds: the summary, the report of a failure, and the ways to end."""

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from tests.simulation import known_bug
from tests.simulation.attempt import ROOT, Failure, Outcome
from tests.simulation.plan import OF_OTHER_WORLDS, FaultKind
from tests.simulation.plan_file import read_plan
from tests.simulation.simulate import GRACE_S, Options, simulate
from tests.simulation.summary import (
    COUNTS,
    UNREACHABLE,
    Tally,
    expected_notes,
    never_exercised,
    surprises,
)
from tests.simulation.world import Report


def console() -> tuple[Console, StringIO]:
    text = StringIO()
    return Console(file=text, width=120), text


def test_runs_start_without_ray() -> None:
    """Its import takes longer than a run of most seeds, in each process that is started."""
    program = (
        "import sys\n"
        "from tests.simulation.attempt import attempt\n"
        "from tests.simulation.draw import draw_plan\n"
        "assert attempt(draw_plan(1, 'jute')).failure is None\n"
        "sys.exit('ray' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)


def test_passing_seeds_are_summed_up() -> None:
    out, text = console()
    assert simulate(Options(1, 6, 2), out) == 0
    assert "6 runs passed" in text.getvalue()
    assert "election.decided" in text.getvalue()


def test_seeds_of_a_recipe_are_one_line() -> None:
    out, text = console()
    assert simulate(Options(1, 3, 1, recipe="lock"), out) == 0
    (line,) = [line for line in text.getvalue().splitlines() if line.startswith("lock: ")]
    assert line.startswith("lock: 3 runs, 0 failed") and "granted" in line


def test_a_failing_seed_of_a_recipe_names_its_replay_command() -> None:
    out, text = console()
    options = Options(1, 50, 1, failures_max=1, is_minimizing=False, recipe="lock")
    assert simulate(options, out, known_bug.break_for_good) == 1
    assert re.search(r"python -m tests.simulation --seed \d+ --recipe lock", text.getvalue())


def test_a_failing_seed_is_minimized_and_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    out, text = console()
    options = Options(1, 200, 2, failures_max=2, minimize_limit_s=2.0, folder=tmp_path)
    assert simulate(options, out, known_bug.break_for_good) == 1
    files = sorted(tmp_path.glob("seed-*.json"))
    assert len(files) >= 2
    for file in files:
        kept = read_plan(file)
        assert kept.comment.endswith(known_bug.WORDS)
        assert f"seed {kept.plan.seed} failed: AssertionError: no convergence" in text.getvalue()
        assert f"python -m tests.simulation --seed {kept.plan.seed}" in text.getvalue()
        assert file.read_text() in text.getvalue()
    assert "runs passed" not in text.getvalue()


def test_a_lost_process_is_a_failure_of_its_seed() -> None:
    out, text = console()
    no_time = Options(5, 1, 1, seed_limit_s=-GRACE_S)
    assert simulate(no_time, out) == 1
    assert "seed 5 failed: no answer within 0 s" in text.getvalue()


def test_an_interrupt_prints_the_summary_so_far() -> None:
    out, text = console()
    assert simulate(Options(1, 100_000, 1), out, known_bug.interrupt_parent) == 130
    assert "interrupted; the summary so far:" in text.getvalue()
    assert "never exercised" in text.getvalue()


def test_tally_adds_reports_and_only_the_steps_of_failures() -> None:
    report = Report(1, 10, 1_000, 70, {"crash": 2}, {"sync.diff": 3}, {"acked": 4})
    tally = Tally()
    tally.add(Outcome(1, 10, 1_000, 0.5, report, None))
    tally.add(Outcome(1, 10, 1_000, 0.5, report, None))
    tally.add(Outcome(2, 5, 500, 0.25, None, Failure("kind", "message", "detail", 500)))
    assert (tally.runs, tally.steps, tally.virtual_ms, tally.cpu_s) == (3, 25, 2_500, 1.25)
    assert tally.converged_ms_max == 70
    assert (tally.faults["crash"], tally.notes["sync.diff"], tally.counts["acked"]) == (4, 6, 8)


def test_never_exercised_is_everything_declared_that_did_not_occur() -> None:
    tally = Tally()
    everything = never_exercised(tally)
    assert everything == {
        "faults": sorted(kind.value for kind in set(FaultKind) - OF_OTHER_WORLDS),
        "notes": sorted(expected_notes()),
        "counts": sorted(COUNTS),
    }
    for counter, what in ((tally.faults, "faults"), (tally.notes, "notes")):
        counter.update(everything[what])
    tally.counts.update(set(COUNTS) - {"acked"})
    assert never_exercised(tally) == {"counts": ["acked"]}


def test_an_unreachable_trace_event_that_occurs_is_reported() -> None:
    tally = Tally()
    assert surprises(tally) == []
    name = sorted(UNREACHABLE)[0]
    tally.notes[name] += 1
    assert surprises(tally) == [name]


def test_only_existing_trace_events_are_declared_unreachable() -> None:
    assert not set(UNREACHABLE) & expected_notes()
    assert len(expected_notes()) > 40
