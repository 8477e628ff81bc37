"""The output of `raykeeper doctor`: findings to read, or a document for `--json`; its exit code."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from raykeeper.commands.output import Document, escaped

if TYPE_CHECKING:
    from raykeeper.clusters.doctor import Diagnosis, Finding

_STYLES = {"error": "red", "warning": "yellow"}
_CODES = {None: 0, "warning": 1, "error": 2}


def exit_code(diagnosis: "Diagnosis") -> int:
    """Return 0 if there is no finding, 1 with warnings, 2 with errors."""
    worst = diagnosis.worst
    return _CODES[None if worst is None else worst.value]


def show_diagnosis(console: Console, diagnosis: "Diagnosis") -> None:
    """Print each finding with what it means and what to do."""
    for finding in diagnosis.findings:
        _show_finding(console, finding)
    for what in diagnosis.unchecked:
        console.print(Text("not checked:", style="yellow"), escaped(what))
    looked = (
        f"{diagnosis.checks} checks of {_count(diagnosis.servers, 'server')} "
        f"and {_count(diagnosis.nodes, 'node')}"
    )
    if diagnosis.findings:
        errors = sum(each.severity.value == "error" for each in diagnosis.findings)
        warnings = len(diagnosis.findings) - errors
        told = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
        console.print(f"ensemble {diagnosis.name}: {told} in {looked}")
    else:
        healthy = "healthy, as far as it was checked," if diagnosis.unchecked else "healthy"
        console.print(f"ensemble {diagnosis.name}:", Text(healthy, style="green"), f"in {looked}")


def diagnosis_document(diagnosis: "Diagnosis") -> Document:
    """Return the same findings."""
    return {
        "name": diagnosis.name,
        "is_healthy": not diagnosis.findings,
        "findings": [
            {
                "rule": each.rule,
                "severity": each.severity.value,
                "about": each.about,
                "text": each.text,
                "meaning": each.meaning,
                "advice": each.advice,
            }
            for each in diagnosis.findings
        ],
        "checks": diagnosis.checks,
        "servers": diagnosis.servers,
        "nodes": diagnosis.nodes,
        "unchecked": diagnosis.unchecked,
    }


def _show_finding(console: Console, finding: "Finding") -> None:
    severity = finding.severity.value
    console.print(
        Text(f"{severity}:", style=_STYLES[severity]),
        f"{escaped(finding.about)}: {escaped(finding.text)} ({finding.rule})",
    )
    console.print(f"    means: {finding.meaning}")
    console.print(f"    do: {finding.advice}")


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else f'{what}s'}"
