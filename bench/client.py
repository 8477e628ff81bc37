"""The cost of a pipelined request in the client: in its core, and through the public clients.

    python bench/client.py [--requests N] [--rounds N]

The first table drives `ClientCore` alone: numbering, encoding, decoding, completing. The script
encodes the server's frames beforehand, so it times only the client's own work.

The second table is what a program pays: `Client.set_async` or `get_async` and `result()`, with the
threads between them, and `AsyncClient` on uvloop where that exists. The client is connected to
`StubServer`, whose link has no socket and whose own time is subtracted.

Times are processor times of the whole process, medians of several rounds.
"""

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar

from raykeeper.bench.loads.generate import loop_factory
from raykeeper.client import AsyncClient, Client
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import Complete, SendFrame
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.client.loop_thread import shared_loop
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import SessionOptions
from raykeeper.links.contract import LinkEvents
from raykeeper.zab.ids import Epoch, Millis, ServerId, make_zxid
from raykeeper.znodes.replies import (
    ConnectReply,
    GetDataReply,
    Item,
    ServerFrame,
    WriteReply,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    GetData,
    Request,
    SessionId,
    SetData,
    Write,
    decode_client_frame,
)
from raykeeper.znodes.stat import Stat

F = TypeVar("F")
TARGET_US = 4
CLIENT_TARGET_US = 6
ASYNC_CLIENT_TARGET_US = 5
BATCHES = (1, 10, 100, 1000)
VALUE = b"v" * 1024
PATH = "/bench/znode"
ZXID = make_zxid(Epoch(1), 1)
STAT = Stat(ZXID, ZXID, Millis(1), Millis(1), 1, 0, 0, 0, len(VALUE), 0, ZXID)


def serving_core() -> ClientCore:
    """Return a core that is connected to a server."""
    now = Millis(0)
    core = ClientCore(bytes(16), Millis(10_000), [ServerId(1)], Random(1), ClientLimits())
    core.start(now)
    core.link_opened(now)
    connected = ConnectReply(0, SessionId(ZXID), Millis(10_000), ZXID, 0)
    core.frame(encode_server_frame(connected), now)
    core.out.clear()
    return core


