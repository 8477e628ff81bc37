"""The verdict: what it says of a history that is sound, and of others."""

from pathlib import Path

import pytest

from raykeeper.chaos.history import HistoryError
from raykeeper.chaos.verdict import judge_records
from raykeeper.clusters.config import ConfigError
from tests.unit.chaos.story import A, B, Story, X


def created() -> Story:
    return Story().create(A, 1, 2, "/r", "").create(A, 3, 4, X, "u")


SOUND = created().get("end", 90, 91, "u", 1, synced=True)
LOST = created().set(B, 5, 6, "v", 5).get("end", 90, 91, "u", 1, synced=True)


def test_every_round_is_judged_by_itself(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        SOUND.write(tmp_path / f"round-{number}" / "a.jsonl")
    told = judge_records(tmp_path)
    assert (told.operations, told.acked_writes, told.is_clean) == (9, 6, True)
    LOST.write(tmp_path / "round-10" / "a.jsonl")
    told = judge_records(tmp_path)
    assert (told.acked_writes, len(told.lost), told.is_clean) == (9, 1, False)


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no records"):
        judge_records(tmp_path)
    with pytest.raises(ConfigError, match="holds no records"):
        judge_records(tmp_path / "missing")


def test_damaged_records_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{\n{\n")
    with pytest.raises(HistoryError, match=r"a\.jsonl:1: "):
        judge_records(tmp_path)
