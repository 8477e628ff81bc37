"""Hostile clients of the port for ZooKeeper's clients: the connections of one generator process.

| kind | what each connection does, and anew when the server ends it |
|---|---|
| silent | says nothing |
| slow | has a session, and sends a request of 1 MB, a byte at a time |
| lengths | says that 2^31 - 1 bytes follow, or -1, every second time behind a handshake |
| unread | has a session, asks for long lists, and reads none of them; goes after some seconds |
| connections | has a session and pings from then on; opened before the load begins, and not anew |

A connection that was ended is opened again after `RETRY_S`: what is measured is a server that is
bothered, and not how many connections a machine can open.
"""

import asyncio
import itertools
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from raykeeper.bench.loads.raykeeper_clients import gather_bounded
from raykeeper.bench.loads.task import LoadReport, LoadTask, where_of
from raykeeper.jute.frames import encode_connect, encode_request
from raykeeper.jute.opcodes import PING_XID, OpCode
from raykeeper.jute.records import ConnectRequest, EmptyRequest, PathWatchRequest

LIST: Final = "/hostile"
"""The znode with many children."""
RETRY_S: Final = 0.05
SLOW_S: Final = 0.05
UNREAD_S: Final = 5.0
UNREAD_LISTS: Final = 20
REQUEST_BYTES: Final = 1_000_000
TIMEOUT_MS: Final = 30_000
LENGTHS: Final = ((1 << 31) - 1, -1)
_HELLO: Final = encode_connect(ConnectRequest(0, 0, TIMEOUT_MS, 0, bytes(16), False))
_PING: Final = encode_request(PING_XID, OpCode.PING, EmptyRequest())
_LISTS: Final = UNREAD_LISTS * encode_request(1, OpCode.GET_CHILDREN, PathWatchRequest(LIST, False))

Counts = Counter[str]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def be_hostile(task: LoadTask, begin: Callable[[], Callable[..., LoadReport]]) -> LoadReport:
    """Act as `task.kind` says until another line comes.

    `done` of the report are the connections that were opened, `errors` those of them that the
    server refused or ended.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    places = [where_of(task, number) for number in range(task.clients)]
    counts: Counts = Counter()
    if task.kind == "connections":
        acting = await gather_bounded([partial(_begin_to_ping, each, counts) for each in places])
        report_of = await asyncio.to_thread(begin)
    else:
        report_of = await asyncio.to_thread(begin)
        act = _ACTS[task.kind]
        acting = [asyncio.ensure_future(_again(act, place, counts)) for place in places]
    await asyncio.to_thread(sys.stdin.readline)
    for each in acting:
        each.cancel()
    results = await asyncio.gather(*acting, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return report_of(done=counts["opened"], errors=counts["ended"])


async def _again(
    act: Callable[[Streams, int], Awaitable[None]], place: str, counts: Counts
) -> None:
    for turn in itertools.count():
        try:
            streams = await _open(place, counts)
        except OSError:
            counts["ended"] += 1
        else:
            try:
                await act(streams, turn)
            except (OSError, EOFError):
                counts["ended"] += 1
            finally:
                streams[1].transport.abort()
        await asyncio.sleep(RETRY_S)


async def _open(place: str, counts: Counts) -> Streams:
    host, _, port = place.rpartition(":")
    streams = await asyncio.open_connection(host, int(port))
    counts["opened"] += 1
    return streams


async def _begin_to_ping(place: str, counts: Counts) -> asyncio.Future[None]:
    streams = await _open(place, counts)
    await _open_session(streams)
    return asyncio.ensure_future(_ping(streams, counts))


async def _open_session(streams: Streams) -> None:
    reader, writer = streams
    _write(writer, _HELLO)
    size = int.from_bytes(await reader.readexactly(4))
    await reader.readexactly(size)


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if writer.is_closing():  # uvloop has an error of its own for it
        raise ConnectionResetError("the server ended the connection")
    writer.write(data)


async def _be_silent(streams: Streams, _turn: int) -> None:
    await streams[0].readexactly(1)


async def _be_slow(streams: Streams, _turn: int) -> None:
    await _open_session(streams)
    _, writer = streams
    _write(writer, REQUEST_BYTES.to_bytes(4))
    for _ in range(REQUEST_BYTES - 1):
        _write(writer, b"\0")
        await writer.drain()
        await asyncio.sleep(SLOW_S)


async def _lie(streams: Streams, turn: int) -> None:
    if turn % 2:
        await _open_session(streams)
    reader, writer = streams
    _write(writer, LENGTHS[turn // 2 % 2].to_bytes(4, signed=True) + bytes(100))
    await reader.readexactly(1)


async def _leave_unread(streams: Streams, _turn: int) -> None:
    await _open_session(streams)
    _write(streams[1], _LISTS)  # the reader stops by itself
    await asyncio.sleep(UNREAD_S)


async def _ping(streams: Streams, counts: Counts) -> None:
    reader, writer = streams
    reading = asyncio.ensure_future(_read_all(reader))
    try:
        while not reading.done():
            await asyncio.wait([reading], timeout=TIMEOUT_MS / 3000)
            with suppress(OSError):
                _write(writer, _PING)
        counts["ended"] += 1
    finally:
        reading.cancel()
        writer.transport.abort()


async def _read_all(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(1 << 16):
            pass


_ACTS: Final[dict[str, Callable[[Streams, int], Awaitable[None]]]] = {
    "silent": _be_silent,
    "slow": _be_slow,
    "lengths": _lie,
    "unread": _leave_unread,
}
