"""The reports of `status`, `up`, `demo` and `chaos`: each a table, or a document for `--json`.

The types of the reported results are imported for type checkers only: `status` must not load the
demo, nor `--help` Ray.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.commands.output import Document, escaped, print_table
from raykeeper.zab.ids import ServerId, format_zxid

if TYPE_CHECKING:
    from raykeeper.chaos.checks.faults import FaultResult
    from raykeeper.chaos.checks.judge import HistoryReport
    from raykeeper.chaos.lose_nodes import LossReport, LossSettings
    from raykeeper.chaos.upgrade import UpgradeReport
    from raykeeper.clusters.ensemble_status import EnsembleStatus, ServerStatus
    from raykeeper.clusters.feature_level import FeatureLevelStatus
    from raykeeper.clusters.running_settings import SettingsDifferError
    from raykeeper.commands.demo.run import DemoReport

_COLORS = {"leader": "green", "down": "red", "looking": "yellow", "unreached": "yellow"}
_VIOLATIONS_MAX = 20
"""Violations that the table of a chaos run shows."""
_REFUSALS_MAX = 3
"""Different refusals of a kind of fault that it shows."""


def show_status(console: Console, report: "EnsembleStatus") -> None:
    """Print a table of the servers, and their problems below it."""
    from raykeeper.clusters.ensemble_status import problems_of

    console.print(f"ensemble {report.name}")
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "role", "epoch", "zxid", "pid", "Ray node", "linked to", "clients"):
        table.add_column(heading, no_wrap=True)
    for heading in ("sessions", "znodes", "watches", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    for server in report.servers:
        has_begun = server.role != "looking" or server.epoch > 0
        role = Text(server.role if has_begun else "starting", style=_COLORS.get(server.role, ""))
        if server.role in ("down", "unreached"):
            table.add_row(str(server.server_id), role)
            continue
        at = (str(server.epoch), format_zxid(server.last_zxid)) if has_begun else ("", "")
        numbers = (server.znodes, server.watches, server.outstanding)
        table.add_row(
            str(server.server_id),
            role,
            *at,
            str(server.pid),
            server.node_id[:8],
            _linked_to(server.carriers),
            _clients(server),
            _of(server.sessions, server.sessions_max),
            *(str(number) for number in numbers),
        )
    print_table(console, table)
    ports = ",".join(server.zookeeper for server in report.servers if server.zookeeper)
    if ports:
        console.print(f"for clients of ZooKeeper: {ports}")
    ports = ",".join(server.zookeeper_tls for server in report.servers if server.zookeeper_tls)
    if ports:
        console.print(f"for clients of ZooKeeper over TLS: {ports}")
    if report.feature_level is not None:
        console.print(_feature_level(report.feature_level))
    for files in _log_files(report.servers):
        console.print(Text(escaped(f"log lines: {files}")), soft_wrap=True)
    for server in report.servers:
        if server.clients_to_move is not None:
            told = f"it takes no clients, and has {server.clients_to_move} to move"
            console.print(f"server {server.server_id} is drained: {told}", style="yellow")
    if change := change_line(report):
        console.print(Text(escaped(change), style="yellow"))
    if report.leader is None:
        console.print(Text("no leader:", style="yellow"), report.reason or "")
    else:
        for problem in problems_of(report.servers):
            console.print(problem, style="yellow")


def _feature_level(level: "FeatureLevelStatus") -> str:
    """Format the level in force, and what the next one waits for."""
    text = f"feature level {level.in_force}"
    return f"{text}; {level.newest} waits for {level.waits_for}" if level.waits_for else text


def change_line(report: "EnsembleStatus") -> str:
    """Return what is said of a change of the members that has not ended; empty if there is none."""
    if report.change is None:
        return ""
    text = escaped(report.change.text)
    return f"a change of the members has not ended: {text} (raykeeper members {report.name})"


def _log_files(servers: "Sequence[ServerStatus]") -> list[str]:
    """Return where the log lines are, those of one folder together as a shell would expand them."""
    by_folder: dict[tuple[str, str], list[str]] = {}
    for server in servers:
        if server.log_file:
            path = Path(server.log_file)
            start, dash, number = path.stem.rpartition("-")
            by_folder.setdefault((f"{path.parent}/{start}{dash}", path.suffix), []).append(number)
    return [
        f"{start}{numbers[0] if len(numbers) == 1 else '{' + ','.join(numbers) + '}'}{suffix}"
        for (start, suffix), numbers in by_folder.items()
    ]


def status_document(report: "EnsembleStatus") -> Document:
    """Return the fields of `EnsembleStatus` and `ServerStatus`; server ids as keys are strings."""
    document = msgspec.to_builtins(report, str_keys=True)
    for shown, server in zip(document["servers"], report.servers, strict=True):
        shown["last_zxid"] = format_zxid(server.last_zxid)
    return dict(document)


def show_differences(console: Console, error: "SettingsDifferError") -> None:
    """Print each setting that runs otherwise than asked for, and how to change it."""
    console.print(f"ensemble {error.name} runs with other settings; nothing was changed")
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "runs with", "asked for"):
        table.add_column(heading)
    ways: dict[str, list[str]] = {}
    for each in error.differences:
        # Texts, for a value may hold what looks like markup.
        table.add_row(*map(Text, (each.setting, each.runs_with_text, each.asked_for_text)))
        ways.setdefault(each.how, []).append(each.setting)
    print_table(console, table)
    for how, settings in ways.items():
        console.print(Text(f"to change {', '.join(settings)}: {how}", style="yellow"))
    console.print("without these settings, `up` attaches the ensemble as it runs")


def differences_document(error: "SettingsDifferError") -> Document:
    """Return the fields of `SettingDifference`; server ids as keys are strings."""
    differences = msgspec.to_builtins(list(error.differences), str_keys=True)
    return {"name": error.name, "differences": differences}


def _clients(server: "ServerStatus") -> str:
    """Format the clients by carrier and their limit, such as `3 by stream of 19000`."""
    by_carrier = ", ".join(f"{number} by {by}" for by, number in sorted(server.clients.items()))
    return _of(by_carrier or "0", server.clients_max)


def _of(number: int | str, most: int) -> str:
    """Format a number and its limit; a server that is starting has no limit yet."""
    return f"{number} of {most}" if most else str(number)


def _linked_to(carriers: Mapping[ServerId, str]) -> str:
    """Format the linked servers by carrier, such as `1, 3 by stream`."""
    peers: dict[str, list[str]] = {}
    for peer, carrier in carriers.items():
        peers.setdefault(carrier, []).append(str(peer))
    return ", ".join(f"{', '.join(ids)} by {carrier}" for carrier, ids in peers.items()) or "none"


def show_counts(console: Console, report: "DemoReport") -> None:
    """Print the counts of each file next to those of a plain loop, and whether they agree."""
    table = Table(box=None, pad_edge=False)
    for heading in ("file", "words", "different", "plain count"):
        table.add_column(heading, justify="left" if heading == "file" else "right")
    for count in report.files:
        wrong = Text(str(count.plain_words), style="red")
        verdict = "the same" if count.is_right else wrong
        table.add_row(count.file, str(count.words), str(count.different), verdict)
    print_table(console, table)
    if report.wrong_files:
        console.print(Text("wrong counts", style="red"), f"in {', '.join(report.wrong_files)}")
    else:
        console.print(
            f"{report.words} words, counted right in {report.seconds:.1f} s although two processes "
            f"were killed"
        )


def counts_document(report: "DemoReport") -> Document:
    """Return the same numbers."""
    return {
        "is_right": not report.wrong_files,
        "words": report.words,
        "seconds": report.seconds,
        "files": msgspec.to_builtins(report.files),
    }


def show_verdict(
    console: Console, total: "HistoryReport", circumstances: Mapping[str, str]
) -> None:
    """Print a table, one of the faults, then the first violations and refusals."""
    table = Table(box=None, show_header=False, pad_edge=False)
    rows: dict[str, str | Text] = {
        **circumstances,
        "operations": f"{total.operations}, {total.unknown} of them with an unknown outcome",
        "acknowledged writes": str(total.acked_writes),
        "sessions": str(total.sessions),
        "longest gap in writes": f"{total.longest_gap_ns / 1e9:.1f} s",
        "lost acknowledged writes": _count(total.lost),
        "violations": _count(total.violations),
    }
    if total.faults:
        rows["faults"] = str(sum(result.number for result in total.faults.values()))
    if total.client_errors is not None:
        rows["client errors"] = _count(total.client_errors)
    if total.undecided:
        rows["undecided znodes"] = f"{len(total.undecided)}, judged by all other checks only"
    for name, value in rows.items():
        table.add_row(name, value)
    print_table(console, table)
    if total.faults:
        _show_faults(console, total.faults)
    for text in (total.lost + total.violations + (total.client_errors or []))[:_VIOLATIONS_MAX]:
        console.print(text, style="red")


def _show_faults(console: Console, faults: "Mapping[str, FaultResult]") -> None:
    console.print()
    table = Table(box=None, pad_edge=False)
    for heading in ("fault", "times", "refused", "operator killed", "longest gap in writes"):
        table.add_column(heading, justify="left" if heading == "fault" else "right")
    for kind, result in faults.items():
        counts = (result.number, len(result.refusals), result.cut_off)
        table.add_row(kind, *map(str, counts), f"{result.longest_gap_ns / 1e9:.1f} s")
    print_table(console, table)
    for kind, result in faults.items():
        for refusal, times in Counter(result.refusals).most_common(_REFUSALS_MAX):
            told = f"{kind} refused, {times} times: {escaped(refusal)}"
            console.print(Text(told), soft_wrap=True)


def verdict_document(
    total: "HistoryReport", *, seed: int | None = None, records: Path | None = None
) -> Document:
    """Return the numbers of the tables, and all violations and refusals."""
    return {
        "is_clean": total.is_clean,
        "seed": seed,
        "faults": {kind: result.number for kind, result in total.faults.items()},
        "fault_results": {
            kind: {
                "number": result.number,
                "operators_killed": result.cut_off,
                "refusals": result.refusals,
                "longest_gap_s": result.longest_gap_ns / 1e9,
            }
            for kind, result in total.faults.items()
        },
        "operations": total.operations,
        "unknown_outcomes": total.unknown,
        "acknowledged_writes": total.acked_writes,
        "sessions": total.sessions,
        "longest_gap_s": total.longest_gap_ns / 1e9,
        "lost_writes": total.lost,
        "violations": total.violations,
        "client_errors": total.client_errors,
        "undecided_znodes": total.undecided,
        "records": None if records is None else str(records),
    }


def show_losses(console: Console, report: "LossReport", settings: "LossSettings") -> None:
    """Print a row for each figure with its goal, and what is said of stale folders."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "measured", "goal"):
        table.add_column(heading)
    for name, value in _circumstances(report, settings).items():
        table.add_row(name.replace("_", " "), str(value), "")
    for row in report.rows:
        measured = Text(escaped(row.measured), style="" if row.is_met else "red")
        table.add_row(row.name, measured, row.goal)
    print_table(console, table)
    for line in report.lines:
        console.print(line)
    for text in (report.history.lost + report.history.violations)[:_VIOLATIONS_MAX]:
        console.print(text, style="red")


