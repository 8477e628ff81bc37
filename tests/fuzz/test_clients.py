"""Hostile clients and a hostile server: frames that are malformed, and frames that only lie.

A server closes the connection of a malformed frame, with a note, and nothing else changes. A
well-formed frame may ask for anything: no assertion fires, replicas stay the same, and a client
that behaves is served as before.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from raykeeper.client.core.effects import CloseLink, Complete, Fail
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.core.results import result_of
from raykeeper.server import server_trace_events
from raykeeper.server.events import ClientDisconnected, ClientFrameArrived
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ZXID_MAX, Zxid
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    ServerFrame,
    WriteReply,
    decode_server_frame,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Sync,
    decode_client_frame,
    encode_client_frame,
)
from raykeeper.znodes.snapshot import SnapshotLoader
from raykeeper.znodes.state import State
from tests.fuzz.budget import bounded, examples
from tests.fuzz.decoders import snapshot_chunks
from tests.fuzz.mutations import hostile_bytes
from tests.fuzz.near import FROM_CLIENTS, PASSWORD
from tests.fuzz.samples import values_of
from tests.harness.pure_servers import Caller, PureServer, PureServers
from tests.model.histories import image
from tests.unit.client.wire import Wire

HOSTILE = 666


class Scene:
    """Three servers, a client that behaves, and one that has a session and does not."""

    def __init__(self, host: int) -> None:
        self.ensemble = PureServers(3)
        self.host = self.ensemble[host]
        self.caller = self.ensemble[1].caller(1)
        self.caller.ask(self.caller.create("/a"), self.caller.create("/e", flags=1))
        self.caller.ask(self.caller.get("/a", watch=True))
        self.hostile = Caller(self.host, HOSTILE, PASSWORD)
        self.hostile.connect()
        self.ensemble.run()
        assert self.hostile.greeting is not None and self.hostile.session_id

    def send(self, connection: int, data: bytes) -> None:
        """A frame from a hostile client, on a new connection if that one was closed."""
        while connection in self.host.closed:
            connection += 10
        with bounded(len(data)):
            self.host.step(ClientFrameArrived(connection, data))
            self.ensemble.run()

    def facts(self) -> list[Any]:
        """What a malformed frame must leave as it is."""
        return [
            (
                host.server.state.digest(),
                host.server.state.zxid,
                host.server.peer.history.logged,
                host.server.peer.history.accepted,
                host.server.peer.history.current,
            )
            for host in self.ensemble.hosts.values()
        ]

    def check(self) -> None:
        """Replicas are the same and right, and the client that behaves is served."""
        self.ensemble.pass_time(500)
        (answer,) = self.caller.ask(self.caller.set("/e", b"still here"))[-1:]
        assert isinstance(answer, WriteReply) and answer.code == 0, answer
        self.ensemble.pass_time(200)
        assert len(set(self.ensemble.digests())) == 1
        for host in self.ensemble.hosts.values():
            check_state(host)


def check_state(host: PureServer) -> None:
    """Whether the sums of a state are those of its elements."""
    state = host.server.state
    image(state)
    if state.zxid >= state.consistent_at:
        assert reloaded(state).digest() == state.digest()


def reloaded(state: State) -> State:
    loader = SnapshotLoader()
    for chunk in snapshot_chunks(state):
        loader.load(chunk)
    return loader.finish(Zxid(ZXID_MAX), Zxid(ZXID_MAX))


client_frames = values_of(Connect | ClientFrame, FROM_CLIENTS)
encoded_frames = client_frames.map(encode_client_frame)


def is_client_frame(data: bytes) -> bool:
    try:
        decode_client_frame(data)
    except DECODE_ERRORS:
        return False
    return True


@examples(150)
@given(
    st.sampled_from([1, 3]),
    st.sampled_from([HOSTILE, HOSTILE + 1]),
    hostile_bytes(encoded_frames).filter(lambda data: not is_client_frame(data)),
)
def test_a_malformed_frame_of_a_client_ends_its_connection(
    host: int, connection: int, data: bytes
) -> None:
    scene = Scene(host)
    before = scene.facts()
    scene.send(connection, data)
    assert scene.facts() == before
    assert connection in scene.host.closed
    assert isinstance(scene.host.frames[connection][-1], CloseFrame)
    assert scene.host.notes(server_trace_events.CLIENT_MALFORMED)
    scene.check()


steps = st.tuples(
    st.sampled_from(["frame"] * 6 + ["gone", "time", "cut"]),
    st.sampled_from([HOSTILE] * 3 + [HOSTILE + 1]),
    encoded_frames | hostile_bytes(encoded_frames),
)


@examples(150)
@given(st.sampled_from([1, 3]), st.lists(steps, min_size=1, max_size=6))
def test_a_hostile_client_harms_only_itself(
    host: int, script: list[tuple[str, int, bytes]]
) -> None:
    scene = Scene(host)
    for kind, connection, data in script:
        if kind == "frame":
            scene.send(connection, data)
        elif kind == "gone":
            scene.host.step(ClientDisconnected(connection))
        elif kind == "time":
            scene.ensemble.pass_time(300)
        elif host == 1:
            scene.ensemble.cut(1, 3)
            scene.ensemble.link(1, 3)
    scene.check()


FROM_SERVERS = {
    **FROM_CLIENTS,
    "xid": st.integers(0, 6),
    "number": st.integers(0, 3),
    "code": st.sampled_from([0, 0, -4, -101, -112, -115, 7, 1 << 63]),
    "beat": st.integers(0, 4) | st.just((1 << 64) - 1),
}
server_frames = values_of(ConnectReply | ServerFrame | CloseFrame, FROM_SERVERS)
ASKS = [
    Query(GetData, "/a", object()),
    Query(Exists, "/missing", object()),
    Query(GetChildren, "/", object()),
    Query(Sync, "/"),
    SetData("/a", b"v", -1),
]
ANSWERS = [GetDataReply, ExistsReply, GetChildrenReply, EmptyReply, WriteReply]


class Session:
    """A client core with requests under way, and what became of each."""

    def __init__(self) -> None:
        self.wire = Wire().serving()
        self.ends: dict[int, int] = dict.fromkeys(range(len(ASKS)), 0)
        for token, ask in enumerate(ASKS):
            self.wire.core.submit(ask, token, self.wire.now)
        self.wire.core.flush(self.wire.now)
        self.take()

    def take(self) -> list[Any]:
        effects = self.wire.effects()
        for effect in effects:
            if isinstance(effect, Complete | Fail):
                assert isinstance(effect.token, int)
                self.ends[effect.token] += 1
            if isinstance(effect, Complete):
                assert type(effect.reply) is ANSWERS[effect.token]  # type: ignore[index]
                result_of(effect.reply)
        assert max(self.ends.values()) <= 1, "a request ended twice"
        return effects

    def send(self, data: bytes) -> list[Any]:
        with bounded(len(data)):
            self.wire.core.frame(data, self.wire.now)
            self.wire.core.flush(self.wire.now)
        return self.take()


def is_server_frame(data: bytes) -> bool:
    try:
        decode_server_frame(data)
    except DECODE_ERRORS:
        return False
    return True


@examples(150)
@given(
    hostile_bytes(server_frames.map(encode_server_frame)).filter(
        lambda data: not is_server_frame(data)
    )
)
def test_a_malformed_frame_of_a_server_ends_the_connection(data: bytes) -> None:
    session = Session()
    core = session.wire.core
    before = core.session_id, core.last_zxid
    effects = session.send(data)
    assert isinstance(effects[0], CloseLink) and core.state is ClientState.SUSPENDED
    assert (core.session_id, core.last_zxid) == before
    assert not any(session.ends.values()), "a request was answered"
    session.wire.opened()
    (connected, sent) = session.wire.connected()[:2]
    assert len(sent.requests) == len(ASKS), "all are sent again"
    assert connected is not None


@examples(150)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 3_000, 20_000]), server_frames.map(encode_server_frame)),
        max_size=6,
    )
)
def test_a_hostile_server_does_not_break_the_client(script: list[tuple[int, bytes]]) -> None:
    session = Session()
    wire = session.wire
    for wait_ms, data in script:
        session.send(data)
        due = wire.core.deadline()
        assert due is None or isinstance(due, int)
        wire.at(wire.now + wait_ms)
        wire.core.wake(wire.now)
        opened = [effect for effect in session.take() if type(effect).__name__ == "OpenLink"]
        if opened:
            wire.core.link_opened(wire.now)
            session.take()
    wire.core.close(wire.now)
    wire.at(wire.now + (1 << 40))
    wire.core.wake(wire.now)
    session.take()
    assert set(session.ends.values()) == {1}, "a request without an end"
