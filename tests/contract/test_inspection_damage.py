"""A damaged byte anywhere in a folder: the tools that look into it tell it, and never fail.

`test_storage_damage.py` shows what a start makes of the same damage.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE
from raykeeper.actors.disk.folder_lock import LOCK_FILE
from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.spare_segment import SPARE_FILE
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion
from raykeeper.commands.inspection.audit_log import Wanted, entry_document, entry_line, print_log
from raykeeper.commands.inspection.dump import dump_folder
from raykeeper.commands.inspection.folder_contents import contents_document, show_contents
from raykeeper.commands.inspection.verification import Verification, verify_folder
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, ZXID_MAX, Zxid
from raykeeper.znodes.requests import CloseSession, Create, SetData
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import ServerFolder
from tests.contract.stores import FOLDER
from tests.model.histories import START, Command, written
from tests.unit.commands.printed import printed

COMMANDS: list[Command] = [
    *START,
    ("write", 0, SetData("/a", b"v", -1)),
    ("write", 1, Create("/b/e", b"", 1)),
    ("replace", 1, "d2"),
    ("write", 1, CloseSession()),
]
LOG = written(COMMANDS).log
SPARE_UNREAD = (SPARE_FILE, "unreadable")
"""A start reads it too: it might be a segment whose name was lost."""


def folder_at_rest() -> FaultyFiles:
    """One snapshot, and a log of two segments that begins before it."""
    server = ServerFolder(limits=StorageLimits(segment_bytes=700))
    server.append(LOG[:5])
    server.snapshot()
    server.append(LOG[5:])
    assert len(server.segments()) == 2
    return server.at_rest()


def used_bytes(files: FaultyFiles, path: Path) -> Iterator[int]:
    """Yield the offsets of all bytes that say something, and of some zeros behind them."""
    if path.name == EPOCHS_FILE:
        yield from range(44)
        yield from range(4096, 4140)
    else:
        size = len(files.content(path))
        used = len(bytes(files.content(path)).rstrip(b"\0"))
        yield from range(min(size, used + 8))
        yield size - 1


def told_by_verify(files: FaultyFiles) -> Verification | None:
    """Return what is found, None if a version is refused."""
    try:
        found = verify_folder(FolderReader(FOLDER, files), with_digest=True)
    except UnknownVersion:
        return None
    contents_document(found.contents)
    printed(lambda console: show_contents(console, found.contents))
    return found


def told_by_the_others(files: FaultyFiles) -> str:
    """Return the error with which `dump` or `log` ends, "" if both come to their end."""
    lines: list[object] = []
    error = ""
    commands: list[Callable[[FolderReader], None]] = [
        lambda reader: dump_folder(
            reader, lines.append, snapshot=True, log=True, after=ZERO, upto=Zxid(ZXID_MAX)
        ),
        lambda reader: print_log(
            reader, Wanted(), lambda entry: lines.extend([entry_document(entry), entry_line(entry)])
        ),
    ]
    for command in commands:
        try:
            command(FolderReader(FOLDER, files))
        except RayKeeperError as raised:
            error = str(raised)
    return error


def test_a_flipped_bit_in_any_byte_is_told() -> None:
    files = folder_at_rest()
    whole = told_by_verify(files)
    assert whole is not None and whole.is_good and whole.contents.notes == []
    seen: Counter[str] = Counter()
    for path in files.paths(FOLDER):
        if path.name in (LOCK_FILE, SPARE_FILE):
            continue  # nothing depends on their content
        for offset in used_bytes(files, path):
            files.flip(path, offset, 1 << offset % 8)
            operations = files.operations
            found = told_by_verify(files)
            assert found is None or found.contents.problems or found.contents.notes, (path, offset)
            if found is None:
                seen["another version"] += 1
            else:
                seen["damaged" if found.contents.problems else "torn end"] += 1
                named = "".join([*found.contents.problems, *found.contents.notes])
                assert path.name in named, (path, offset, named)
            if offset % 5 == 0 and path.name.startswith(("log.", "snapshot.")):
                is_told = told_by_the_others(files) != ""
                assert is_told is (found is None or not found.is_good), (path, offset)
            assert (files.operations, files.open_files()) == (operations, 0)
            files.flip(path, offset, 1 << offset % 8)
    assert told_by_verify(files) == whole
    assert seen["damaged"] > 1_000 and seen["torn end"] > 50


def damages(files: FaultyFiles) -> Iterator[tuple[Path, str, Callable[[FaultyFiles], None]]]:
    for path in files.paths(FOLDER):
        size = len(files.content(path))
        for end in {0, 1, size // 3, size // 2, max(0, size - 1)}:
            yield (
                path,
                f"cut at {end}",
                lambda f, p=path, e=end: f.content(p).__delitem__(slice(e, None)),
            )
        yield path, "longer", lambda f, p=path: f.content(p).extend(b"more")
        yield path, "noise", lambda f, p=path: f.content(p).__setitem__(slice(None), b"\xa5" * 999)
        yield path, "unreadable", lambda f, p=path: f.spoil(p)
        yield path, "missing", lambda f, p=path: f.lose(p)


def test_a_cut_a_lost_and_an_unreadable_file_is_told() -> None:
    files = folder_at_rest()
    last = [path for path in files.paths(FOLDER) if path.name.startswith("log.")][-1]
    for path, what, damage in damages(files):
        damaged = deepcopy(files)
        damage(damaged)
        found = told_by_verify(damaged)
        told_by_the_others(damaged)
        assert damaged.open_files() == 0
        # A lost end leaves no trace (docs/DISKS.md), nor does a snapshot beside the whole log.
        is_traceless = what == "missing" and (path == last or path.name.startswith("snapshot."))
        is_used = path.name not in (LOCK_FILE, SPARE_FILE) or (path.name, what) == SPARE_UNREAD
        is_needed = is_used and not is_traceless
        assert found is not None
        assert found.is_good is not is_needed, (path, what, found.contents.problems)


@pytest.mark.parametrize("name", ["log.", "log.x", "snapshot.", "snapshot.-1", "generation-x"])
def test_an_odd_name_is_told(name: str) -> None:
    files = folder_at_rest()
    where = FOLDER if name.startswith("generation") else FOLDER / "generation-1"
    files.close(files.create(where / name))
    found = told_by_verify(files)
    assert found is not None and name in "".join(found.contents.problems)
    with pytest.raises(CorruptRecord, match=name):
        print_log(FolderReader(FOLDER, files), Wanted(), lambda _: None)
