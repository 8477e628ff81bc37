"""The last answer to a client of ZooKeeper, and the latencies of all its requests.

ZooKeeper: `ServerCnxn.updateStatsForResponse`.
"""

from typing import Final

from raykeeper.jute.opcodes import OpCode
from raykeeper.server.latency import Latency
from raykeeper.zab.ids import Millis, Now, Zxid

NO_OPERATION: Final = "NA"
_SHORT_NAMES: Final[dict[int, str]] = {
    OpCode.CREATE: "CREA",
    OpCode.CREATE2: "CREA",
    OpCode.CREATE_CONTAINER: "CREA",
    OpCode.CREATE_TTL: "CREA",
    OpCode.DELETE: "DELE",
    OpCode.EXISTS: "EXIS",
    OpCode.GET_DATA: "GETD",
    OpCode.SET_DATA: "SETD",
    OpCode.GET_ACL: "GETA",
    OpCode.SET_ACL: "SETA",
    OpCode.GET_CHILDREN: "GETC",
    OpCode.GET_CHILDREN2: "GETC",
    OpCode.SYNC: "SYNC",
    OpCode.PING: "PING",
    OpCode.MULTI: "MULT",
    OpCode.MULTI_READ: "MLTR",
    OpCode.RECONFIG: "RECO",
    OpCode.CHECK_WATCHES: "CHKW",
    OpCode.REMOVE_WATCHES: "REMW",
    OpCode.SET_WATCHES: "SETW",
    OpCode.SET_WATCHES2: "STW2",
    OpCode.ADD_WATCH: "ADDW",
    OpCode.GET_EPHEMERALS: "GETE",
    OpCode.GET_ALL_CHILDREN_NUMBER: "GACN",
    OpCode.WHO_AM_I: "HOMI",
    OpCode.AUTH: "AUTH",
    OpCode.CLOSE_SESSION: "CLOS",
}
"""The names by which ZooKeeper's monitoring knows the operations."""
CONNECTED: Final = "SESS"


class ResponseCounters:
    """The counters of one connection."""

    __slots__ = ("at", "latency", "operation", "took_ms", "xid", "zxid")

    def __init__(self) -> None:
        self.latency = Latency()
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.latency.reset()
        self.operation = NO_OPERATION
        self.xid = -1
        self.zxid = Zxid(-1)
        self.at = Millis(0)  # by the wall clock
        self.took_ms = 0

    def observe(self, opcode: int, xid: int, zxid: int, arrived: Millis, now: Now) -> None:
        """Count the answer to a request that arrived at `arrived`."""
        self.operation = _SHORT_NAMES.get(opcode, NO_OPERATION)
        if xid >= 0:  # the xids of pings and credentials say nothing
            self.xid = xid
        self._observe(zxid, arrived, now)

    def observe_connect(self, zxid: int, arrived: Millis, now: Now) -> None:
        """Count the answer to the connect request."""
        self.operation, self.xid = CONNECTED, 0
        self._observe(zxid, arrived, now)

    def _observe(self, zxid: int, arrived: Millis, now: Now) -> None:
        self.zxid = Zxid(zxid)
        self.at = now.wall
        self.took_ms = now.mono - arrived
        self.latency.observe(self.took_ms)
