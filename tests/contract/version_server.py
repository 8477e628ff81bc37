"""A server as a process of its own, without Ray: for ensembles of two versions of this package.

A program, run as `python -P version_server.py CONFIG` with PYTHONPATH at the checkout of a version.
So it uses only what both versions have: `Server`, `Storage` and the links, and imports nothing of
the tests. CONFIG is JSON. It answers each JSON document on standard input with one on standard
output; the first one it prints is its address.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import get_args

from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner, format_folder, read_identity
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.snapshot_files import SnapshotWriter, temp_snapshot_path
from raykeeper.actors.disk.storage import StorageEffect, StorageLimits
from raykeeper.links.contract import LinkError, LinkRefused
from raykeeper.links.hello import Fence, peer_hello, refusal_reason
from raykeeper.links.limits import PEER_KEEPALIVE_MS
from raykeeper.links.stream_endpoints import StreamAddress, StreamDialer, StreamListener
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import (
    Restart,
    SendClient,
    SendPeer,
    SnapshotBegin,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.server.events import (
    ClientFrameArrived,
    LinkDown,
    LinkUp,
    PeerFrame,
    SnapshotCredited,
    SnapshotWritten,
)
from raykeeper.server.peer_messages import decode_peer_frame, encode_peer_frame
from raykeeper.server.server import Server
from raykeeper.zab.effects import BreakLink, TraceEvent
from raykeeper.zab.ids import Millis, Now, ServerId, Zxid, format_zxid
from raykeeper.zab.settings import Settings, Timing
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import ConnectReply, ServerFrame, decode_server_frame
from raykeeper.znodes.requests import (
    Check,
    ClientFrame,
    CloseSession,
    Connect,
    Create,
    Delete,
    GetData,
    Multi,
    SessionId,
    Write,
    encode_client_frame,
    encode_op,
)

DISK_EFFECTS = get_args(StorageEffect)
CLIENT = 1
try:
    from raykeeper.zab.feature_levels import LEVEL_MAX, FeatureLevels
except ImportError:  # the version before
    FeatureLevels = None


def times():
    return Now(Millis(time.monotonic_ns() // 1_000_000), Millis(time.time_ns() // 1_000_000))


class PeerLink:
    """The events of one link."""

    def __init__(self, shell, peer):
        self.shell, self.peer, self.link = shell, peer, None
        self.down = asyncio.Event()

    def frames(self, frames):
        if self.shell.links.get(self.peer) is self:
            for frame in frames:
                self.shell.deliver(PeerFrame(self.peer, decode_peer_frame(frame)))

    def closed(self, reason):
        self.down.set()
        if self.shell.links.get(self.peer) is self:
            del self.shell.links[self.peer]
            self.shell.say("link down", peer=self.peer, reason=reason)
            self.shell.deliver(LinkDown(self.peer))


class Shell:
    """One server, its store, its links and one client."""

    def __init__(self, config):
        self.server_id = ServerId(config["server_id"])
        self.voters = tuple(map(ServerId, config["voters"]))
        folder = Path(config["folder"])
        self.owner = FolderOwner("coord", "8c1f", self.server_id)
        if read_identity(folder) is None:
            format_folder(
                folder, DiskIdentity(self.owner, str(time.time_ns()), config["is_founding"])
            )
        self.folder = folder
        self.storage, recovered = open_storage(
            *(folder, self.owner, StorageLimits(1 << 20)), has_peers=True, wall_s=int(time.time())
        )
        self.incarnation = self.storage.identity.incarnation
        timing = Timing(tick_ms=Millis(100))
        more = {} if FeatureLevels is None else {"levels": FeatureLevels(LEVEL_MAX)}
        settings = Settings(self.server_id, self.voters, recovered.disk_id, timing, **more)
        options = ServerOptions(snapshot_every_txns=config["snapshot_every_txns"])
        self.server = Server(settings, Limits(), options, recovered)
        self.fence, self.links, self.addresses = Fence(), {}, {}
        self.events, self.replies, self.writer = [], {CLIENT: asyncio.Queue()}, None
        self.number, self.visits = 0, 0
        self.is_woken = asyncio.Event()

    def say(self, what, **fields):
        print(what, fields, file=sys.stderr, flush=True)

    def deliver(self, event):
        self.events.append(event)
        self.is_woken.set()

    def accept(self, hello, link):
        if reason := refusal_reason(hello, "8c1f"):
            raise LinkRefused(reason)
        if reason := self.fence.refusal_reason(hello.server_id, hello.incarnation):
            raise LinkRefused(reason)
        entry = PeerLink(self, hello.server_id)
        entry.link = link
        self.linked(entry)
        return entry

    def linked(self, entry):
        older = self.links.pop(entry.peer, None)
        if older is not None:
            older.link.close("a newer link came")
            self.deliver(LinkDown(entry.peer))
        self.links[entry.peer] = entry
        self.deliver(LinkUp(entry.peer))

    async def find(self, server):
        return self.addresses[server]

    async def keep_dialing(self, dialer, peer):
        while True:
            entry = PeerLink(self, peer)
            try:
                entry.link = await dialer.dial(peer, entry)
            except (LinkError, KeyError) as error:
                self.say("not linked", peer=peer, error=str(error))
            else:
                self.linked(entry)
                await entry.down.wait()
            await asyncio.sleep(0.05)

    async def run(self):
        self.carry_out(self.server.start(times()))
        while True:
            due = self.server.deadline()
            if not self.events:
                wait = None if due is None else max(0, due - times().mono) / 1000
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.is_woken.wait(), wait)
            self.is_woken.clear()
            events, self.events = self.events, []
            self.carry_out(self.server.step(events, times()))
            await asyncio.sleep(0)

    def carry_out(self, effects):
        together, disk = {}, []
        for effect in effects:
            if isinstance(effect, SendPeer):
                together.setdefault(effect.peer, []).append(effect.message)
            elif isinstance(effect, DISK_EFFECTS):
                disk.append(effect)
            elif isinstance(effect, BreakLink):
                together.pop(effect.peer, None)
                entry = self.links.pop(effect.peer, None)
                if entry is not None:
                    entry.down.set()
                    entry.link.close(effect.reason)
            elif isinstance(effect, SendClient):
                self.on_client_frame(effect.connection, decode_server_frame(effect.data))
            elif isinstance(effect, Restart):
                raise SystemExit(f"restart: {effect.reason}")
            elif isinstance(effect, SnapshotBegin | SnapshotWrite | SnapshotFinish):
                self.write_snapshot(effect)
            elif isinstance(effect, TraceEvent):
                self.say(effect.name, detail=effect.detail)
        for peer, messages in together.items():
            if peer in self.links:
                self.links[peer].link.send(encode_peer_frame(messages))
        if disk:
            self.events += self.storage.perform(disk)

    def write_snapshot(self, effect):
        if isinstance(effect, SnapshotBegin):
            self.writer = SnapshotWriter(temp_snapshot_path(self.folder, effect.zxid), effect.zxid)
        elif isinstance(effect, SnapshotWrite):
            self.writer.write(effect.data)
            self.deliver(SnapshotCredited(effect.zxid))
        else:
            self.writer.finish(effect.consistent_at)
            self.deliver(SnapshotWritten(effect.zxid))

    def on_client_frame(self, client, frame):
        if isinstance(frame, ConnectReply):
            self.replies[client].put_nowait(frame)
        elif isinstance(frame, ServerFrame):
            for item in frame.items:
                self.replies[client].put_nowait(item)

    async def ask(self, request, client=CLIENT):
        """Send a request of a client; return the reply."""
        data = encode_client_frame(ClientFrame(self.number + 1, [request]))
        self.deliver(ClientFrameArrived(client, data))
        return await self.replies[client].get()

    async def connect(self, password, client=CLIENT):
        """Open a session for a client; return the reply."""
        hello = Connect(SessionId(0), password.encode(), Millis(20_000), Zxid(0), 1)
        self.deliver(ClientFrameArrived(client, encode_client_frame(hello)))
        return await self.replies[client].get()

    async def be_refused(self, path):
        """Have two writes of the standing client refused; their outcomes stay in its session."""
        acked, codes = self.number, []
        ops = Delete(path, -1), Multi([], [Check("/", -1), Check(path, -1)], [])
        for op in ops:
            self.number += 1
            codes.append((await self.ask(Write(self.number, acked, encode_op(op)))).code)
        return codes

    async def visit(self, password, path):
        """Open a session, create an ephemeral znode, and end the session."""
        self.visits += 1
        client = CLIENT + self.visits
        self.replies[client] = asyncio.Queue()
        codes = [(await self.connect(password, client)).code]
        for number, op in enumerate((Create(path, b"", 1), CloseSession()), 1):
            reply = await self.ask(Write(number, number - 1, encode_op(op)), client)
            codes.append(reply.code)
        del self.replies[client]
        return codes

    async def answer(self, question):
        """Do what the test asks."""
        match question["do"]:
            case "peers":
                for server, (host, port, key) in question["addresses"].items():
                    address = StreamAddress(host, port, bytes.fromhex(key))
                    self.addresses[ServerId(int(server))] = address
                return {}
            case "connect":
                # A session of its own for each process: their passwords differ.
                return {"code": (await self.connect(question["password"])).code}
            case "be_refused":
                return {"codes": await self.be_refused(question["path"])}
            case "visit":
                return {"codes": await self.visit(question["password"], question["path"])}
            case "create":
                self.number += 1
                op = encode_op(Create(question["path"], question["value"].encode(), 0))
                reply = await self.ask(Write(self.number, self.number - 1, op))
                return {"code": reply.code, "zxid": format_zxid(reply.zxid)}
            case "get":
                reply = await self.ask(GetData(question["xid"], question["path"], False))
                value = getattr(reply, "value", None)
                return {"value": None if value is None else value.decode()}
            case "status":
                state, peer = self.server.state, self.server.peer
                return {
                    "role": self.server.stats().role.value,
                    "leader": peer.leader,
                    "zxid": state.zxid,
                    "digest": state.digest(),
                    "level": getattr(state, "level", 1),
                    "znodes": len(state.tree.znodes),
                }


async def main():
    """Run until standard input ends."""
    shell = Shell(json.loads(sys.argv[1]))
    listener = StreamListener(shell, "127.0.0.1")
    address = listener.address
    print(json.dumps([address.host, address.port, address.key.hex()]), flush=True)
    loop = asyncio.get_running_loop()
    questions = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    hello = peer_hello("8c1f", shell.server_id, shell.incarnation)
    dialer = StreamDialer(shell.find, hello, PEER_KEEPALIVE_MS, fence=shell.fence)
    tasks = [loop.create_task(shell.run())]
    while line := await questions.readline():
        question = json.loads(line)
        answer = loop.create_task(shell.answer(question))
        await asyncio.wait([answer, tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
        print(json.dumps(answer.result()), flush=True)
        if question["do"] == "peers" and len(tasks) == 1:
            lower = [peer for peer in shell.voters if peer < shell.server_id]
            tasks += [loop.create_task(shell.keep_dialing(dialer, peer)) for peer in lower]


if __name__ == "__main__":
    asyncio.run(main())
