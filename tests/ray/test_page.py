"""The page of a real ensemble, over plain HTTP: the command, the token, a lock, a dead server."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from raykeeper.actors.ray_actors import find_replica
from raykeeper.clusters import Ensemble
from raykeeper.links.ray_internals import own_token
from tests.ray.conftest import Launch, Run, all_serve, eventually, role_of

# A process inherits that SIGINT is ignored, as it is in a job in the background of a shell.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from raykeeper.commands.command_line import main; main()"
)


class ServedPage:
    """A page that a command serves, and Ray's token."""

    def __init__(self, told: str) -> None:
        found = re.search(r"http://127\.0\.0\.1:\d+/", told)
        assert found is not None, told
        self.url = found[0]
        shown = re.search(r"token=(\S+)", told)
        self.token = own_token() or (shown[1] if shown else "")

    def get(self, path: str, **headers: str) -> Any:
        """Return the document of an answer."""
        given = {"Authorization": f"Bearer {self.token}", **headers}
        request = urllib.request.Request(f"{self.url}{path}", headers=given)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture
def ensemble(launch_one: Launch) -> Ensemble:
    ensemble = launch_one()
    eventually(lambda: all_serve(ensemble))
    return ensemble


@pytest.fixture
def page(ensemble: Ensemble, driver_environment: dict[str, str]) -> Iterator[ServedPage]:
    words = ["ui", ensemble.name, "--port", "0", "--interval-s", "0.2"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.PIPE,
        text=True,
        env=driver_environment,
    )
    try:
        assert process.stdout is not None
        yield ServedPage(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_a_real_ensemble_is_shown(ensemble: Ensemble, page: ServedPage, run: Run) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        page.get("api/v1/load", Authorization="Bearer wrong")
    assert refused.value.code == 401
    refused.value.close()
    with ensemble.connect() as client:
        client.create("/locks/x", b"\xff", makepath=True)
        with client.lock("/locks/x", b"me"):
            (lock,) = page.get("api/v1/locks?path=/locks")["locks"]
            assert (lock["path"], lock["contenders"][0]["state"]) == ("/locks/x", "holds")
            assert f"pid {os.getpid()} on" in lock["contenders"][0]["identity"]
        znode = page.get("api/v1/znode?path=/locks/x")
        assert (znode["value"], znode["value_base64"], znode["is_text"]) == (None, "/w==", False)
        (child,) = page.get("api/v1/children?path=/locks")["children"]
        assert (child["name"], child["value_bytes"]) == ("x", 1)
        # The session of the client, and that with which the page has read the value.
        shown = page.get("api/v1/sessions")
        assert shown["total"] == 2
        told = json.loads(run("sessions", "--json", ensemble.name)[1])
        assert [each["session_id"] for each in shown["sessions"]] == [
            each["session_id"] for each in told["sessions"]
        ]
        assert page.get("api/v1/events")["events"] == []
    taken = page.url.rpartition(":")[2].strip("/")
    code, _, error = run("ui", ensemble.name, "--port", taken)
    assert (code, f"cannot listen at 127.0.0.1:{taken}: " in error) == (1, True)
    leader = role_of(ensemble, leads=True)
    killed = role_of(ensemble, leads=False)
    ray.kill(find_replica(ensemble.name, killed.server_id), no_restart=True)

    def down() -> bool:
        servers = page.get("api/v1/load")["load"]["servers"]
        return [each["server_id"] for each in servers if each["role"] == "down"] == [
            killed.server_id
        ]

    eventually(down)
    assert page.get("api/v1/status")["leader"] == leader.server_id
    texts = [each["text"] for each in page.get("api/v1/events")["changes"]]
    assert any(each.startswith(f"server {killed.server_id} is down: ") for each in texts)
    assert page.get("api/v1/sizes")["told_by"] == leader.server_id
