"""What a Ray that lacks a private thing means: never a traceback, and what each docstring says."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from raykeeper.links import ray_internals
from raykeeper.links.ray_internals import WorkerExit

PRIVATE = (
    *("ray._common.utils", "ray._private.state", "ray._private.utils", "ray._private.worker"),
    *("ray._private.authentication.authentication_token_setup", "ray._raylet"),
)
WORKER = "ab" * 28


@pytest.fixture(params=["no such module", "no such name"])
def lacking_ray(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray without any of its private modules, and one with all of them empty."""
    import ray  # noqa: F401  # loaded before anything of it is taken away

    for name in PRIVATE:
        empty = ModuleType(name) if request.param == "no such name" else None
        monkeypatch.setitem(sys.modules, name, empty)


@pytest.mark.usefixtures("lacking_ray")
def test_what_is_lacking_has_an_answer() -> None:
    assert ray_internals.last_started_address() is None
    assert ray_internals.current_task() is None
    assert ray_internals.session_log_folder() is None
    ray_internals.enable_token()


@pytest.mark.usefixtures("lacking_ray")
def test_a_note_that_cannot_be_found_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = _note(tmp_path, monkeypatch)
    note.write_text("10.0.0.1:6379")
    ray_internals.forget_started_address("10.0.0.1:6379")
    assert note.exists()


def test_only_the_note_of_that_cluster_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = _note(tmp_path, monkeypatch)
    note.write_text("10.0.0.1:6379")
    assert ray_internals.last_started_address() == "10.0.0.1:6379"
    ray_internals.forget_started_address("10.0.0.2:6379")
    assert note.exists()
    ray_internals.forget_started_address("10.0.0.1:6379")
    assert not note.exists()
    assert ray_internals.last_started_address() is None


class _Table:
    """Ray's table of workers, with one of them."""

    def get_worker_info(self, worker: Any) -> bytes | None:
        from ray.core.generated import gcs_pb2

        record: Any = gcs_pb2
        ended = record.WorkerTableData(pid=7, exit_type=0, exit_detail="End of file")
        found: bytes = ended.SerializeToString()
        return found if worker.hex() == WORKER else None


class _Since252:
    def _connect_and_get_accessor(self) -> _Table:
        return _Table()


class _Until251:
    global_state_accessor: _Table | None = None

    def _check_connected(self) -> None:
        self.global_state_accessor = _Table()


@pytest.mark.parametrize("state", [_Since252, _Until251])
def test_the_table_of_workers_is_read_in_two_ways(
    state: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray._private import state as module

    monkeypatch.setattr(module, "state", state())
    assert ray_internals.worker_exit(WORKER) == WorkerExit(7, 0, "End of file")
    assert ray_internals.worker_exit("cd" * 28) is None


@pytest.mark.usefixtures("lacking_ray")
def test_without_the_table_of_workers_the_caller_is_told() -> None:
    with pytest.raises(LookupError, match="does not tell how a worker has ended"):
        ray_internals.worker_exit(WORKER)


def _note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `ray start` notes the address of its cluster, on a machine of our own."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray/ray_current_cluster"
