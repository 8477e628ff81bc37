"""The summary of many runs: what occurred, and what never did.

Something that can occur and never did is a gap in the simulation, so all that should occur is
declared: each kind of fault, each trace event of the servers, each count of the clients. What
cannot occur in the simulated world is declared too, with the reason, and reported if it does.
"""

from collections import Counter
from typing import Final

from msgspec import Struct, field
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from raykeeper.actors.disk import storage_trace_events
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from tests.simulation import client_log
from tests.simulation.attempt import Failure, Outcome
from tests.simulation.plan import OF_OTHER_WORLDS, FaultKind


def names_in(module: object) -> set[str]:
    """Return the names of the trace events that a module declares."""
    return {value for name, value in vars(module).items() if name.isupper()}


UNREACHABLE: Final[dict[str, str]] = {
    trace_events.MESSAGE_ILLEGAL: "peers keep the protocol, links the order: it fails the run",
    **dict.fromkeys(
        (
            trace_events.ACK_DUPLICATE,
            trace_events.COMMIT_DUPLICATE,
            trace_events.PROPOSAL_DUPLICATE,
        ),
        "servers say nothing twice on a link; those that do, see tests/fuzz/test_peers.py",
    ),
    server_trace_events.WATCHES_FULL: "clients watch few paths",
    **dict.fromkeys(
        names_in(storage_trace_events), "a simulated disk has no files: see tests/contract"
    ),
}
"""Notes that the simulated world does not lead to, and why."""

COUNTS: Final[frozenset[str]] = client_log.EXPECTED | {"acked", "majority_lost", "repairs", "txns"}
"""What the clients and the checks should count."""


_STORY: Final = (
    ("elections won", "notes", trace_events.LEADER_ESTABLISHED),
    ("followers synchronized: by a DIFF", "notes", trace_events.SYNC_DIFF),
    ("… from the log on disk", "notes", trace_events.SYNC_READ_LOG),
    ("… by a truncation", "notes", trace_events.SYNC_TRUNC),
    ("… by a snapshot", "notes", trace_events.SYNC_SNAPSHOT),
    ("snapshots published", "notes", server_trace_events.SNAPSHOT_PUBLISHED),
    ("disks begun anew", "counts", "repairs"),
    ("votes regained, noted by each server", "notes", trace_events.VOTE_REPLACED),
    ("full disks met", "notes", server_trace_events.DISK_FULL),
    ("differing trees found", "notes", server_trace_events.DIGEST_DIFFERS),
    ("sessions expired", "notes", server_trace_events.SESSION_EXPIRED),
    (
        "… without waiting, because the process is dead",
        "notes",
        server_trace_events.SESSION_PROCESS_DIED,
    ),
    ("sessions taken up again", "notes", server_trace_events.SESSION_FENCED),
    ("handles LOST", "counts", "state.LOST"),
    ("handles SUSPENDED", "counts", "state.SUSPENDED"),
    ("writes acknowledged", "counts", "acked"),
)
"""What a reader looks for first, under its plain name."""


class Failed(Struct, frozen=True):
    """A seed that failed, and the command that replays it."""

    seed: int
    failure: Failure
    replay: str


