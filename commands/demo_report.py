"""The final report of `raykeeper demo`: a table, or a document."""

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.clusters.demo.run import DemoReport
from raykeeper.commands.consoles import print_table
from raykeeper.commands.documents import Document


def show_counts(console: Console, report: DemoReport) -> None:
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


def counts_document(report: DemoReport) -> Document:
    """Return the same numbers."""
    return {
        "is_right": not report.wrong_files,
        "words": report.words,
        "seconds": report.seconds,
        "files": msgspec.to_builtins(report.files),
    }
