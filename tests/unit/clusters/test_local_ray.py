"""Which Ray a process would join, told without Ray."""

import socket
from pathlib import Path

import pytest

from raykeeper.clusters.local_ray import RayNotFoundError, is_ray_connected, join_ray


@pytest.fixture
def ray_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `ray start` notes the address of its cluster, in a machine of our own."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray/ray_current_cluster"


def test_without_a_record_there_is_no_cluster(ray_note: Path) -> None:
    assert not is_ray_connected()
    with pytest.raises(RayNotFoundError, match="start one with `raykeeper up`"):
        join_ray()


def test_a_stopped_cluster_is_not_awaited(ray_note: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    ray_note.write_text(closed)
    assert not is_ray_connected()
    with pytest.raises(RayNotFoundError, match=f"no Ray cluster answers at {closed}"):
        join_ray(closed)
