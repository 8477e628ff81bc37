"""The journal of a copy: which znodes a later run skips, and which it may replace."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from raykeeper.commands.migration.journal import CopyJournal, next_number
from raykeeper.znodes.stat import Stat

SOURCE = convert([3, 5, 0, 0, 1, 0, 2, 0, 0, 0, 3], Stat)
TARGET = convert([7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7], Stat)


def opened(file: Path | None) -> CopyJournal:
    return CopyJournal(file, "a", "b")


def test_what_a_run_has_copied_is_known_to_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "state"
    with opened(file) as journal:
        assert not journal.is_begun
        journal.begin()
        journal.keep([("/a", SOURCE, TARGET)])
    with opened(file) as journal:
        assert journal.is_begun
        assert journal.was_copied("/a", SOURCE, TARGET)
        assert not journal.was_copied("/b", SOURCE, TARGET)
        assert journal.was_written("/a", TARGET)
        assert not journal.was_written("/b", TARGET)


_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from msgspec import convert
from raykeeper.commands.migration.journal import CopyJournal
from raykeeper.znodes.stat import Stat
journal = CopyJournal(Path(sys.argv[1]), "a", "b")
journal.begin()
stat = convert([1] * 11, Stat)
for number in range(300):
    journal.keep([(f"/{number}", stat, stat)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_journal_of_a_killed_process_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "state"
    command = [sys.executable, "-c", _IS_KILLED, str(file)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    stat = convert([1] * 11, Stat)
    with opened(file) as journal:
        assert journal.is_begun
        assert all(journal.was_copied(f"/{number}", stat, stat) for number in range(300))


@pytest.mark.parametrize("field", ["czxid", "mzxid", "aversion"])
def test_a_change_of_either_side_is_seen(field: str) -> None:
    journal = opened(None)
    journal.keep([("/a", SOURCE, TARGET)])
    other = replace(SOURCE, **{field: 9}), replace(TARGET, **{field: 9})
    assert not journal.was_copied("/a", other[0], TARGET)
    assert not journal.was_copied("/a", SOURCE, other[1])
    assert not journal.was_written("/a", other[1])
    journal.keep([("/a", other[0], TARGET)])
    assert journal.was_copied("/a", other[0], TARGET)


def test_fields_that_no_value_or_acl_changes_do_not_matter() -> None:
    journal = opened(None)
    journal.keep([("/a", SOURCE, TARGET)])
    busy = replace(SOURCE, cversion=9, num_children=3, pzxid=11)
    assert journal.was_copied("/a", busy, replace(TARGET, pzxid=99))


def test_what_a_run_does_not_meet_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "state"
    for names in (["/a", "/b", "/c"], ["/b"]):
        with opened(file) as journal:
            journal.begin()
            journal.keep([(name, SOURCE, TARGET) for name in names])
            assert journal.gone(1) == ((0, []) if "/a" in names else (2, ["/a"]))


def test_what_is_gone_is_listed_children_first_and_can_be_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "state"
    names = ["", "/a", "/a-", "/a/b", "/a/b/c", "/a/b-c", "/\uffee", "/kept"]
    with opened(file) as journal:
        journal.begin()
        journal.keep([(name, SOURCE, TARGET) for name in names])
    for count in (1, 3, 100):
        with opened(file) as journal:
            journal.begin()
            journal.keep([(name, SOURCE, TARGET) for name in ("", "/kept")])
            listed = [each for some in journal.gone_paths(count) for each in some]
            assert sorted(listed) == sorted(set(names) - {"", "/kept"})
            for parent in ("/a", "/a/b"):
                below = [listed.index(x) for x in listed if x.startswith(f"{parent}/")]
                assert max(below) < listed.index(parent)
    with opened(file) as journal:
        journal.begin()
        for some in journal.gone_paths(2):
            journal.forget(some)
        assert list(journal.gone_paths(2)) == []


def test_numbers_of_sequential_znodes() -> None:
    for cversion, children, number in ((0, 0, 0), (5, 5, 5), (5, 1, 3), (-2, 2, 0), (-1, 0, 0)):
        stat = replace(SOURCE, cversion=cversion, num_children=children)
        assert next_number(stat) == number
    journal = opened(None)
    five = replace(SOURCE, cversion=5, num_children=5)
    journal.keep([("/a", five, TARGET), ("/b", SOURCE, TARGET), ("/c", five, TARGET)])
    assert list(journal.sequences(1)) == [[("/a", 5)], [("/c", 5)]]
