"""What is read of Ray's settings, and of a container's memory."""

import base64
import json
from pathlib import Path

import psutil
import pytest

from raykeeper.clusters.doctor.ray_facts import (
    gcs_storage,
    load_percent,
    memory_kill_percent,
    memory_percent,
    session_of,
    storage_of,
)


@pytest.mark.parametrize(
    ("environment", "percent"),
    [
        ({}, 95),
        ({"RAY_memory_usage_threshold": "0.8"}, 80),
        ({"RAY_memory_usage_threshold": "much"}, 0),
        ({"RAY_memory_monitor_refresh_ms": "0", "RAY_memory_usage_threshold": "0.8"}, 0),
        ({"RAY_memory_monitor_refresh_ms": "250"}, 95),
    ],
)
def test_the_memory_monitor(environment: dict[str, str], percent: int) -> None:
    assert memory_kill_percent(environment) == percent


def config_list(**settings: object) -> str:
    return "--config_list=" + base64.b64encode(json.dumps(settings).encode()).decode()


@pytest.mark.parametrize(
    ("words", "environment", "storage"),
    [
        (["gcs_server"], {}, "memory"),
        (["gcs_server", config_list(gcs_storage="rocksdb")], {}, "rocksdb"),
        (["gcs_server", config_list(other=1)], {}, "memory"),
        (["gcs_server", "--config_list=noise"], {}, "memory"),
        (["gcs_server", "--config_list=" + base64.b64encode(b"[]").decode()], {}, "memory"),
        (["gcs_server"], {"RAY_gcs_storage": "rocksdb"}, "rocksdb"),
        (["gcs_server", "--redis_address=10.0.0.1:6379"], {}, "redis"),
        (["gcs_server", "--redis_address="], {}, "memory"),
        (["gcs_server"], {"RAY_REDIS_ADDRESS": "10.0.0.1:6379"}, "redis"),
    ],
)
def test_the_storage_of_the_gcs(
    words: list[str], environment: dict[str, str], storage: str
) -> None:
    assert storage_of(words, environment) == storage


def test_a_process_shows_its_session() -> None:
    session = "session_2026-11-25_22-39-25_687082_13556"
    assert session_of(["raylet", f"--session-dir=/tmp/ray/{session}/logs"]) == session
    assert session_of(["bash"]) is None


def test_a_process_that_ray_did_not_start_sees_no_gcs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: psutil.Process) -> list[str]:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "cmdline", refuse)
    assert gcs_storage() == ""


def test_the_gcs_of_the_same_session_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        def __init__(self, words: list[str] | None) -> None:
            self.words = words

        def cmdline(self) -> list[str]:
            if self.words is None:
                raise psutil.NoSuchProcess(1)
            return self.words

        def environ(self) -> dict[str, str]:
            return {}

    monkeypatch.setattr(psutil, "Process", lambda pid: Process(["raylet", "-s=session_1_2"]))
    others = [None, [], ["/ray/gcs_server", "-s=session_3_4"], ["bash", "-s=session_1_2"]]
    own = ["/ray/gcs_server", "-s=session_1_2", "--redis_address=a"]
    monkeypatch.setattr(psutil, "process_iter", lambda: map(Process, [*others, own]))
    assert gcs_storage() == "redis"
    monkeypatch.setattr(psutil, "process_iter", lambda: map(Process, others))
    assert gcs_storage() == ""


def test_the_memory_of_a_container_counts_if_it_is_fuller(tmp_path: Path) -> None:
    of_machine = memory_percent(tmp_path)
    assert 0 < of_machine <= 100
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("1400\n")
    (tmp_path / "memory.stat").write_text("anon 900\ninactive_file 401\n")
    assert memory_percent(tmp_path) >= 99
    (tmp_path / "memory.stat").write_text("anon 900\n")
    assert memory_percent(tmp_path) == 140
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_percent(tmp_path) <= 100


def test_the_load_is_told_in_percent() -> None:
    assert load_percent() >= 0
