"""The record of a Ray head: whom it names, and when it names nobody."""

import os
from pathlib import Path

import msgspec
import psutil
import pytest

from raykeeper.clusters.local_head import LocalHead, find_head, head_folder

ME = psutil.Process()


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    head_folder().mkdir()
    return head_folder() / "head.json"


def test_a_living_process_is_found(record: Path) -> None:
    head = LocalHead(os.getpid(), ME.create_time(), "10.0.0.1:6379")
    record.write_bytes(msgspec.json.encode(head))
    assert find_head() == head


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"not json",
        # A later process with the same id, and an id that nobody has.
        msgspec.json.encode(LocalHead(os.getpid(), ME.create_time() - 1, "10.0.0.1:6379")),
        msgspec.json.encode(LocalHead(2**22 + 1, ME.create_time(), "10.0.0.1:6379")),
    ],
    ids=["empty", "no fields", "not JSON", "a later process", "no process"],
)
def test_a_dead_process_is_not_found(record: Path, content: bytes) -> None:
    record.write_bytes(content)
    assert find_head() is None


def test_without_a_record_no_process_is_found(record: Path) -> None:
    assert find_head() is None
