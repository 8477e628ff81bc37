"""What `--json` prints: one document on standard output. docs/COMMAND_LINE.md lists all fields.

Their names and meanings are kept as those of the Python interface are. A zxid is a text,
`<epoch>:<counter>`, a time is ISO 8601 in UTC, a value is a text if it is UTF-8, else base64.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

Document = Mapping[str, Any]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and all else to standard error.")
]


def print_document(document: Document, *, in_one_line: bool = False) -> None:
    """Print a document, in ASCII: it is the same JSON in every terminal."""
    typer.echo(json.dumps(document, indent=None if in_one_line else 2))