class Tally(Struct):
    """The sums over many runs."""

    runs: int = 0
    steps: int = 0
    virtual_ms: int = 0
    cpu_s: float = 0.0
    converged_ms_max: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[Failed] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Add a run; only the steps of a failed one count."""
        self.runs += 1
        self.steps += outcome.steps
        self.virtual_ms += outcome.virtual_ms
        self.cpu_s += outcome.cpu_s
        if (report := outcome.report) is not None:
            self.converged_ms_max = max(self.converged_ms_max, report.converged_ms)
            self.faults.update(report.faults)
            self.notes.update(report.notes)
            self.counts.update(report.counts)


def expected_notes() -> set[str]:
    """Return every trace event that runs should lead to."""
    modules = (trace_events, server_trace_events, storage_trace_events)
    return set().union(*map(names_in, modules)) - set(UNREACHABLE)


def never_exercised(tally: Tally) -> dict[str, list[str]]:
    """Return what should have occurred and did not, by its category."""
    expected = {
        "faults": {kind.value for kind in set(FaultKind) - OF_OTHER_WORLDS} - set(+tally.faults),
        "notes": expected_notes() - set(+tally.notes),
        "counts": COUNTS - set(+tally.counts),
    }
    return {what: sorted(names) for what, names in expected.items() if names}


def surprises(tally: Tally) -> list[str]:
    """Return what occurred although it is declared as unreachable."""
    return sorted(set(UNREACHABLE) & set(+tally.notes))


def show(tally: Tally, wall_s: float, console: Console) -> None:
    """Print the summary."""
    console.print(_totals(tally, wall_s))
    show_counts(tally, console)
    console.print(_verdict(tally))


def show_recipe(recipe: str, tally: Tally, wall_s: float, console: Console) -> None:
    """Print a line about the runs of a recipe, and the failures."""
    own = {k.partition(".")[2]: n for k, n in tally.counts.items() if k.startswith("recipe.")}
    words = "; ".join(f"{name} {count:,}" for name, count in sorted(own.items()))
    runs = f"{tally.runs:,} runs, {len(tally.failed):,} failed"
    lost = f"{sum(tally.faults.values()):,} faults, {tally.counts['state.LOST']:,} sessions lost"
    style = "bold red" if tally.failed else "bold green"
    text = f"{recipe}: {runs}, {wall_s:,.0f} s; {lost}; {words}"
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
    for failed in tally.failed:
        console.print(f"seed {failed.seed} failed: {failed.failure.message}", markup=False)
        console.print(f"  {failed.replay}", markup=False, soft_wrap=True)


def show_counts(tally: Tally, console: Console) -> None:
    """Print how often everything occurred."""
    groups = (("faults", tally.faults), ("notes", tally.notes), ("counts", tally.counts))
    console.print(Columns([_counted(title, counter) for title, counter in groups], padding=(0, 4)))


def _totals(tally: Tally, wall_s: float) -> Table:
    table = Table.grid(padding=(0, 2))
    runs = max(tally.runs, 1)
    for name, value in (
        ("runs", f"{tally.runs:,}"),
        ("failed", f"{len(tally.failed):,}"),
        ("steps", f"{tally.steps:,}"),
        ("steps/s of one core", f"{tally.steps / max(tally.cpu_s, 1e-9):,.0f}"),
        ("virtual time", f"{tally.virtual_ms / 3_600_000:,.1f} h"),
        ("slowest convergence", f"{tally.converged_ms_max:,} virtual ms"),
        ("real time", f"{wall_s:,.1f} s, {tally.cpu_s:,.1f} s of cores"),
        ("a run", f"{tally.cpu_s / runs * 1000:,.0f} ms of a core, {tally.steps // runs:,} steps"),
    ):
        table.add_row(name, value)
    counters = {"notes": tally.notes, "counts": tally.counts}
    for words, what, name in _STORY:
        table.add_row(words, f"{counters[what][name]:,}")
    return table


def _counted(title: str, counter: Counter[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1))
    table.add_column()
    table.add_column(justify="right")
    for name in sorted(counter):
        table.add_row(name, f"{counter[name]:,}")
    return table


def _verdict(tally: Tally) -> RenderableType:
    lines = [Text("never exercised: " + _listed(never_exercised(tally)), style="yellow")]
    lines += [
        Text(f"unexpected: {name} ({UNREACHABLE[name]})", style="yellow")
        for name in surprises(tally)
    ]
    for failed in tally.failed:
        lines.append(Text(f"seed {failed.seed} failed: {failed.failure.message}", style="bold red"))
        lines.append(Text(f"  {failed.replay}"))
    if not tally.failed:
        lines.append(Text(f"{tally.runs:,} runs passed", style="bold green"))
    return Group(*lines)


def _listed(never: dict[str, list[str]]) -> str:
    return "; ".join(f"{what} {', '.join(names)}" for what, names in never.items()) or "nothing"
