"""How long a server is busy while a client lists very many children.

    python bench/listing.py [--children N]

It measures one pure server whose disk and links are instant. Between two steps of the listing
another client deletes a child and creates it again, so that the changed parts of the list are
copied. Times are processor times.
"""

import argparse
import gc
import time

from raykeeper.bench.pure_ensemble import PureEnsemble
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import CountDescendantsReply, GetChildrenReply, Item
from raykeeper.znodes.requests import (
    ClientFrame,
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
from raykeeper.znodes.txns import CreateTxn

READER, WRITER = 1, 2


class ManyChildren:
    """An ensemble of one server with `count` children of one znode, a reader and a writer."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.ensemble = PureEnsemble(1)
        (self._server,) = self.ensemble.servers.values()
        self.ensemble.connect(self.ensemble.leader, [READER, WRITER])
        tree = self._server.state.tree
        happened, tree.changes = tree.changes, None  # no history of what is there already
        tree.create(Zxid(1), Millis(0), CreateTxn("/crowd", b"", SessionId(0), 1))
        for number in range(count):
            change = CreateTxn(f"/crowd/task-{number:010}", b"", SessionId(0), number + 1)
            tree.create(Zxid(number + 2), Millis(0), change)
        tree.changes = happened
        gc.collect()
        gc.freeze()

    def ask(self, connection: int, *requests: Request) -> None:
        """Queue a client's frame for the next step."""
        data = encode_client_frame(ClientFrame(1, list(requests)))
        self.ensemble.send(self.ensemble.leader, connection, data)

    def measure(self, request: Request) -> tuple[list[Item], list[float]]:
        """Return all replies until `request` is answered, and the seconds of each step."""
        items: list[Item] = []
        steps: list[float] = []
        self.ask(READER, request)
        writer = list(self._server.state.sessions.by_id.values())[1]
        number = writer.last_number
        while not any(
            isinstance(item, CountDescendantsReply)
            or (isinstance(item, GetChildrenReply) and not item.more)
            for item in items[-3:]
        ):
            if writer.last_number == number:
                path = f"/crowd/task-{number * 5_003 % self.count:010}"
                for op in (Delete(path, -1), Create(path, b"", 0)):
                    number += 1
                    self.ask(WRITER, Write(number, writer.last_number, encode_op(op)))
            started = time.process_time()
            self.ensemble.step()
            steps.append(time.process_time() - started)
            items += self.ensemble.answered()
        return items, steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--children", type=int, default=1_000_000)
    crowd = ManyChildren(parser.parse_args().children)
    for name, request in (
        ("get_children", GetChildren(1, "/crowd", False)),
        ("get_all_children_number", CountDescendants(2, "/crowd")),
    ):
        items, steps = crowd.measure(request)
        names = sum(len(item.children) for item in items if isinstance(item, GetChildrenReply))
        assert names in (0, crowd.count), names
        longest, whole = max(steps) * 1000, sum(steps) * 1000
        print(f"{name:<24} longest step {longest:7.2f} ms, {len(steps)} steps, {whole:7.0f} ms")


if __name__ == "__main__":
    main()
