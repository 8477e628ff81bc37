"""A leader that was frozen while its ensemble went on, and clients that ask it as it wakes up.

Both clients know no other server, and their links bear a long silence, so the process that wakes
up serves them still. One asks while it is frozen: its request waits in the socket. The other asks
right after SIGCONT. Both ask for a synced read of what was written under the new leader meanwhile.

Two things keep it from a wrong answer: as it wakes up it finds that it was silent for too long, and
it asks a quorum before it confirms a read point (rule Z4). To see the second one alone, let the
followers die and return: they elect another leader long before the old one's patience is over.
"""

import signal
from pathlib import Path

import psutil

from raykeeper.actors.ray_actors import find_replica
from raykeeper.chaos.checks.history import Ok, Read, ReadKind, Result
from raykeeper.chaos.fault_injector import server_pid
from raykeeper.chaos.history_file import HistoryFile
from raykeeper.chaos.recorded_session import RecordedSession
from raykeeper.client import Client
from raykeeper.client.ensembles import find_servers
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import SessionOptions
from raykeeper.clusters import Ensemble
from raykeeper.links.daemon_threads import SharedCall
from raykeeper.links.hello import client_hello
from raykeeper.links.ray_calls import RayCallDialer
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import ANY_VERSION, Create, SetData

PATH = "/stale"
OLD, NEW = b"old", b"new"
TIMEOUT_S = 50.0
KEEPALIVE_MS = 15_000
PLAIN = Read(PATH, ReadKind.GET)
SYNCED = Read(PATH, ReadKind.GET, is_synced=True)


def connect_to(ensemble: str, servers: list[ServerId]) -> Client:
    """A client of these servers alone."""
    dialer = RayCallDialer(
        SharedCall(lambda s: find_replica(ensemble, s)), client_hello(), KEEPALIVE_MS
    )
    options = SessionOptions(session_timeout_s=TIMEOUT_S, timeout_s=TIMEOUT_S, learns_servers=False)
    session = BlockingSession.open(servers, dialer, options)
    return Client(session)


def read_from_a_deposed_leader(
    ensemble: Ensemble, records: Path, *, restarts_followers: bool = False
) -> int:
    """Returns how many plain reads were stale, which they may be; a synced one must not.

    With `restarts_followers` they are killed, which deposes the leader sooner than silence does.
    """
    leader = ensemble.wait_for_leader()
    others = [server for server in find_servers(ensemble.name) if server != leader]
    process = psutil.Process(server_pid(ensemble, leader))
    followers = [psutil.Process(server_pid(ensemble, server)) for server in others]
    with (
        HistoryFile(records / f"{ensemble.name}-writer.jsonl") as written,
        HistoryFile(records / f"{ensemble.name}-early.jsonl") as early_file,
        HistoryFile(records / f"{ensemble.name}-late.jsonl") as late_file,
    ):
        writer = RecordedSession(written, f"{ensemble.name}-writer", 1, timeout_s=TIMEOUT_S)
        early = RecordedSession(
            early_file, f"{ensemble.name}-early", 1, timeout_s=TIMEOUT_S, window=4
        )
        late = RecordedSession(late_file, f"{ensemble.name}-late", 1, timeout_s=TIMEOUT_S, window=4)
        assert writer.open(lambda: connect_to(ensemble.name, others))
        assert early.open(lambda: connect_to(ensemble.name, [leader]))
        assert late.open(lambda: connect_to(ensemble.name, [leader]))
        assert isinstance(writer.call(Create(PATH, OLD, 0)), Ok)
        assert [_value(session.call(SYNCED)) for session in (early, late)] == [OLD, OLD]
        process.send_signal(signal.SIGSTOP)
        try:
            for follower in followers if restarts_followers else ():
                follower.kill()
            # It is answered once another leader has it agreed.
            assert isinstance(writer.call(SetData(PATH, NEW, ANY_VERSION)), Ok)
            waiting = [early.submit(SYNCED), early.submit(PLAIN)]
        finally:
            process.send_signal(signal.SIGCONT)
        waiting += [late.submit(SYNCED), late.submit(PLAIN)]
        values = [_value(future.result() if future else None) for future in waiting]
        assert values[0] == values[2] == NEW, values
        for session in (writer, early, late):
            session.end()
    return values.count(OLD)


def _value(result: Result | None) -> bytes | None:
    assert isinstance(result, Ok), result
    return result.value
