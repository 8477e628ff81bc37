"""What `--json` prints is one document of JSON, in ASCII."""

import json

import pytest

from raykeeper.commands.documents import print_document

DOCUMENT = {"path": "/größe/[red]", "value": "\x1b[31m\n", "stat": {"version": 1}, "none": None}


def test_a_document_is_printed_as_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(DOCUMENT)
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == DOCUMENT


def test_an_event_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(DOCUMENT, in_one_line=True)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == DOCUMENT
