"""Files of records: written line by line, read however they were cut short, judged again."""

from pathlib import Path

import pytest

from raykeeper.chaos.checks.faults import FaultRecord, RoundFaults
from raykeeper.chaos.checks.history import (
    Called,
    History,
    HistoryError,
    Read,
    ReadKind,
    SessionBegan,
)
from raykeeper.chaos.history_file import (
    HistoryFile,
    judge_records,
    read_faults,
    read_history,
    write_faults,
)
from raykeeper.clusters.config import ConfigError
from tests.unit.chaos.checks.test_history import RECORDS
from tests.unit.chaos.story import A, B, Story, X


def created() -> Story:
    return Story().create(A, 1, 2, "/r", "").create(A, 3, 4, X, "u")


SOUND = created().get("end", 90, 91, "u", 1, synced=True)
LOST = created().set(B, 5, 6, "v", 5).get("end", 90, 91, "u", 1, synced=True)


def test_records_are_read_as_written(tmp_path: Path) -> None:
    other = [SessionBegan("b", 1, 1), Called("b", 1, 1, 2, Read("/x", ReadKind.EXISTS))]
    for name, records in (("a", RECORDS), ("b", other)):
        with HistoryFile(tmp_path / name) as file:
            for record in records:
                file.add(record)
    read = read_history([tmp_path / "a", tmp_path / "b"])
    assert read.sessions == History([*RECORDS, *other]).sessions


def test_a_line_cut_short_by_the_death_of_its_client_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with HistoryFile(path) as file:
        for record in RECORDS[:4]:
            file.add(record)
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        kept = whole[:end].count(b"\n")
        assert read_history([path]).sessions == History(RECORDS[:kept]).sessions


def test_a_malformed_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"type":"began","client":"a","life":1,"at":5}\n{}\n\n')
    with pytest.raises(HistoryError, match="a:2"):
        read_history([path])


def test_every_round_is_judged_by_itself(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        SOUND.write(tmp_path / f"round-{number}" / "a.jsonl")
    told = judge_records(tmp_path)
    assert (told.operations, told.acked_writes, told.is_clean) == (9, 6, True)
    LOST.write(tmp_path / "round-10" / "a.jsonl")
    told = judge_records(tmp_path)
    assert (told.acked_writes, len(told.lost), told.is_clean) == (9, 1, False)


def test_the_faults_of_a_round_are_judged_with_its_records(tmp_path: Path) -> None:
    assert read_faults(tmp_path) is None
    silent = created().set(B, 5, None, "v").get("end", 90, 91, "u", 1, synced=True)
    for number, story in enumerate((SOUND, silent)):
        records = tmp_path / f"round-{number}"
        story.write(records / "a.jsonl")
        faults = RoundFaults(is_orderly=True, records=(FaultRecord("transfer", 3, 5),))
        write_faults(records, faults)
        assert read_faults(records) == faults
    told = judge_records(tmp_path)
    assert told.faults["transfer"].number == 2
    assert told.client_errors is not None and len(told.client_errors) == 1
    assert not told.is_clean


def test_damaged_faults_are_refused(tmp_path: Path) -> None:
    SOUND.write(tmp_path / "a.jsonl")
    (tmp_path / "faults.json").write_bytes(b"{")
    with pytest.raises(HistoryError, match=r"faults\.json: "):
        judge_records(tmp_path)


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no records"):
        judge_records(tmp_path)
    with pytest.raises(ConfigError, match="holds no records"):
        judge_records(tmp_path / "missing")


def test_damaged_records_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{\n{\n")
    with pytest.raises(HistoryError, match=r"a\.jsonl:1: "):
        judge_records(tmp_path)
