"""What Tab offers at the prompt of the shell."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raykeeper.client import Client
from raykeeper.commands import shell_completion
from raykeeper.commands.shell_completion import PromptCompleter
from raykeeper.commands.shell_usage import USAGE
from tests.contract.client_handles import Room, open_blocking


@pytest.fixture
def client() -> Iterator[Client]:
    with open_blocking(Room())() as client:
        for path in ("/app/b", "/app/a", "/app/a b", "/app/a'b", "/app/$x", "/apps"):
            client.create(path, makepath=True)
        yield client


def offered(client: Client, line: str) -> list[str]:
    before, _, word = line.rpartition(" ")
    completer = PromptCompleter(client, lambda: before)
    found: list[str] = []
    while (each := completer.complete(word, len(found))) is not None:
        found.append(each)
    return found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", [*(f"{each} " for each in USAGE), "help ", "quit "]),
        ("s", ["stat ", "set "]),
        ("nothing", []),
        ("ls /a", ["/app", "/apps"]),
        # Names that the prompt would have to quote are not offered.
        ("get /app/", ["/app/a", "/app/b"]),
        ("delete -r /app/b", ["/app/b"]),
        ("ls /missing/", []),
        ("ls a", []),
        ("ls ", []),
        ("ls //", []),
        ("ls /../", []),
    ],
)
def test_commands_and_paths_are_offered(client: Client, line: str, words: list[str]) -> None:
    assert offered(client, line) == words


def test_a_long_list_of_children_is_not_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_completion, "CHILDREN_MAX", 4)
    assert offered(client, "ls /app/") == []
    assert offered(client, "ls /app") == ["/app", "/apps"]


def test_an_ensemble_that_does_not_answer_offers_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_completion, "ANSWER_S", 0.0)
    assert offered(client, "ls /app/") == []
    monkeypatch.undo()
    client.close()
    assert offered(client, "ls /app/") == []


def test_tab_completes_a_line_at_a_terminal() -> None:
    program = """
from raykeeper.commands.shell_completion import install_completion
from tests.contract.client_handles import Room, open_blocking

with open_blocking(Room())() as client:
    client.create("/orders/pending", makepath=True)
    install_completion(client)
    print("read", input("> "))
"""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=theirs,
        env={**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null"},
        cwd=Path(__file__).parents[3],
    ) as reader:
        os.close(theirs)
        printed = b""
        while b"> " not in printed:
            printed += os.read(ours, 4096)
        os.write(ours, b"ge\t/or\t/p\t\n")
        try:
            while chunk := os.read(ours, 4096):
                printed += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
        assert reader.wait(60) == 0
    os.close(ours)
    assert b"read get /orders/pending\r\n" in printed, printed
