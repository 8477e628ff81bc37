"""The record of a Ray head: whom it names, and when it names nobody."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from raykeeper.clusters import local_head
from raykeeper.clusters.local_head import LocalHead, find_head, head_folder, stop_head

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


def test_what_does_not_end_is_killed(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_head, "_STOP_TIMEOUT_S", 0.1)
    program = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); print(flush=True); s.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it ignores the signal from now on
            head = LocalHead(process.pid, psutil.Process(process.pid).create_time(), "10.0.0.1:1")
            record.write_bytes(msgspec.json.encode(head))
            stop_head(head)
            assert not psutil.pid_exists(process.pid)
            assert not record.exists()
        finally:
            process.kill()
