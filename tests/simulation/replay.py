"""Show one run: plan, trace, result; a failing plan is minimized first."""

from enum import Enum
from functools import partial
from pathlib import Path

from msgspec import Struct, structs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from tests.simulation.attempt import Failure, Outcome, attempt
from tests.simulation.minimize import RUNS_MAX, Minimized, minimize
from tests.simulation.plan import WITHOUT_TARGET, ClientPlan, Fault, FaultKind, Plan, ServerPlan
from tests.simulation.plan_file import name_of, write_plan
from tests.simulation.summary import Tally, show_counts
from tests.simulation.trace import Recorder, show_trace

TAIL = 60


class Replay(Struct, frozen=True):
    """Options of showing a run.

    `tail` is the number of last lines that are shown in full: None for all, 0 for no trace.
    `folder` gets the minimized plan; None: do not minimize.
    """

    tail: int | None = TAIL
    folder: Path | None = None
    limit_s: float = 120.0
    runs_max: int = RUNS_MAX


def replay(plan: Plan, options: Replay, console: Console) -> Outcome:
    """Run `plan`, and show it."""
    recorder = Recorder()
    outcome = attempt(plan, options.limit_s, recorder)
    failure = outcome.failure
    if failure is not None and not failure.is_endless and options.folder is not None:
        console.print(f"seed {plan.seed} fails, minimizing: {failure.kind}", markup=False)
        small = _shrink(plan, failure, options, console)
        recorder = Recorder()
        outcome, plan = attempt(small.plan, options.limit_s, recorder), small.plan
    show_plan(plan, console)
    if options.tail != 0:
        for line in show_trace(recorder.lines, options.tail):
            console.print(line, soft_wrap=True)
    _show_verdict(outcome, console)
    return outcome


def show_plan(plan: Plan, console: Console) -> None:
    """Print the plan as tables."""
    console.print(
        f"seed {plan.seed}: {plan.safety_ms} ms with faults, links take up to "
        f"{plan.delay_ms_max} ms, counters of {plan.counter_bits} bits, {len(plan.faults)} faults"
        f"{', at last too many disks are lost' if plan.loses_majority else ''}"
        f"{f', members of the recipe {plan.recipe}' if plan.recipe else ''}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_table("server", plan.servers))
    console.print(_table("client", plan.clients))
    if plan.faults:
        table = Table(box=None)
        for name in ("at", "fault", "target", "lasts", "how"):
            table.add_column(name, justify="left" if name in ("fault", "how") else "right")
        for fault in plan.faults:
            table.add_row(*_fault_row(fault))
        console.print(table)


def _table(title: str, parts: tuple[ServerPlan, ...] | tuple[ClientPlan, ...]) -> Table:
    """Build a table with a column for each server or client: field names are longer than values."""
    table = Table(box=None)
    rows = [structs.astuple(part) for part in parts]
    first, *names = parts[0].__struct_fields__ if parts else [""]
    assert not parts or first in ("server_id", "number"), first
    table.add_column(title)
    for row in rows:
        table.add_column(str(row[0]), justify="right")
    for place, name in enumerate(names, 1):
        table.add_row(name, *(_in_words(row[place]) for row in rows))
    return table


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value.value if isinstance(value, Enum) else value)


def _fault_row(fault: Fault) -> tuple[str, ...]:
    who = "client" if "client" in fault.kind.value else "server"
    whom = f"{who} {fault.target}" if fault.target else "leader"
    target = "" if fault.kind in WITHOUT_TARGET else whom
    how = []
    if fault.kind is FaultKind.TRIGGERED:
        how = [f"{fault.trigger} number {fault.amount}, {fault.delay_ms} ms later: "]
        next_one = "the next" if fault.campaign else "again"
        how += [fault.reaction, f"; {next_one} after {fault.again_ms} ms" if fault.again_ms else ""]
    else:
        how += [f"with {', '.join(map(str, fault.others))} "] if fault.others else []
        how += [f"by {fault.amount}"] if fault.amount else []
    lasts = f"{fault.lasts_ms} ms" if fault.lasts_ms else ""
    return f"{fault.at_ms / 1000:.3f}", fault.kind.value, target, lasts, "".join(how)


def _shrink(plan: Plan, failure: Failure, options: Replay, console: Console) -> Minimized:
    assert options.folder is not None
    with Progress(
        TextColumn("minimizing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs, {task.fields[faults]} faults left"),
        console=console,
        transient=True,
    ) as progress:
        bar = progress.add_task("", total=options.runs_max, faults=len(plan.faults))
        small = minimize(
            plan,
            failure,
            partial(attempt, limit_s=options.limit_s),
            runs_max=options.runs_max,
            progress=lambda runs, best: progress.update(
                bar, completed=runs, faults=len(best.faults)
            ),
        )
    path = options.folder / f"{name_of(plan.seed, plan.recipe)}.json"
    write_plan(path, small.failure.kind, small.plan)
    console.print(
        f"{len(plan.faults)} faults made {len(small.plan.faults)} in {small.runs} runs"
        f"{'' if small.is_complete else ', more might be possible'}: {path}",
        soft_wrap=True,
    )
    return small


def _show_verdict(outcome: Outcome, console: Console) -> None:
    failure = outcome.failure
    if failure is None:
        tally = Tally()
        tally.add(outcome)
        show_counts(tally, console)
        console.print(
            f"seed {outcome.seed} passed: {outcome.steps} steps, "
            f"{outcome.virtual_ms / 1000:.1f} s of virtual time, {outcome.cpu_s:.2f} s of a core",
            style="bold green",
            highlight=False,
        )
        return
    console.print(failure.detail, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"seed {outcome.seed} failed at {failure.at_ms / 1000:.3f} s: {failure.message}",
        style="bold red",
        markup=False,
        soft_wrap=True,
    )
