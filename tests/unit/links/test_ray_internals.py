"""A Ray that lacks a private thing: never a traceback, but what each docstring promises."""

import os
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

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
def test_each_access_has_a_result_for_a_ray_that_lacks_it() -> None:
    assert ray_internals.last_started_address() is None
    assert ray_internals.current_task() is None
    assert ray_internals.session_log_folder() is None
    ray_internals.enable_token()
    assert not ray_internals.has_token()
    assert ray_internals.own_token() is None
    assert not ray_internals.is_refused("10.0.0.1:6379", 60), "ray.init finds out"


@pytest.mark.usefixtures("lacking_ray")
def test_a_forked_child_bears_a_ray_without_hooks() -> None:
    child = os.fork()
    if not child:
        try:
            ray_internals.abandon_inherited()
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.usefixtures("lacking_ray")
def test_the_record_stays_if_ray_does_not_locate_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = _note(tmp_path, monkeypatch)
    note.write_text("10.0.0.1:6379")
    ray_internals.forget_started_address("10.0.0.1:6379")
    assert note.exists()


def test_only_the_record_of_that_cluster_is_removed(
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
def test_a_ray_without_the_table_of_workers_raises() -> None:
    with pytest.raises(LookupError, match="does not tell how a worker has ended"):
        ray_internals.worker_exit(WORKER)


@pytest.mark.parametrize("of_cluster", ["", "the token"])
def test_a_refusal_is_found_without_output_of_ray(
    of_cluster: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the one line of Ray is dropped, nothing that others wrote meanwhile."""
    import ray

    class Client:
        def __init__(self, address: str) -> None:
            os.write(2, b"[W] gcs_client.cc:210: InvalidAuthToken\nmine\n")
            if of_cluster:
                raise ConnectionError("RPC error: InvalidAuthToken: it is missing or incorrect")

    monkeypatch.setattr(ray._raylet, "GcsClient", Client)
    monkeypatch.setattr(ray._raylet, "AuthenticationTokenLoader", object, raising=False)
    assert ray_internals.is_refused("10.0.0.1:6379", 60) is bool(of_cluster)
    assert capfd.readouterr().err == "mine\n"


def test_a_silent_cluster_keeps_no_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray's client waits half a minute for it, and would keep what others write meanwhile."""
    import ray

    ends = threading.Event()
    monkeypatch.setattr(ray._raylet, "GcsClient", lambda address: ends.wait())
    monkeypatch.setattr(ray._raylet, "AuthenticationTokenLoader", object, raising=False)
    with pytest.raises(TimeoutError):
        ray_internals.is_refused("10.0.0.1:6379", 0.01)
    os.write(2, b"mine\n")
    assert capfd.readouterr().err == "mine\n"
    ends.set()


class _Loader:
    """Ray's token loader, for a user with or without a token."""

    has_one = True

    @classmethod
    def instance(cls) -> "_Loader":
        return cls()

    def has_token(self) -> bool:
        return self.has_one and os.environ.get("RAY_AUTH_MODE") == "token"


@pytest.mark.parametrize(
    ("mode", "headers", "token"),
    [
        ("token", {"authorization": "Bearer abc"}, "abc"),
        ("token", {}, None),
        ("disabled", {"authorization": "Bearer abc"}, None),
    ],
)
def test_the_own_token_is_told_where_ray_wants_one(
    mode: str, headers: dict[str, str], token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    loader = SimpleNamespace(get_token_for_http_header=lambda: headers)
    modes = SimpleNamespace(TOKEN="token", DISABLED="disabled")
    for name, value in {
        "get_authentication_mode": lambda: mode,
        "AuthenticationMode": modes,
        "AuthenticationTokenLoader": SimpleNamespace(instance=lambda: loader),
    }.items():
        monkeypatch.setattr(ray._raylet, name, value, raising=False)
    assert ray_internals.own_token() == token


class _Config:
    """Ray's Config, which records each time Ray reads the setting."""

    read: ClassVar[list[str | None]] = []

    @classmethod
    def initialize(cls, _settings: str) -> None:
        cls.read.append(os.environ.get("RAY_AUTH_MODE"))


@pytest.mark.parametrize(
    ("mode", "has_one", "read"),
    [
        (None, True, ["token"]),
        (None, False, ["token", None]),  # Ray would abort a process that has none to send
        ("disabled", True, []),
        ("token", True, []),
    ],
)
def test_the_token_is_sent_if_there_is_one(
    mode: str | None, has_one: bool, read: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "")  # so that it is as before after the test
    monkeypatch.delenv("RAY_AUTH_MODE")
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(_Loader, "has_one", has_one)
    monkeypatch.setattr(_Config, "read", [])
    monkeypatch.setattr(ray._raylet, "AuthenticationTokenLoader", _Loader, raising=False)
    monkeypatch.setattr(ray._raylet, "Config", _Config)
    ray_internals.enable_token()
    assert _Config.read == read
    assert os.environ.get("RAY_AUTH_MODE") == [mode, *read][-1]


def _note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which `ray start` writes the address of its cluster, on a machine of our own."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray/ray_current_cluster"
