"""The record of a Ray head: whom it names, and when it names nobody."""

import os
from pathlib import Path

import msgspec
import pytest

from raykeeper.client.head_record import LocalHead, find_head, record_file
from raykeeper.links.processes import started_at, this_pid_namespace

ME, AT, HERE = os.getpid(), started_at(os.getpid()), this_pid_namespace()


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    record_file().parent.mkdir()
    return record_file()


def test_a_living_process_is_found(record: Path) -> None:
    head = LocalHead(ME, AT, HERE, "10.0.0.1:6379")
    record.write_bytes(msgspec.json.encode(head))
    assert find_head() == head


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"not json",
        # A later process with the same id, and an id that nobody has.
        msgspec.json.encode(LocalHead(ME, AT - 1, HERE, "10.0.0.1:6379")),
        msgspec.json.encode(LocalHead(2**22 + 1, AT, HERE, "10.0.0.1:6379")),
        # A process of another machine, whose home this is too.
        msgspec.json.encode(LocalHead(ME, AT, f"x{HERE}", "10.0.0.1:6379")),
    ],
    ids=["empty", "no fields", "not JSON", "a later process", "no process", "elsewhere"],
)
def test_a_dead_process_is_not_found(record: Path, content: bytes) -> None:
    record.write_bytes(content)
    assert find_head() is None


def test_without_a_record_no_process_is_found(record: Path) -> None:
    assert find_head() is None
