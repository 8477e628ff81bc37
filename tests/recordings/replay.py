"""Sends to a pure server what a client sent to ZooKeeper, and reads what it answers.

Ids and passwords of sessions are those that the pure server gave instead, and the zxids from which
a client sets its watches again are its own. Answers to pings are left out: they say nothing.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from raykeeper.jute.frames import (
    decode_connect,
    decode_connect_response,
    decode_request,
    encode_connect,
    encode_request,
)
from raykeeper.jute.opcodes import PING_XID, OpCode
from raykeeper.jute.records import ConnectResponse, SetWatches, SetWatches2
from tests.differential.conversations import Conversation, Told, Transcript
from tests.differential.targets import PureTarget, Silent, Stream
from tests.differential.transcripts import Line, masked
from tests.recordings.recorder import TO_CLIENT


class _End:
    """One end of a connection: what its client was told, by ZooKeeper or here."""

    def __init__(self, number: int) -> None:
        self.conversation = Conversation()
        self.response: ConnectResponse | None = None
        self.told: list[Told] = []
        self._number = number

    def read(self, payload: bytes) -> None:
        """Take a payload for the client."""
        if self.response is None:
            self.response = decode_connect_response(payload)
            self._tell(opcode=0, request=None, body=self.response)
            return
        told = self.conversation.read(payload)
        if told["opcode"] != OpCode.PING:
            self._tell(**told)

    def tell_fault(self, fault: str) -> None:
        """Note what is no frame."""
        self._tell(opcode=0, request=None, fault=fault)

    def _tell(self, **told: object) -> None:
        self.told.append(Told(0, self._number, **told))  # type: ignore[arg-type]


class _Connection:
    """Both ends of one connection, and the stream to the pure server."""

    def __init__(self, number: int, stream: Stream) -> None:
        self.recorded, self.replayed = _End(number), _End(number)
        self._stream = stream
        self._has_connected = False

    def send(self, payload: bytes, sessions: dict[int, ConnectResponse]) -> None:
        """Send what the client sent."""
        if not self._has_connected:
            self._has_connected = True
            asked = decode_connect(payload)
            asked = replace(asked, last_zxid_seen=0)  # ZooKeeper's; the server has seen fewer
            if (mine := sessions.get(asked.session_id)) is not None:
                asked = replace(asked, session_id=mine.session_id, password=mine.password)
            self._stream.send(encode_connect(asked))
            return
        request = decode_request(payload)
        xid, opcode, body = request.xid, request.opcode, request.body
        frame = len(payload).to_bytes(4) + payload
        for end in (self.recorded, self.replayed):
            end.conversation.expect(xid, opcode, body)
        if isinstance(body, SetWatches | SetWatches2):
            body = replace(body, relative_zxid=self.replayed.conversation.zxid)
            frame = encode_request(xid, opcode, body)
        self._stream.send(frame)

    def receive(self, payload: bytes, sessions: dict[int, ConnectResponse]) -> None:
        """Take what ZooKeeper told the client, and the next that the pure server tells it."""
        self.recorded.read(payload)
        if payload[:4] == PING_XID.to_bytes(4, signed=True):
            return
        count = len(self.replayed.told)
        while len(self.replayed.told) == count:  # answers to pings do not count
            try:
                mine = self._stream.next()
            except Silent:
                self.replayed.tell_fault("no answer")
                return
            if mine is None:
                self.replayed.tell_fault("closed")
                return
            self.replayed.read(mine)
        theirs, ours = self.recorded.response, self.replayed.response
        if theirs is not None and ours is not None:
            sessions[theirs.session_id] = ours

    def end(self) -> None:
        """End the connection, as the client did; nothing more may have been told."""
        while self._has_more():
            pass
        self._stream.close()

    def _has_more(self) -> bool:
        try:
            payload = self._stream.next()
        except Silent:
            return False
        if payload is not None:
            self.replayed.read(payload)
        return payload is not None


def replay(lines: Iterable[str]) -> tuple[list[Line], list[Line]]:
    """Return what clients were told in a recording, and by a pure server that replays it."""
    target = PureTarget()
    connections: dict[int, _Connection] = {}
    sessions: dict[int, ConnectResponse] = {}
    for line in lines:
        if line.startswith("#"):
            continue
        words = line.split()
        number, direction = int(words[0]), words[1]
        if number not in connections:
            connections[number] = _Connection(number, target.connect())
        connection = connections[number]
        if len(words) == 2:
            connection.end()
        elif direction == TO_CLIENT:
            connection.receive(bytes.fromhex(words[2]), sessions)
        else:
            connection.send(bytes.fromhex(words[2]), sessions)
    ids = [(theirs, ours.session_id) for theirs, ours in sessions.items()]
    both = []
    for index, name in enumerate(("recorded", "replayed")):
        told = [each for c in connections.values() for each in getattr(c, name).told]
        both.append(masked(Transcript("", [pair[index] for pair in ids], told)))
    return both[0], both[1]
