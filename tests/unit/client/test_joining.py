"""Joining a cluster: one thread at a time, within the caller's time, with the refusal's words."""

import signal
import threading
from collections.abc import Iterator

import pytest
import ray

from raykeeper.client import joining
from raykeeper.client.errors import RayUnavailableError
from raykeeper.client.joining import join_at
from raykeeper.client.ray_lookups import fail_after
from raykeeper.zab.errors import RayKeeperError


class NotJoinedError(RayKeeperError):
    """What the tests have raised if the cluster refuses."""


@pytest.fixture
def handler() -> Iterator[None]:
    """Restore the handler of SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_cluster_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ends, begun = threading.Event(), threading.Event()

    def init(**_: object) -> None:
        begun.set()
        ends.wait()

    monkeypatch.setattr(ray, "init", init)
    with fail_after(0.05), pytest.raises(RayUnavailableError, match="its cluster at local"):
        join_at("local", NotJoinedError)
    assert begun.wait(20)
    # The next one does not call Ray beside it, and does not wait longer than it may.
    with fail_after(0.05), pytest.raises(RayUnavailableError, match="another thread"):
        join_at("local", NotJoinedError)
    ends.set()
    with joining._lock:
        pass


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), RuntimeError("version"), ValueError("address")]
)
def test_a_refusal_of_ray_has_the_callers_type_and_its_cause(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise error

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(NotJoinedError, match=f"cannot join the Ray cluster at local: {error}") as e:
        join_at("local", NotJoinedError)
    assert e.value.__cause__ is error
    assert not joining._lock.locked()


@pytest.mark.usefixtures("handler")
def test_sigterm_ends_a_process_that_has_joined_as_with_ray_init(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[object] = []
    monkeypatch.setattr(ray, "init", lambda **options: given.append(options))
    join_at("local", NotJoinedError, log_to_driver=False)
    assert given == [{"address": "local", "log_to_driver": False}]
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == signal.SIGTERM
    own = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGTERM, own)
    join_at("local", NotJoinedError)
    assert signal.getsignal(signal.SIGTERM) is own
