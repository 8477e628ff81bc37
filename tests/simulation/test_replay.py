"""The command, a run's trace, and that one plan always leads to the same run."""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.simulation import known_bug
from tests.simulation.__main__ import app
from tests.simulation.attempt import ROOT, TooLongError, attempt
from tests.simulation.draw import draw_plan
from tests.simulation.plan import FaultKind
from tests.simulation.plan_file import read_plan, write_plan
from tests.simulation.replay import Replay, replay, show_plan
from tests.simulation.trace import Recorder, show_trace

SEEDS = range(1, 7)
PRINT_DIGESTS = f"""
from tests.simulation.test_replay import digest
for seed in {list(SEEDS)}:
    print(digest(seed))
"""


def digest(seed: int) -> str:
    recorder = Recorder()
    assert attempt(draw_plan(seed), trace=recorder).failure is None
    return recorder.digest()


def digests_elsewhere(hash_seed: str) -> list[str]:
    """Return the digests of another process, whose sets and dicts of strings have another order."""
    found = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.split()


def test_a_seed_decides_everything() -> None:
    here = [digest(seed) for seed in SEEDS]
    assert len(set(here)) == len(here)
    assert [digest(seed) for seed in SEEDS] == here
    assert digests_elsewhere("1") == digests_elsewhere("2") == here


def test_a_trace_does_not_change_the_run() -> None:
    silent, told = attempt(draw_plan(3)), attempt(draw_plan(3), trace=Recorder())
    assert silent.report == told.report
    assert silent.report is not None


def test_a_plan_file_holds_the_whole_plan(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "plan.json"
    write_plan(path, "why", draw_plan(11))
    assert (read_plan(path).comment, read_plan(path).plan) == ("why", draw_plan(11))


def test_a_run_that_never_ends_is_a_failure() -> None:
    def never_return(_now: int, _text: str) -> None:
        while True:
            pass

    failure = attempt(draw_plan(1), 0.2, never_return).failure
    assert failure is not None
    assert failure.kind.startswith(TooLongError.__name__)
    assert failure.is_endless


def test_routine_lines_are_shown_near_the_end_only() -> None:
    recorder = Recorder()
    attempt(draw_plan(3), trace=recorder)
    whole = [line.plain for line in show_trace(recorder.lines, None)]
    brief = [line.plain for line in show_trace(recorder.lines, 10)]
    assert len(whole) == len(recorder.lines)
    assert brief[-10:] == whole[-10:]
    assert any("requests, answers and deliveries" in line for line in brief)
    assert [line for line in whole if "election" in line] == [
        line for line in brief if "election" in line
    ]
    assert sum(" asks " in line for line in brief) < sum(" asks " in line for line in whole)


def test_a_failure_is_shown_with_its_small_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_bug.break_repeats(monkeypatch)
    seed = next(seed for seed in range(1, 100) if attempt(draw_plan(seed)).failure)
    text = StringIO()
    options = Replay(tail=20, folder=tmp_path, runs_max=15)
    outcome = replay(draw_plan(seed), options, Console(file=text, width=120))
    assert outcome.failure is not None
    assert outcome.failure.kind.endswith(known_bug.WORDS)
    shown = text.getvalue()
    assert shown.index("made") < shown.index("no convergence in 60000 ms")
    assert (tmp_path / f"seed-{seed}.json").exists()
    assert f"seed {seed} failed at" in shown


def test_a_plan_is_shown_whole_on_a_narrow_terminal() -> None:
    """The table shows every field and value, also the trigger and reaction of a triggered fault."""
    plan = draw_plan(17)
    text = StringIO()
    show_plan(plan, Console(file=text, width=80))
    shown = text.getvalue()
    assert "…" not in shown
    for part in (*plan.servers[:1], *plan.clients[:1]):
        assert all(name in shown for name in part.__struct_fields__[1:])
    words = " ".join(shown.split())
    fault = next(fault for fault in plan.faults if fault.kind is FaultKind.TRIGGERED)
    assert f"{fault.trigger} number {fault.amount}, {fault.delay_ms} ms later:" in words
    assert "leader" in shown and f"{plan.safety_ms} ms with faults" in shown


def test_the_command_replays_a_seed(tmp_path: Path) -> None:
    run = CliRunner().invoke
    passed = run(app, ["--seed", "3", "--trace", "5"])
    assert passed.exit_code == 0
    assert "seed 3 passed" in passed.output
    path = tmp_path / "plan.json"
    write_plan(path, "why", draw_plan(3))
    assert "seed 3 passed" in run(app, ["--plan", str(path), "--trace", "0"]).output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", "3", "--plan", "plan.json"],
        ["--trace", "5"],
        ["--seed", "3", "--trace", "some"],
        ["--plan", "/nowhere.json"],
        ["--plan", str(ROOT / "pyproject.toml")],
        ["simulate", "--seeds", "0"],
    ],
)
def test_wrong_usage_is_an_error(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_failing_plan_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    known_bug.break_repeats(monkeypatch)
    seed = next(seed for seed in range(1, 100) if attempt(draw_plan(seed)).failure)
    found = CliRunner().invoke(app, ["--seed", str(seed), "--no-minimize", "--trace", "0"])
    assert found.exit_code == 1
    assert f"seed {seed} failed at" in found.output
