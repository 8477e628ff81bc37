"""The output of `--json`: one document on standard output. docs/COMMAND_LINE.md lists all fields.

Names and meanings of the fields are as stable as the Python interface. A zxid is a string,
`<epoch>:<counter>`; a time is ISO 8601 in UTC; a value is a string if it is UTF-8, else base64.
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
    """Print a document in ASCII, which is the same in every terminal."""
    typer.echo(json.dumps(document, indent=None if in_one_line else 2))
