"""A conversation on a connection: requests, and the replies that fit them, or faults.

A fault is what no server may do, whatever it was asked.
"""

from collections import deque
from typing import Any

from msgspec import Struct

from raykeeper.jute.errors import JuteError
from raykeeper.jute.fields import Record
from raykeeper.jute.frames import decode_reply, encode_reply
from raykeeper.jute.opcodes import AUTH_XID, NOTIFICATION_XID, PING_XID, OpCode


class Told(Struct, frozen=True):
    """A reply, an event or an end, as a session was told it in a step.

    `fault` says what no server may do, or that the connection has ended.
    """

    step: int
    session: int
    opcode: int
    request: Record | None
    err: int = 0
    zxid: int = 0
    body: Record | None = None
    fault: str = ""


class Transcript(Struct, frozen=True):
    """All that was told, the root of the paths, and the ids of sessions in order."""

    root: str
    session_ids: list[int]
    told: list[Told]


class Conversation:
    """The requests of one session that are not answered, by connection."""

    def __init__(self) -> None:
        self.zxid = 0
        """The highest that any reply has named."""
        self.pongs = 0
        """The answers to pings that have not come."""
        self._sent: deque[tuple[int, int, Record | None]] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether a reply has not come."""
        return bool(self._sent or self.pongs)

    def forget(self) -> None:
        """Expect no replies: the connection has ended."""
        self._sent.clear()
        self.pongs = 0

    def expect(self, xid: int, opcode: int, body: Record | None) -> None:
        """Note a request that was sent."""
        if opcode == OpCode.PING:
            self.pongs += 1
        else:
            self._sent.append((xid, opcode, body))

    def read(self, payload: bytes) -> dict[str, Any]:
        """Return the fields of `Told` that a payload says."""
        xid = int.from_bytes(payload[:4], signed=True)
        if xid == PING_XID:
            self.pongs -= 1
            return self._decoded(payload, xid, OpCode.PING, None)
        if xid == NOTIFICATION_XID:
            return self._decoded(payload, xid, 0, None)
        # ZooKeeper answers a credential at once, perhaps before earlier requests.
        first = (each for each in self._sent if xid != AUTH_XID or each[0] == AUTH_XID)
        request = next(first, None)
        if request is None:
            return {"opcode": 0, "request": None, "fault": f"a reply {xid} to nothing"}
        self._sent.remove(request)
        return self._decoded(payload, *request)

    def _decoded(
        self, payload: bytes, xid: int, opcode: int, request: Record | None
    ) -> dict[str, Any]:
        told: dict[str, Any] = {"opcode": opcode, "request": request}
        try:
            header, body = decode_reply(payload, opcode)
        except (JuteError, KeyError) as error:
            return told | {"fault": f"{error!r} in {payload.hex()}"}
        err, zxid = header.err, header.zxid
        if header.xid != xid:
            told["fault"] = f"the xid {header.xid} instead of {xid}"
        elif encode_reply(xid, zxid, err, body)[4:] != payload:
            told["fault"] = f"other bytes: {payload.hex()}"
        elif opcode not in (0, OpCode.PING, OpCode.AUTH) and not err:
            if zxid < self.zxid:
                told["fault"] = "the zxid went back"
            self.zxid = max(self.zxid, zxid)
        return told | {"err": err, "zxid": zxid, "body": body}
