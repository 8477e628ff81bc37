"""`raykeeper inspect` and `raykeeper log` as they are called: output, exit codes, errors."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from raykeeper.actors.disk.identity import IDENTITY_FILE
from raykeeper.commands.command_line import main
from raykeeper.znodes.requests import SetData
from tests.contract.server_folders import ServerFolder, UnforcedFiles
from tests.model.histories import START, Command, written
from tests.unit.commands.test_command_line import modules_of

COMMANDS: list[Command] = [
    *START,
    *(("write", 0, SetData("/a", b"v" * 60, -1)) for _ in range(12)),
]
LOG = written(COMMANDS).log


class Result(NamedTuple):
    code: object
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*words: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["raykeeper", *map(str, words)])
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return Result(code or 0, printed.out, printed.err)

    return run


@pytest.fixture
def server(tmp_path: Path) -> ServerFolder:
    server = ServerFolder(tmp_path / "coord" / "1", UnforcedFiles())
    server.append(LOG[:6])
    server.snapshot()
    server.append(LOG[6:])
    return server


def test_each_command_looks_into_the_folder_of_a_running_server(
    run: Run, server: ServerFolder
) -> None:
    folder = server.folder
    listed = run("inspect", "list", folder)
    assert (listed.code, listed.err) == (0, "")
    assert all(path.name in listed.out for path in (*server.snapshots(), *server.segments()))
    assert json.loads(run("inspect", "list", folder, "--json").out)["last"] == "1:17"
    verified = run("inspect", "verify", folder)
    assert (verified.code, verified.out.splitlines()[-1]) == (0, "good")
    document = json.loads(run("inspect", "verify", "--no-digest", "--json", folder).out)
    assert (document["is_good"], document["digests"]) == (True, {})
    same = run("inspect", "diff", folder, folder)
    assert (same.code, same.out) == (0, "the same: a at 1:16, b at 1:16\n")
    assert json.loads(run("inspect", "diff", folder, folder, "--json").out)["is_same"] is True
    told = run("log", folder)
    assert (told.code, len(told.out.splitlines())) == (0, 17)


def test_a_dump_is_a_document_on_each_line(run: Run, server: ServerFolder) -> None:
    folder = server.folder
    lines = run("inspect", "dump", folder).out.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("transaction") == 17 and kinds[0] == "snapshot"
    log = run("inspect", "dump", folder, "--log", "--after", "1:2", "--upto", "1:4").out
    what, *dumped = map(json.loads, log.splitlines())
    assert what == {"kind": "log", "after": "0:0", "upto": "1:17", "committed": "1:16"}
    assert [line["zxid"] for line in dumped] == ["1:3", "1:4"]
    snapshot = run("inspect", "dump", folder, "--snapshot").out
    assert snapshot.splitlines() == lines[: len(snapshot.splitlines())]
    (file,) = server.snapshots()
    assert run("inspect", "dump", file).out == snapshot
    assert run("inspect", "dump", folder, "--snapshot", "--log").out.splitlines() == lines


def test_the_log_is_told_in_part(run: Run, server: ServerFolder) -> None:
    folder = server.folder
    options = ("--path", "/", "-r", "--session", "0x40000000001", "--since", "1970-01-01", "--last")
    told = run("log", folder, *options, "2", "--until", "0s", "--json")
    *lines, last = map(json.loads, told.out.splitlines())
    assert [line["zxid"] for line in lines] == ["1:16", "1:17"]
    assert (last["type"], last["found"], last["transactions"]) == ("summary", 13, 17)
    nothing = run("log", folder, "--since", "1h")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err.startswith("0 of 17 transactions, after 0:0 up to 1:17, from 1970-01-01")


def test_a_log_that_begins_later_does_not_say_that_nobody_changed_a_znode(
    run: Run, server: ServerFolder
) -> None:
    server.segments()[0].unlink()
    told = run("log", server.folder, "--path", "/no")
    assert (told.code, told.out) == (4, "")
    assert "what was before is not in the log of this folder\n" in told.err
    (line,) = (told := run("log", server.folder, "--path", "/no", "--json")).out.splitlines()
    assert (told.code, json.loads(line)["holds_all"]) == (4, False)
    assert run("log", server.folder, "--path", "/a").code == 0


def test_differences_are_told_and_counted(run: Run, server: ServerFolder, tmp_path: Path) -> None:
    other = ServerFolder(tmp_path / "other", UnforcedFiles())
    changed = written([*COMMANDS[:8], ("write", 0, SetData("/a", b"w", -1)), *COMMANDS[9:]]).log
    other.append(changed[:9])
    differ = run("inspect", "diff", server.folder, other.folder)
    assert (differ.code, differ.err) == (1, "")
    first, second, last = differ.out.splitlines()
    assert first.startswith("! session 0x40000000001: reply_cache [")
    assert second.startswith("! /a: value 60 bytes, crc32 0x")
    assert last == "only in a: 0, only in b: 0, not the same: 2; a at 1:9, b at 1:9"
    lines = run("inspect", "diff", server.folder, other.folder, "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["session", "znode", "summary"]


def test_damage_is_told_with_exit_code_1(run: Run, server: ServerFolder) -> None:
    segment = server.segments()[0]
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    listed = run("inspect", "list", server.folder)
    assert (listed.code, listed.err) == (0, "") and f"damaged: {segment} is damaged" in listed.out
    verified = run("inspect", "verify", server.folder)
    assert (verified.code, verified.err) == (1, "") and f"damaged: {segment}" in verified.out
    document = json.loads(run("inspect", "verify", server.folder, "--json").out)
    assert document["is_good"] is False and str(segment) in document["problems"][0]
    for words in (("inspect", "dump", server.folder), ("log", server.folder)):
        told = run(*words)
        assert told.code == 1 and told.out != ""
        assert (
            told.err.startswith(f"error: {segment} is damaged after 0:0")
            and told.err.count("\n") == 1
        )


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "list"),
        ("inspect", "verify"),
        ("inspect", "dump"),
        ("inspect", "diff", "SAME"),
        ("log",),
        ("log", "--json"),
    ],
)
def test_what_is_no_folder_is_one_line_of_error(
    run: Run, server: ServerFolder, words: tuple[str, ...]
) -> None:
    given = [server.folder if word == "SAME" else word for word in words]
    for place, text in (
        (server.folder / "missing", "does not exist; expected the data folder of a server"),
        (server.folder.parent, "neither an identity nor data; expected the data folder"),
    ):
        told = run(*given, place)
        assert (told.code, told.out) == (1, "")
        assert told.err.startswith("error: ") and text in told.err and told.err.count("\n") == 1
    (server.folder / IDENTITY_FILE).write_bytes(b'{"format_version": 1}\n')
    told = run(*given, server.folder)
    assert (told.code, told.out) == (1, "")
    assert "identity has version 1; this program reads 2" in told.err


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "dump", "FOLDER", "--after", "17"),
        ("inspect", "dump", "FOLDER", "--upto", "1:x"),
        ("log", "FOLDER", "--path", "x"),
        ("log", "FOLDER", "--session", "x"),
        ("log", "FOLDER", "--since", "x"),
        ("log", "FOLDER", "--until", "x"),
    ],
)
def test_a_wrong_argument_is_wrong_usage(
    run: Run, server: ServerFolder, words: tuple[str, ...]
) -> None:
    told = run(*[server.folder if word == "FOLDER" else word for word in words])
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"error: {words[-2]} '{words[-1]}' is no ")
    assert told.err.count("\n") == 1


def test_neither_ray_nor_a_client_is_loaded(server: ServerFolder) -> None:
    for words in (("inspect", "verify"), ("log",)):
        code, modules = modules_of(*words, str(server.folder))
        assert code == 0
        assert (
            modules & {"ray", "yaml", "asyncio", "raykeeper.client", "raykeeper.clusters"} == set()
        )
