"""Observers on Ray: servers without a vote, for clients like any other."""

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import ray

from raykeeper.actors.disk.identity import read_identity
from raykeeper.actors.ray_actors import find_replica
from raykeeper.client.client import Client
from raykeeper.client.ensembles import dialer_of
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import SessionOptions
from raykeeper.clusters import ConfigError, Ensemble, launch
from raykeeper.links.contract import ServerFinder
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Launch, eventually

OBSERVER = ServerId(4)


def roles(ensemble: Ensemble) -> list[str]:
    return [server.role for server in ensemble.status().servers]


def connect_to(ensemble: Ensemble, server: ServerId) -> Client:
    dialer = dialer_of(ensemble.name, 10.0)
    # A killed server comes back.
    options = SessionOptions(session_timeout_s=50.0, timeout_s=90.0, learns_servers=False)
    return Client(BlockingSession.open([server], dialer, options))


def observes(ensemble: Ensemble, server: ServerId) -> Any:
    (status,) = [s for s in ensemble.status().servers if s.server_id == server]
    return status if status.role == "observer" and not status.problem else None


def test_an_observer_serves_without_a_vote_and_returns_after_a_kill(
    launch_one: Launch, tmp_path: Path
) -> None:
    """1. Three voters and an observer; a client of the observer reads and writes.
    2. The observer is killed with SIGKILL and comes back on a new disk: it needs no vote.
    3. Two voters go: with the observer that would be a majority of four, of three it is none.
    """
    ensemble = launch_one(observers=1)
    status = eventually(lambda: observes(ensemble, OBSERVER))
    eventually(lambda: sorted(roles(ensemble)) == ["follower", "follower", "leader", "observer"])
    with pytest.raises(ConfigError, match="observers: runs with 1, asked for 0"):
        launch(name=ensemble.name, observers=0)
    with connect_to(ensemble, OBSERVER) as client:
        client.create("/a", b"1")
        assert client.get("/a")[0] == b"1"
        assert ensemble.status().servers[3].sessions == 1

        folder = tmp_path / "data" / ensemble.name / str(OBSERVER)
        before = read_identity(folder)
        os.kill(status.pid, signal.SIGSTOP)
        shutil.rmtree(folder)
        os.kill(status.pid, signal.SIGKILL)
        eventually(lambda: read_identity(folder) not in (None, before))
        client.set("/a", b"2")
        assert client.get("/a")[0] == b"2"
        eventually(lambda: observes(ensemble, OBSERVER))

    leader = ensemble.wait_for_leader()
    others = [ServerId(i) for i in (1, 2, 3) if i != leader]
    for server in others:
        ray.kill(find_replica(ensemble.name, server), no_restart=True)
    told = "2 of 3 voters are needed, 1 can vote"
    eventually(lambda: told in (ensemble.status().reason or ""))
    # What a client asks for that finds none of the servers that it knows.
    finder = dialer_of(ensemble.name, 10.0)
    assert isinstance(finder, ServerFinder)
    assert asyncio.run(finder.list_servers()) == sorted((leader, OBSERVER))
    launch_one(ensemble.name, observers=1)
    with connect_to(ensemble, OBSERVER) as client:
        assert client.get("/a")[0] == b"2"


def test_writes_wait_for_no_observer_and_each_of_them_answers_reads(launch_one: Launch) -> None:
    """1. A client at each of five servers; what one writes, each reads at its own.
    2. Both observers and a follower stand still: two of five go on, a majority of the voters.
    3. They go on, and have it all.
    """
    ensemble = launch_one(observers=2)
    eventually(lambda: sorted(roles(ensemble))[-2:] == ["observer", "observer"])
    leader = ensemble.wait_for_leader()
    clients = {server: connect_to(ensemble, server) for server in map(ServerId, range(1, 6))}
    clients[leader].create("/a", b"1")
    for client in clients.values():
        client.sync()
        assert client.get("/a", watch=print)[0] == b"1"
    servers = ensemble.status().servers
    assert [server.watches for server in servers] == [1] * 5

    follower = next(s.server_id for s in servers if s.role == "follower")
    stopped = [s.pid for s in servers if s.server_id in (follower, 4, 5)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert clients[leader].set("/a", b"2").version == 1
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    for server in (ServerId(4), ServerId(5)):
        with connect_to(ensemble, server) as client:
            client.sync()
            assert client.get("/a")[0] == b"2"
    for client in clients.values():
        client.close()
