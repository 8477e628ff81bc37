"""The cost of a pipelined request in the client core: numbering, encoding, decoding, completing.

    python bench/client.py [--requests N] [--rounds N]

The script drives `ClientCore` alone. It encodes the server's frames beforehand, so it times only
the client's own work. Times are processor times, medians of several rounds.
"""

import argparse
import gc
import statistics
import time
from random import Random

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import Complete, SendFrame
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.zab.ids import Epoch, Millis, ServerId, make_zxid
from raykeeper.znodes.replies import (
    ConnectReply,
    GetDataReply,
    Item,
    ServerFrame,
    WriteReply,
    encode_server_frame,
)
from raykeeper.znodes.requests import GetData, SessionId, SetData
from raykeeper.znodes.stat import Stat

TARGET_US = 4
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


def main() -> None:
    """Print the table."""
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


if __name__ == "__main__":
    main()
