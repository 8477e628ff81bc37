"""A data folder with damage in one file, or with a strange name: what the tools tell of it is true.

`test_disk.py` does the same to a start. Whatever the bytes, a tool ends by itself or by one of the
documented errors, and every transaction that it tells is the one that was written.
"""

import copy
import json
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.commands.inspection.audit_log import (
    AuditEntry,
    Wanted,
    entry_document,
    entry_line,
    print_log,
)
from raykeeper.commands.inspection.dump import dump_folder
from raykeeper.commands.inspection.folder_contents import contents_document
from raykeeper.commands.inspection.verification import verify_folder
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, ZXID_MAX, Zxid
from raykeeper.znodes.requests import CloseSession, Create, SetData
from raykeeper.znodes.txns import decode_txn
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import Entry, ServerFolder
from tests.contract.stores import FOLDER
from tests.fuzz.budget import bounded, examples
from tests.fuzz.mutations import mutate
from tests.fuzz.test_disk import IN_GENERATION, NAMES
from tests.model.histories import START, Command, written

COMMANDS: list[Command] = [
    *START,
    *(("write", n % 2, SetData("/a", bytes([n]) * 40, -1)) for n in range(12)),
    ("write", 1, Create("/b/e", b"", 1)),
    ("replace", 1, "d2"),
    ("write", 1, CloseSession()),
]
LOG: Final[list[Entry]] = written(COMMANDS).log
HISTORY: Final = dict(LOG)


def _written() -> FaultyFiles:
    server = ServerFolder()
    server.append(LOG[:6])
    server.snapshot()
    server.append(LOG[6:11])
    server.snapshot(LOG[11:14], chunk_bytes=1)
    server.append(LOG[14:])
    return server.at_rest()


WRITTEN: Final = _written()
FILES: Final = [path for path in WRITTEN.paths(FOLDER) if path.name != "lock"]


def look_into(files: FaultyFiles) -> list[str]:
    """Run every tool, check what it tells, and return the errors with which they end."""
    errors = []
    operations = files.operations
    entries: list[AuditEntry] = []
    lines: list[object] = []
    for tool in (
        lambda reader: lines.append(
            contents_document(verify_folder(reader, with_digest=True).contents)
        ),
        lambda reader: print_log(reader, Wanted(), entries.append),
        lambda reader: dump_folder(
            reader, lines.append, snapshot=True, log=True, after=ZERO, upto=Zxid(ZXID_MAX)
        ),
    ):
        try:
            tool(FolderReader(FOLDER, files))
        except RayKeeperError as error:
            assert str(error)
            errors.append(str(error))
        assert (files.open_files(), files.operations) == (0, operations)
    assert json.loads(json.dumps(lines)) is not None
    zxids = [entry.zxid for entry in entries]
    assert zxids == sorted(set(zxids))
    for entry in entries:
        assert entry.txn == decode_txn(HISTORY[entry.zxid])
        assert entry_line(entry) and entry_document(entry)
    return errors


def test_an_undamaged_folder_is_told_whole() -> None:
    assert look_into(copy.deepcopy(WRITTEN)) == []
    assert verify_folder(FolderReader(FOLDER, WRITTEN), with_digest=True).is_good


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_told_of_a_damaged_file_is_true(path: Path) -> None:
    @examples(60)
    @given(st.randoms(use_true_random=False), st.sampled_from(FILES))
    def told_or_refused(rng: Random, donor: Path) -> None:
        files = copy.deepcopy(WRITTEN)
        content = files.content(path)
        before = bytes(content)
        content[:] = mutate(before, bytes(files.content(donor)), Random(rng.getrandbits(64)))
        with bounded(len(content) + 100_000):
            look_into(files)

    told_or_refused()


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
@pytest.mark.parametrize(
    "path",
    [FOLDER / name for name in NAMES]
    + [FILES[0].parent / "generation-1" / name for name in IN_GENERATION],
    ids=lambda path: path.name[:24],
)
def test_a_foreign_name_is_told(path: Path, is_folder: bool) -> None:
    files = copy.deepcopy(WRITTEN)
    if is_folder:
        files.make_folder(path)
    else:
        files.close(files.create(path))
    errors = look_into(files)
    if path.name != "x" and not errors:
        found = verify_folder(FolderReader(FOLDER, files), with_digest=True)
        told = [*found.contents.problems, *found.contents.others]
        assert any(path.name in each for each in told), told