def answer_frames(ask: NewRequest, batch: int, requests: int) -> list[bytes]:
    """Return the server's frames that answer `requests` requests in batches of `batch`."""

    def answer(ident: int) -> Item:
        if isinstance(ask, Query):
            return GetDataReply(ident, ZXID, VALUE, STAT)
        return WriteReply(ident, ZXID, 0, "", STAT)

    return [
        encode_server_frame(
            ServerFrame(beat + 1, ZXID, [answer(beat * batch + i + 1) for i in range(batch)])
        )
        for beat in range(requests // batch)
    ]


def measure(ask: NewRequest, batch: int, requests: int) -> tuple[float, float]:
    """Return the microseconds per request to send it, and to process its answer."""
    core, frames = serving_core(), answer_frames(ask, batch, requests)
    now, token = Millis(1), object()
    sending = taking = 0.0
    completed = 0
    for frame in frames:
        started = time.process_time()
        for _ in range(batch):
            core.submit(ask, token, now)
        core.flush(now)
        sent = time.process_time()
        assert isinstance(core.out[0], SendFrame)
        core.out.clear()
        resumed = time.process_time()
        core.frame(frame, now)
        taking += time.process_time() - resumed
        sending += sent - started
        completed += sum(isinstance(effect, Complete) for effect in core.out)
        core.out.clear()
    assert completed == len(frames) * batch, completed
    return sending / completed * 1e6, taking / completed * 1e6


class StubServer:
    """A dialer and its link: answers each frame of a client in the next turn of the loop."""

    carrier = "stub"
    incarnation = 1

    def __init__(self) -> None:
        self.own_s = 0.0
        """The processor time that the stub has taken."""

    async def dial(self, _server: ServerId, events: LinkEvents) -> "StubServer":
        """See `Dialer`."""
        self._events, self._loop = events, asyncio.get_running_loop()
        return self

    def send(self, frame: bytes) -> None:
        """See `Link`."""
        began = time.thread_time()
        sent = decode_client_frame(frame)
        if type(sent) is ClientFrame:
            items = [_reply_to(request) for request in sent.requests]
            reply = encode_server_frame(ServerFrame(sent.heartbeat_seq, ZXID, items))
        else:
            reply = encode_server_frame(ConnectReply(0, SessionId(ZXID), Millis(10_000), ZXID, 0))
        self._loop.call_soon(self._events.frames, [reply])
        self.own_s += time.thread_time() - began

    send_last = send

    def close(self, reason: str) -> None:
        """See `Link`."""

    def on_bytes_sent(self, callback: object) -> None:
        """See `Link`; nothing waits here."""


def _reply_to(request: Request) -> Item:
    if type(request) is Write:
        return WriteReply(request.number, ZXID, 0, "", STAT)
    assert type(request) is GetData, request
    return GetDataReply(request.xid, ZXID, VALUE, STAT)


class ProcessorTime:
    """Microseconds of this process per request, without those of the stub."""

    def __init__(self, server: StubServer, requests: int) -> None:
        self._server, self._requests = server, requests
        self._began = time.process_time() - server.own_s

    def per_request_us(self) -> float:
        """Return the time since this was made, for each request."""
        taken = time.process_time() - self._server.own_s - self._began
        return taken / self._requests * 1e6


def timed_batches(
    server: StubServer,
    calls: Mapping[str, Callable[[], F]],
    requests: int,
    rounds: int,
    found: dict[str, float],
) -> Iterator[list[F]]:
    """Yield the futures of each batch, whose results the caller takes.

    Puts microseconds per request into `found`, by the name of the call and the size of its batches.
    """
    for name, call in calls.items():
        for batch in BATCHES:
            times = []
            for _ in range(rounds):
                clock = ProcessorTime(server, requests // batch * batch)
                for _ in range(requests // batch):
                    yield [call() for _ in range(batch)]
                times.append(clock.per_request_us())
            found[f"{name}, {batch} at a time"] = statistics.median(times)


def measure_client(requests: int, rounds: int) -> dict[str, float]:
    """Return microseconds per request through `Client`: calls without waiting, then results."""
    server, found = StubServer(), dict[str, float]()
    options = SessionOptions()
    session = BlockingSession.open([ServerId(1)], server, options, loop=shared_loop())
    with Client(session) as client:
        calls: dict[str, Callable[[], Future[Any]]] = {
            "set": lambda: client.set_async(PATH, VALUE),
            "get": lambda: client.get_async(PATH),
        }
        for futures in timed_batches(server, calls, requests, rounds, found):
            for future in futures:
                future.result()
    return found


async def measure_async_client(requests: int, rounds: int) -> dict[str, float]:
    """Return microseconds per request through `AsyncClient`, of calls that are awaited later."""
    server, found = StubServer(), dict[str, float]()
    async with await AsyncClient.open([ServerId(1)], server, SessionOptions()) as client:
        calls: dict[str, Callable[[], asyncio.Future[Any]]] = {
            "set": lambda: client.set(PATH, VALUE),
            "get": lambda: client.get(PATH),
        }
        for futures in timed_batches(server, calls, requests, rounds, found):
            for future in futures:
                await future
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    gc.collect()
    gc.freeze()
    print(f"client core, 1 KB values, µs per request   send   take   both   target {TARGET_US}")
    for name, ask in (("set", SetData(PATH, VALUE, -1)), ("get", Query(GetData, PATH))):
        for batch in BATCHES:
            rounds = [measure(ask, batch, options.requests) for _ in range(options.rounds)]
            sending, taking = (statistics.median(times) for times in zip(*rounds, strict=True))
            label = f"{name}, {batch} to a frame"
            print(f"{label:40} {sending:6.2f} {taking:6.2f} {sending + taking:6.2f}")
    blocking = measure_client(options.requests, options.rounds)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        awaited = runner.run(measure_async_client(options.requests, options.rounds))
    print(
        f"public clients, stub link, µs per request     Client, target {CLIENT_TARGET_US}", end=""
    )
    print(f"   AsyncClient, target {ASYNC_CLIENT_TARGET_US}")
    for label, time_us in blocking.items():
        print(f"{label:40} {time_us:18.2f} {awaited[label]:23.2f}")


if __name__ == "__main__":
    main()
