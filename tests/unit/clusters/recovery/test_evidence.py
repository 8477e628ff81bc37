"""What is read of a folder for a recovery: judged as a start judges it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.identity import IDENTITY_FILE
from raykeeper.actors.disk.repair import begin_repair
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.clusters.recovery.evidence import (
    HeldFolder,
    gather_evidence,
    load_evidence,
    read_evidence,
)
from raykeeper.zab.ids import ZERO, Epoch, ServerId
from raykeeper.znodes.requests import Create
from tests.contract.server_folders import ServerFolder, UnforcedFiles
from tests.model.histories import START, Command, written
from tests.unit.znodes.one_leader import zxid_at as z

COMMANDS: list[Command] = [
    *START,
    *(("write", 0, Create(f"/n{n}", b"v" * 200, 0)) for n in range(12)),
]
LOG = written(COMMANDS).log
ONE = ServerId(1)
LIMITS = StorageLimits(segment_bytes=1024, first_segment_bytes=1024)


def grown(folder: Path, *, snapshot_after: int = 6) -> ServerFolder:
    made = ServerFolder(folder, UnforcedFiles(), LIMITS)
    made.append(LOG[:snapshot_after])
    if snapshot_after:
        made.snapshot()
    made.append(LOG[snapshot_after:], uncommitted=2)
    made.storage.close()
    return made


def test_a_healthy_folder_tells_its_history(tmp_path: Path) -> None:
    folder = tmp_path / "coord/1"
    made = grown(folder)
    held = read_evidence(ONE, folder)
    assert held.problem == "" and not held.is_uncertain and held.identity is not None
    assert held.epochs is not None and held.epochs.accepted == 1
    assert (held.last, held.snapshot) == (made.state.zxid, z(6))
    assert ZERO < held.committed < held.last
    assert held.last_ms == made.state.time_ms
    assert (held.znodes, held.sessions) == (len(made.state.tree.znodes), 3)
    assert held.rank == (Epoch(1), held.last)
    assert load_evidence(held).digest() == made.state.digest()


def flip(file: Path, at: int = -40) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(bytes(data))


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("generation-1/log.*"))


def flip_in_the_middle(folder: Path) -> None:
    flip(segments(folder)[-2], 100)


def repaired(folder: Path) -> None:
    identity = read_evidence(ONE, folder).identity
    assert identity is not None
    begin_repair(OS_FILESYSTEM, folder, identity, "a bit has flipped")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda f: flip(f / IDENTITY_FILE), "identity is damaged"),
        (lambda f: (f / EPOCHS_FILE).unlink(), "promises of this server are lost"),
        (lambda f: [flip(s) for s in f.glob("generation-1/snapshot.*")], "reach"),
        (flip_in_the_middle, "is damaged"),
        (repaired, "it counts no more: a bit has flipped"),
        (lambda f: (f / IDENTITY_FILE).write_text('{"format_version": 1}'), "has version 1"),
    ],
)
def test_a_damaged_folder_tells_why(
    tmp_path: Path, damage: Callable[[Path], object], problem: str
) -> None:
    folder = tmp_path / "coord/1"
    grown(folder)
    if "reach" in problem:
        for file in segments(folder)[:3]:
            file.unlink()
    damage(folder)
    held = read_evidence(ONE, folder)
    assert problem in held.problem
    assert held.is_other_version is ("has version" in problem)
    with pytest.raises(StorageError, match=r"cannot be read any more|has changed"):
        load_evidence(HeldFolder(ONE, str(folder)))


def test_damage_within_the_last_segment_is_not_its_end(tmp_path: Path) -> None:
    """Else the history would silently end before the damage."""
    made = ServerFolder(tmp_path / "coord/1", UnforcedFiles(), StorageLimits(1 << 16))
    made.append(LOG)
    made.storage.close()
    flip(segments(made.folder)[-1], 1500)
    assert "is damaged at byte" in read_evidence(ONE, made.folder).problem


def test_promises_of_a_damaged_folder_are_told(tmp_path: Path) -> None:
    """The epoch of the new history must exceed them."""
    folder = tmp_path / "coord/1"
    grown(folder)
    flip(folder / IDENTITY_FILE)
    held = read_evidence(ONE, folder)
    assert held.epochs is not None and held.epochs.accepted == 1 and held.uuid == ""
    assert HeldFolder(ONE, "").rank == (Epoch(0), ZERO)


def test_damage_before_the_newest_snapshot_is_not_needed(tmp_path: Path) -> None:
    folder = tmp_path / "coord/1"
    made = ServerFolder(folder, UnforcedFiles(), LIMITS)
    for part in (LOG[:4], LOG[4:14]):
        made.append(part)
        made.snapshot()
    made.append(LOG[14:])
    made.storage.close()
    flip(segments(folder)[0], 100)
    assert read_evidence(ONE, folder).problem == ""


def test_a_torn_end_is_uncertain(tmp_path: Path) -> None:
    folder = tmp_path / "coord/1"
    made = grown(folder)
    last = segments(folder)[-1]
    data = last.read_bytes()
    end = len(data.rstrip(b"\0"))
    last.write_bytes(data[: end - 20] + bytes(len(data) - end + 20))
    held = read_evidence(ONE, folder)
    assert held.problem == "" and held.is_uncertain and held.last < made.state.zxid


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    made = ServerFolder(tmp_path / "coord/1", UnforcedFiles(), LIMITS)
    made.storage.close()
    assert read_evidence(ONE, made.folder).problem == "it holds no transaction"


def test_a_folder_that_changed_is_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "coord/1"
    grown(folder)
    held = read_evidence(ONE, folder)
    held.last = z(3)
    with pytest.raises(StorageError, match="has changed since it was judged"):
        load_evidence(held)


def test_all_folders_of_the_ensemble_are_read(tmp_path: Path) -> None:
    assert gather_evidence(str(tmp_path), "coord") == []
    home = tmp_path / "coord"
    for name in ("1", "2.stale-17", "3.superseded-18"):
        made = ServerFolder(home / name, UnforcedFiles(), LIMITS, server_id=int(name[0]))
        made.append(LOG)
        made.storage.close()
    (home / "ensemble.json").write_text("{}")
    (home / "03").mkdir()
    (home / "recovering-x").mkdir()
    found = gather_evidence(str(tmp_path), "coord")
    assert [(held.server_id, held.is_set_aside, held.problem) for held in found] == [
        (1, False, ""),
        (2, True, ""),
        (3, True, ""),
    ]
