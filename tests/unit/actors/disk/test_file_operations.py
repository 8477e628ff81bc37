"""Operations on the files of a data folder."""

import random
import re
from pathlib import Path

import pytest

from raykeeper.actors.disk.file_operations import (
    check_zxid_names,
    make_folders,
    read_file,
    remove_leftovers,
    replace_file,
    temp_path,
    zxid_name,
    zxids_in_names,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import ZXID_MAX, Zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at

FILE = Path("/folder/file")


def with_content(content: bytes) -> FaultyFiles:
    files = FaultyFiles()
    make_folders(files, FILE.parent)
    replace_file(files, FILE, content)
    return files


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("operation", range(1, 7))
def test_a_crash_leaves_the_old_content_or_the_new(loss: Loss, operation: int) -> None:
    for seed in range(20):
        files = with_content(b"old" * 300)
        files.on_operation = crash_at(files.operations + operation)
        durable = True
        try:
            replace_file(files, FILE, b"new!" * 300)
        except Crashed:
            durable = False
        after = files.crash(loss, random.Random(seed))
        content = read_file(after, FILE)
        assert content == b"new!" * 300 or (not durable and content == b"old" * 300)
        assert remove_leftovers(after, FILE.parent) in ([], ["file.tmp"])
        replace_file(after, FILE, b"next")
        assert read_file(after, FILE) == b"next"


def test_leftovers_are_removed_with_their_files() -> None:
    files = with_content(b"kept")
    files.close(files.create(temp_path(FILE)))
    files.make_folder(Path("/folder/more.tmp"))
    files.close(files.create(Path("/folder/more.tmp/inside")))
    assert remove_leftovers(files, FILE.parent) == ["file.tmp", "more.tmp"]
    assert files.names(FILE.parent) == ["file"]


def test_folders_are_made_durably() -> None:
    files = FaultyFiles()
    make_folders(files, Path("/a/b/c"))
    make_folders(files, Path("/a/b/c"))
    assert files.crash(Loss.ALL, random.Random(0)).is_folder(Path("/a/b/c"))


def test_names_of_one_prefix_sort_like_their_zxids() -> None:
    zxids = [Zxid(0), Zxid(9), Zxid(10), Zxid(1 << 50), Zxid(ZXID_MAX)]
    names = [zxid_name("log.", zxid) for zxid in zxids]
    assert sorted(names) == names
    assert zxids_in_names([*reversed(names), zxid_name("snapshot.", Zxid(5))], "log.") == zxids


@pytest.mark.parametrize("name", ["log.", "log.x", "log.1.old"])
def test_a_prefix_without_a_number_is_damage(name: str) -> None:
    with pytest.raises(CorruptRecord, match=r"is not log\.<zxid>"):
        zxids_in_names([name], "log.")


@pytest.mark.parametrize(
    "name", ["log.", "log.x", "log.1", "log.-1", f"log.+{1:015x}", "log." + "0" * 17]
)
def test_only_the_name_that_a_zxid_has_is_taken_by_a_reader(name: str) -> None:
    names = [zxid_name("log.", Zxid(number)) for number in (1, (1 << 63) - 1)]
    check_zxid_names([*names, "other", "snapshot.x"], "log.")
    with pytest.raises(CorruptRecord, match=re.escape(f"{name} is not log.<zxid>")):
        check_zxid_names([*names, name], "log.")
