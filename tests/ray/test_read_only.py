"""Read-only mode on Ray: two of three servers stand still, and go on later."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raykeeper.client import AsyncClient, connect
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.client.errors import NotReadOnlyError
from raykeeper.clusters import Ensemble
from tests.ray.conftest import Launch, all_serve, eventually


@contextmanager
def without_quorum(ensemble: Ensemble) -> Iterator[None]:
    """The leader and a follower stand still."""
    eventually(lambda: all_serve(ensemble))
    leader = ensemble.wait_for_leader()
    servers = sorted(ensemble.status().servers, key=lambda each: each.server_id != leader)
    stopped = [server.pid for server in servers[:2]]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_reads_go_on_without_a_quorum_and_writes_resume_with_it(launch_one: Launch) -> None:
    ensemble = launch_one()
    with ensemble.connect() as writer:
        writer.create("/config", b"1")
        writer.sync("/")
    with (
        ensemble.connect(session_timeout_s=20.0, read_only=True) as before,
        ensemble.connect(session_timeout_s=20.0) as other,
    ):
        before.create("/mine", ephemeral=True)
        session_id = before.session_id
        with without_quorum(ensemble):
            states: list[ClientState] = []
            events: list[WatchedEvent] = []
            late = connect(ensemble.name, read_only=True)
            late.add_listener(states.append)
            assert (late.state, late.session_id) == (ClientState.CONNECTED_READ_ONLY, 0)
            assert late.get("/config", watch=events.append)[0] == b"1"
            for refused in (lambda: late.set("/config", b"2"), lambda: late.sync("/")):
                with pytest.raises(NotReadOnlyError):
                    refused()
            assert asyncio.run(read(ensemble)) == b"1"
            eventually(lambda: before.state is ClientState.CONNECTED_READ_ONLY)
            assert before.get("/config")[0] == b"1"
            assert other.state is not ClientState.CONNECTED_READ_ONLY
        eventually(lambda: late.state is ClientState.CONNECTED)
        assert late.session_id
        assert late.set("/config", b"2").version == 1
        eventually(lambda: [event.type.name for event in events] == ["CHANGED"])
        assert states[-1] is ClientState.CONNECTED
        late.close()
        eventually(lambda: before.state is ClientState.CONNECTED)
        assert before.session_id == session_id
        stat = before.exists("/mine")
        assert stat is not None and stat.ephemeral_owner == session_id


async def read(ensemble: Ensemble) -> bytes:
    async with await AsyncClient.connect(ensemble.name, read_only=True) as client:
        assert client.state is ClientState.CONNECTED_READ_ONLY
        return (await client.get("/config"))[0]
