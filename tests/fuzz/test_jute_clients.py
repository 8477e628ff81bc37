"""A server whose clients of ZooKeeper send what they should not: it ends their connections alone.

The bytes are requests that could have been sent, cut, flipped and spliced, in pieces of any size.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from raykeeper.jute.frames import Request, encode_connect
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import ConnectRequest
from raykeeper.server.events import JuteBytesArrived
from tests.fuzz.budget import bounded, examples
from tests.fuzz.jute_values import connect_requests, request_payload, requests
from tests.fuzz.mutations import mutate
from tests.harness.jute_caller import ZEROS, JuteCaller, connected
from tests.harness.pure_servers import PureServer

HONEST = encode_connect(ConnectRequest(0, 0, 10_000, 0, ZEROS, False))


def frame(request: Request) -> bytes:
    payload = request_payload(request)
    return len(payload).to_bytes(4) + payload


def send(caller: JuteCaller, data: bytes, rng: Random) -> None:
    """Send bytes in up to three pieces, with steps in between and time behind them."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    host = caller.host
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        host.step(JuteBytesArrived(caller.connection, data[start:end]))
    while host.server.deadline() == host.clock.now:
        host.step()
    host.pass_time(200)


def check_others(host: PureServer) -> None:
    """Another client is served as ever."""
    other = connected(host, 99)
    before = other.sync("/").zxid
    assert other.create("/honest-", b"", 3).err == 0
    assert other.sync("/").zxid > before
    assert other.ask(OpCode.CLOSE_SESSION).err == 0


def check_stream(data: bytes) -> None:
    """Send bytes to a server; another client must be served as before.

    The first byte says whether they come behind a handshake, and where they are cut in two.
    """
    host = PureServer()
    caller = JuteCaller(host, 1)
    how, data = data[:1], data[1:]
    stream = HONEST + data if how and how[0] & 1 else data
    cut = len(stream) * how[0] // 256 if how else 0
    with bounded(10_000 + len(stream)):
        for piece in (stream[:cut], stream[cut:]):
            host.step(JuteBytesArrived(caller.connection, piece))
        while host.server.deadline() == host.clock.now:
            host.step()
        host.pass_time(200)
    check_others(host)


streams = st.builds(
    lambda how, sent: bytes([how]) + b"".join(map(frame, sent)),
    st.integers(0, 255),
    st.lists(requests, min_size=1, max_size=4),
) | st.builds(
    lambda connect, sent: b"\x80" + encode_connect(connect) + b"".join(map(frame, sent)),
    connect_requests,
    st.lists(requests, max_size=2),
)
"""What `check_stream` takes, of clients that keep to the protocol."""


@examples(50)
@given(streams | st.binary(max_size=100))
def test_any_stream_leaves_others_served(data: bytes) -> None:
    check_stream(data)


@examples(100)
@given(st.lists(requests, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_any_requests_are_answered_or_end_the_connection(sent: list[Request], rng: Random) -> None:
    host = PureServer()
    caller = JuteCaller(host, 1)
    data = HONEST + b"".join(map(frame, sent))
    with bounded(10_000 + len(data)):
        send(caller, data, rng)
    if not caller.is_closed:
        assert host.server.stats().outstanding == 0, "each request was answered"
    check_others(host)


@examples(150)
@given(
    st.lists(requests, min_size=1, max_size=5),
    connect_requests,
    st.randoms(use_true_random=False),
)
def test_hostile_bytes_end_their_own_connection(
    sent: list[Request], connect: ConnectRequest, rng: Random
) -> None:
    host = PureServer()
    donor = b"".join(map(frame, sent))
    streams = [
        HONEST + mutate(donor, encode_connect(connect), rng),
        mutate(encode_connect(connect) + donor, HONEST, rng),
    ]
    for number, data in enumerate(streams, 1):
        caller = JuteCaller(host, number)
        with bounded(10_000 + len(data)):
            send(caller, data, rng)
    check_others(host)
