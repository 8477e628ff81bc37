"""The Ray cluster that a process would join, found without Ray."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from raykeeper.client import ensembles
from raykeeper.client.errors import WrongContextError
from raykeeper.client.head_record import LocalHead, record_file
from raykeeper.client.ray_address import answers_at, join_problem, running_address
from raykeeper.links.processes import started_at, this_pid_namespace


@pytest.fixture
def ray_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which `ray start` notes the cluster's address, on a simulated machine."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray/ray_current_cluster"


def note_own_head(address: str) -> None:
    """Write the record of `raykeeper up`: this process stands for the head."""
    record_file().parent.mkdir()
    head = LocalHead(os.getpid(), started_at(os.getpid()), this_pid_namespace(), address)
    record_file().write_bytes(msgspec.json.encode(head))


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def gone() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_without_a_record_there_is_no_address(ray_note: Path) -> None:
    assert running_address() is None


def test_the_last_cluster_started_is_found(ray_note: Path, listening: str) -> None:
    ray_note.write_text(listening)
    assert running_address() == listening


def test_a_stopped_cluster_is_not_found(ray_note: Path, gone: str) -> None:
    ray_note.write_text(gone)
    assert not answers_at(gone)
    assert running_address() is None


@pytest.mark.parametrize("from_environment", [None, "auto"])
def test_the_head_of_up_comes_before_another_cluster(
    ray_note: Path, listening: str, from_environment: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever joins a cluster asks here: `connect` and the tools, `launch`, and every command."""
    if from_environment is not None:
        monkeypatch.setenv("RAY_ADDRESS", from_environment)
    ray_note.write_text(listening)
    note_own_head("10.0.0.1:6379")
    assert running_address() == "10.0.0.1:6379"
    record_file().unlink()
    assert running_address() == listening


def test_the_environment_comes_first(
    ray_note: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_note.write_text(listening)
    note_own_head(listening)
    monkeypatch.setenv("RAY_ADDRESS", "ray://somewhere:10001")
    assert running_address() == "ray://somewhere:10001"
    assert answers_at("ray://somewhere:10001"), "an address of another form is left to Ray"


def test_connect_does_not_wait_for_a_stopped_cluster(
    ray_note: Path, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongContextError, match="no Ray cluster runs"):
        ensembles.join_cluster()
    monkeypatch.setenv("RAY_ADDRESS", gone)
    with pytest.raises(WrongContextError, match="no Ray cluster answers at"):
        ensembles.join_cluster()
    monkeypatch.setenv("RAY_ADDRESS", "ray://somewhere:10001")
    with pytest.raises(WrongContextError, match="ray job submit"):
        ensembles.join_cluster()


class _NoToken:
    """Ray's lookup of a token, where there is none."""

    @classmethod
    def instance(cls) -> "_NoToken":
        return cls()

    def has_token(self, ignore_auth_mode: bool) -> bool:
        return False


def test_a_missing_token_is_reported_before_ray_aborts(
    ray_note: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(ray._raylet, "AuthenticationTokenLoader", _NoToken, raising=False)
    told = join_problem(listening)
    assert told is not None and told.startswith("RAY_AUTH_MODE is token, but there is none: put")


def test_a_ray_without_tokens_needs_none(
    ray_note: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting means nothing to it."""
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delattr(ray._raylet, "AuthenticationTokenLoader", raising=False)
    monkeypatch.delattr(ray._raylet, "GcsClient")
    assert join_problem(listening) is None


class _Token(_NoToken):
    """Ray's lookup of a token, where there is one."""

    def has_token(self, ignore_auth_mode: bool) -> bool:
        return True


class _Config:
    """Ray's settings, which are read again."""

    @staticmethod
    def initialize(settings: str) -> None:
        pass


@pytest.mark.parametrize(
    ("wants_token", "whose", "mode", "problem"),
    [
        (False, "the last started", None, None),
        (True, "the last started", "token", None),
        (True, "that of `up`", "token", None),
        (True, "anybody's", None, "wants a token"),
    ],
)
def test_the_token_is_sent_only_to_a_cluster_that_wants_it(
    ray_note: Path,
    listening: str,
    monkeypatch: pytest.MonkeyPatch,
    wants_token: bool,
    whose: str,
    mode: str | None,
    problem: str | None,
) -> None:
    import ray

    def connect(address: str) -> None:
        if wants_token and os.environ.get("RAY_AUTH_MODE") != "token":
            raise RuntimeError("InvalidAuthToken")

    monkeypatch.setenv("RAY_AUTH_MODE", "")  # so that it is as before after the test
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.setattr(ray._raylet, "AuthenticationTokenLoader", _Token, raising=False)
    monkeypatch.setattr(ray._raylet, "Config", _Config)
    monkeypatch.setattr(ray._raylet, "GcsClient", connect)
    if whose == "the last started":
        ray_note.write_text(listening)
    elif whose == "that of `up`":
        note_own_head(listening)
    told = join_problem(listening)
    assert (told is None) is (problem is None) and (problem or "") in (told or "")
    assert os.environ.get("RAY_AUTH_MODE") == mode


@pytest.mark.parametrize("address", ["auto", "local", "ray://somewhere:10001"])
def test_an_address_of_another_form_needs_no_token(
    ray_note: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    asked: list[object] = []

    def ask(**named: object) -> None:  # Ray may abort a process that does so
        asked.append(named)

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray._raylet, "GcsClient", ask)
    assert (join_problem(address), asked) == (None, [])


def test_auto_is_the_last_cluster_started(
    ray_note: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_note.write_text(listening)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert running_address() == listening
