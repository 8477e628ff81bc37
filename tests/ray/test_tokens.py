"""Beside somebody else's Ray, which wants a token: one line that says what to do, in seconds."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray

from tests.ray import programs

SOON_S = 15.0
"""Far more than a command takes that is refused, and less than `ray.init` tries."""
WANTS = "wants a token: export RAY_AUTH_MODE=token"
PUT = "put the token of the cluster into ~/.ray/auth_token or RAY_AUTH_TOKEN"


@pytest.fixture
def tokenless() -> Iterator[dict[str, str]]:
    """The environment of another user of this machine, without a token."""
    home = tempfile.mkdtemp(prefix="rk", dir="/tmp")
    yield {"HOME": home}
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.skipif(
    tuple(map(int, ray.__version__.split(".")[:2])) < (2, 59), reason="Ray wants no token by itself"
)
def test_a_user_without_the_token_gets_an_error_or_their_own_ray(
    command: Callable[..., Any], tokenless: dict[str, str], bare_machine: dict[str, str]
) -> None:
    done = command("up", "--servers", "1")
    assert "RAY_AUTH_MODE=token" in done.stdout, done.stderr

    def refused(*words: str, **environment: str) -> str:
        began = time.monotonic()
        done = command(*words, **tokenless, **environment)
        assert time.monotonic() - began < SOON_S
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
        error: str = done.stderr
        return error

    assert f"{WANTS}; {PUT}" in refused("status")
    assert f"RAY_AUTH_MODE is token, but there is none: {PUT}" in refused(
        "status", RAY_AUTH_MODE="token"
    )
    wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    assert f"wants another token than this user's: {PUT}" in refused("status", **wrong)
    assert "or start a Ray of your own with `raykeeper up --own-ray`" in refused("up")
    program = "import raykeeper.client as c; c.connect('coord')"
    joined = programs.run(
        [sys.executable, "-c", program], {**bare_machine, **tokenless}, timeout_s=SOON_S
    )
    assert "gcs_client" not in joined.stderr
    *_, last = joined.stderr.splitlines()
    assert "WrongContextError" in last and WANTS in last

    # Their Ray makes the token that their settings ask for.
    tokenless["RAY_AUTH_MODE"] = "token"
    done = command("up", "--own-ray", "--servers", "1", **tokenless)
    assert done.returncode == 0, done.stderr
    # Theirs is the last that was started here, and a program joins its own user's all the same.
    program = "import raykeeper.client as c; c.connect('coord').create('/ours')"
    joined = programs.run([sys.executable, "-c", program], bare_machine)
    assert joined.returncode == 0, joined.stderr
    assert command("shell", "get", "/ours").returncode == 0
    assert command("down", "--ray", **tokenless).returncode == 0
    assert command("down", "--ray").returncode == 0
