"""What a node finds on its disk, and how it formats a folder."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raykeeper.actors.disk.identity import Identity, peek_identity
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from raykeeper.clusters.placement import EnsembleRecord
from raykeeper.clusters.survey import RECORD_FILE, look_around, prepare_folder, server_folder
from raykeeper.zab.ids import ServerId

ONE, TWO = ServerId(1), ServerId(2)
RECORD = EnsembleRecord("uuid", 3)


def test_an_empty_disk_holds_nothing(tmp_path: Path) -> None:
    assert look_around(str(tmp_path / "missing"), "coord") == (None, [])
    assert list(tmp_path.iterdir()) == []


def test_what_was_formatted_is_found(tmp_path: Path) -> None:
    first = prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    second = prepare_folder(str(tmp_path), "coord", RECORD, TWO, is_founding=False)
    prepare_folder(str(tmp_path), "other", RECORD, ONE, is_founding=True)
    (tmp_path / "coord/not-a-server").mkdir()
    (tmp_path / "coord/03").mkdir()
    (tmp_path / "coord/3").mkdir()  # without an identity
    record, holdings = look_around(str(tmp_path), "coord")
    assert record == RECORD
    assert [(h.server_id, h.folder, h.identity) for h in holdings] == [
        (ONE, str(tmp_path / "coord/1"), first),
        (TWO, str(tmp_path / "coord/2"), second),
    ]
    assert (first.is_founding, second.is_founding, first.incarnation) == (True, False, 0)
    assert second.incarnation > 1_700_000_000  # the clock: beyond that of a disk it replaces
    assert first.disk_uuid != second.disk_uuid
    assert [f.name for f in (tmp_path / "coord").iterdir() if f.suffix == ".tmp"] == []


def test_of_two_that_format_the_first_one_decides(tmp_path: Path) -> None:
    first = prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    late = EnsembleRecord("another uuid", 3)
    assert prepare_folder(str(tmp_path), "coord", late, ONE, is_founding=True) == first
    assert look_around(str(tmp_path), "coord")[0] == RECORD


def test_many_format_at_once(tmp_path: Path) -> None:
    def prepare(number: int) -> Identity:
        record = EnsembleRecord(f"uuid {number}", 3)
        return prepare_folder(str(tmp_path), "coord", record, ONE, is_founding=True)

    with ThreadPoolExecutor(8) as threads:
        identities = list(threads.map(prepare, range(8)))
    assert identities == identities[:1] * 8
    record, _ = look_around(str(tmp_path), "coord")
    assert record == EnsembleRecord(identities[0].owner.ensemble_uuid, 3)


def test_a_home_folder_is_that_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    prepare_folder("~/data", "coord", RECORD, ONE, is_founding=True)
    assert server_folder("~/data", "coord", ONE) == tmp_path / "data/coord/1"
    assert peek_identity(tmp_path / "data/coord/1") is not None


def test_damage_is_an_error(tmp_path: Path) -> None:
    prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    record = tmp_path / "coord" / RECORD_FILE
    record.write_text("{")
    with pytest.raises(CorruptRecord, match=RECORD_FILE):
        look_around(str(tmp_path), "coord")
    record.unlink()
    (tmp_path / "coord/1/identity").write_text("{")
    (_, (holding,)) = look_around(str(tmp_path), "coord")
    assert holding.identity is None
    assert "identity is damaged" in holding.damage


def test_data_without_an_identity_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "coord/1"
    prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    (folder / "identity").unlink()
    (folder / "precious").write_text("data")
    with pytest.raises(StorageError):
        prepare_folder(str(tmp_path / "coord/1/precious"), "coord", RECORD, ONE, is_founding=True)
    assert (folder / "precious").read_text() == "data"
