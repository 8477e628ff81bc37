"""The trace of a run for a reader, one line for each event: time, process, event.

Routine lines (requests, answers, deliveries) are shown only near the end, where a failure is; the
others (elections, links, faults, sessions, snapshots) are shown for the whole run.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b

from rich.text import Text

from raykeeper.actors.replica_logger import trace_fields
from raykeeper.zab.effects import TraceEvent

_WHO = re.compile(r"(server|client|session|link) [\w:.-]+?(?=:? )")
_ROUTINE = re.compile(r"(server|client) \S+ (asks|is told|sees|delivers)\b")
_STYLES = (
    (re.compile(r"^fault|^the faults"), "magenta"),
    (re.compile(r"crash|dies|LOST|lost|expire|refuse|damaged|fails"), "red"),
    (re.compile(r"election|leader|role|epoch|learner|vote|member"), "cyan"),
    (re.compile(r"snapshot|sync\."), "yellow"),
)


def note_in_words(note: TraceEvent) -> str:
    """Describe a trace event of a server, its fields by name as in a server's log."""
    fields = trace_fields(note).items()
    return " ".join([note.name, *(f"{name}={value}" for name, value in fields)])


class Recorder:
    """Collects the lines of a run: `World(plan, recorder)`."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def __call__(self, now: int, text: str) -> None:
        """Add a line at a moment in virtual milliseconds."""
        self.lines.append((now, text))

    def digest(self) -> str:
        """Return a digest that is equal for two runs if and only if their lines are."""
        digest = blake2b(digest_size=16)
        for now, text in self.lines:
            digest.update(f"{now} {text}\n".encode())
        return digest.hexdigest()


def show_trace(lines: list[tuple[int, str]], tail: int | None) -> Iterator[Text]:
    """Return the lines to print: all of the last `tail`, and before them only non-routine lines.

    `None` means every line.
    """
    first_of_tail = 0 if tail is None else max(0, len(lines) - tail)
    skipped = 0
    for index, (now, text) in enumerate(lines):
        if index < first_of_tail and _ROUTINE.match(text):
            skipped += 1
            continue
        if skipped:
            yield Text(f"          … {skipped} requests, answers and deliveries", style="dim")
            skipped = 0
        yield _line(now, text)


def _line(now: int, text: str) -> Text:
    who = _WHO.match(text)
    name = who.group() if who else ""
    what = text[len(name) :].removeprefix(":").strip()
    line = Text(f"{now / 1000:>9.3f} ", style="dim")
    line.append(f"{name:<10} ", style="bold")
    line.append(what, style=_style(text))
    return line


def _style(text: str) -> str:
    if _ROUTINE.match(text):
        return "dim"
    return next((style for pattern, style in _STYLES if pattern.search(text)), "default")