def losses_document(report: "LossReport", settings: "LossSettings") -> Document:
    """Return the same figures, and all violations."""
    return {
        "is_met": report.is_met,
        **_circumstances(report, settings),
        "rows": msgspec.to_builtins(report.rows),
        "lines": report.lines,
        "lost_writes": report.history.lost,
        "violations": report.history.violations,
        "records": None if report.records is None else str(report.records),
    }


def show_upgrade(console: Console, report: "UpgradeReport", seed: int) -> None:
    """Print the verdict on an upgrade; what was missed beside what was expected."""
    rows = {
        row.name: row.measured if row.is_met else f"{row.measured}, not {row.goal}"
        for row in report.rows
    }
    show_verdict(console, report.history, {"seed": str(seed), **rows})


def upgrade_document(report: "UpgradeReport", seed: int) -> Document:
    """Return the document of a verdict, with the rows of the upgrade."""
    verdict = verdict_document(report.history, seed=seed, records=report.records)
    rows = msgspec.to_builtins(report.rows)
    return {"is_met": report.is_met, "rows": rows, **verdict}


def _circumstances(report: "LossReport", settings: "LossSettings") -> dict[str, float]:
    return {
        "seed": settings.seed,
        "tree_mb": settings.tree_mb,
        "heal_after_s": settings.heal_after_s,
        "operations": report.history.operations,
        "acknowledged_writes": report.history.acked_writes,
    }


def _count(found: list[str]) -> Text:
    return Text(str(len(found)), style="red" if found else "")
