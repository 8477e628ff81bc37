"""How long a server does nothing else while a client lists very many children.

    python bench/listing.py [--children N]

A pure server, alone, whose disk and links are instant. Between two steps of the listing another
client deletes a child and creates it again, so that parts of the list are copied as they change.
Times are those of the processor.
"""

import argparse
import gc
import time
from collections.abc import Sequence

from raykeeper.actors.effects import SendClient
from raykeeper.actors.events import (
    SENT_BYTES,
    ClientFrameArrived,
    ClientSent,
    EpochsSaved,
    Event,
    LogSynced,
)
from raykeeper.actors.recovered import Recovered
from raykeeper.actors.server import Server
from raykeeper.actors.server_context import ServerOptions
from raykeeper.zab.effects import Append, SaveEpochs
from raykeeper.zab.ids import FOUNDING, ZERO, Epoch, Millis, Now, ServerId, Zxid
from raykeeper.zab.settings import Settings, Timing
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import ChildrenRead, CountRead, ServerFrame, decode_server_frame
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    CountDescendants,
    Create,
    Delete,
    GetChildren,
    Request,
    SessionId,
    Write,
    encode_client_frame,
    encode_op,
)
from raykeeper.znodes.txns import Created

NOW = Now(Millis(0), Millis(1_700_000_000_000))
READER, WRITER = 1, 2


class Alone:
    """An ensemble of one; `step` is one step, and what its disk answers waits for the next."""

    def __init__(self, options: ServerOptions) -> None:
        timing = Timing(tick_ms=Millis(3_600_000))
        settings = Settings(ServerId(1), (ServerId(1),), timing=timing)
        recovered = Recovered(Epoch(0), Epoch(0), ZERO, ZERO, [], [], ZERO, FOUNDING)
        self.server = Server(settings, Limits(), options, recovered)
        self.events: list[Event] = []
        self.items: list[object] = []
        self.sent: dict[int, int] = {}
        self.longest_s = 0.0
        self._carry_out(self.server.start(NOW))
        for number in (READER, WRITER):
            connect = Connect(SessionId(0), number.to_bytes(16), Millis(10_000), ZERO)
            self.events.append(ClientFrameArrived(number, encode_client_frame(connect)))
        while self.events:
            self.step()

    def ask(self, connection: int, *requests: Request) -> None:
        """A client's frame arrives with the next step."""
        data = encode_client_frame(ClientFrame(1, list(requests)))
        self.events.append(ClientFrameArrived(connection, data))

    def step(self) -> None:
        """One step, timed."""
        events, self.events = self.events, []
        started = time.process_time()
        effects = self.server.step(events, NOW)
        self.longest_s = max(self.longest_s, time.process_time() - started)
        self._carry_out(effects)

    def _carry_out(self, effects: Sequence[object]) -> None:
        for effect in effects:
            if isinstance(effect, SendClient):
                frame = decode_server_frame(effect.data)
                if isinstance(frame, ServerFrame):
                    self.items += frame.items
                number = effect.connection
                size = self.sent[number] = self.sent.get(number, 0) + len(effect.data)
                if size >= SENT_BYTES:
                    self.sent[number] = 0
                    self.events.append(ClientSent(number, size))
            elif isinstance(effect, Append):
                self.events.append(LogSynced(Zxid(effect.first + len(effect.txns) - 1)))
            elif isinstance(effect, SaveEpochs):
                self.events.append(EpochsSaved(effect.accepted, effect.current))


def crowd(count: int, options: ServerOptions) -> Alone:
    """A server with `count` znodes below one."""
    alone = Alone(options)
    tree = alone.server.state.tree
    tree.create(Zxid(1), Millis(0), Created("/crowd", b"", SessionId(0), 1))
    for number in range(count):
        change = Created(f"/crowd/task-{number:010}", b"", SessionId(0), number + 1)
        tree.create(Zxid(number + 2), Millis(0), change)
    gc.collect()
    gc.freeze()
    alone.items.clear()
    return alone


def measure(alone: Alone, request: Request, count: int) -> tuple[float, float, int]:
    """The longest step and the whole time in ms, and how many steps it took."""
    alone.items.clear()
    alone.longest_s = 0.0
    alone.ask(READER, request)
    started, steps = time.process_time(), 0
    writer = list(alone.server.state.sessions.by_id.values())[1]
    number = writer.last_number
    while not any(
        isinstance(item, CountRead) or (isinstance(item, ChildrenRead) and not item.more)
        for item in alone.items[-3:]
    ):
        if writer.last_number == number:
            path = f"/crowd/task-{number * 5_003 % count:010}"
            for op in (Delete(path, -1), Create(path, b"", 0)):
                number += 1
                alone.ask(WRITER, Write(number, writer.last_number, encode_op(op)))
        alone.step()
        steps += 1
    return alone.longest_s * 1000, (time.process_time() - started) * 1000, steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--children", type=int, default=1_000_000)
    count = parser.parse_args().children
    alone = crowd(count, ServerOptions())
    for name, request in (
        ("get_children", GetChildren(1, "/crowd", False)),
        ("get_all_children_number", CountDescendants(2, "/crowd")),
    ):
        longest, whole, steps = measure(alone, request, count)
        names = sum(len(i.children) for i in alone.items if isinstance(i, ChildrenRead))
        assert names in (0, count), names
        print(f"{name:<24} longest step {longest:7.2f} ms, {steps} steps, {whole:7.0f} ms in all")


if __name__ == "__main__":
    main()
