"""The bytes that processes write to their disk and send to each other, as the kernel counts them.

Disk: `write_bytes` of /proc/<pid>/io, which counts each page (4 KB) that becomes dirty, so also the
page that a small record shares with the one before, once for each force. The file system's journal
is not in it, nor what a file system in memory takes.

Wire: `bytes_sent` of each TCP socket, told by `ss`: the payload, without headers of TCP and IP. A
connection is known by its two ports, because all processes are on one machine.

Source: ss(8) of iproute2, proc_pid_io(5).
"""

import re
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence

import psutil
from msgspec import Struct

from raykeeper.bench.errors import BenchError

Ports = tuple[int, int]
"""The ports of one end of a connection: its own, and that of the other end."""

_ports_of = re.compile(r"^\d+ +\d+ +\S+:(\d+) +\S+:(\d+)(?: |$)").match
_pid_of = re.compile(r"pid=(\d+),").findall
_sent_of = re.compile(r" bytes_sent:(\d+)").search


class End(Struct, frozen=True):
    """One end of a TCP connection."""

    pids: frozenset[int]
    """The processes that have the socket open."""
    sent: int
    """Bytes of payload that this end has sent since the connection was opened."""


class Traffic(Struct, frozen=True):
    """Bytes that some processes have written and sent so far, or in a span of time."""

    disk: int
    """Written by the servers and the processes beside them."""
    peers: int
    """Sent by servers to servers."""
    clients: int
    """Sent by clients to servers, and by servers to clients."""

    def since(self, early: "Traffic") -> "Traffic":
        """Return what was added since `early`."""
        return Traffic(
            self.disk - early.disk, self.peers - early.peers, self.clients - early.clients
        )


def check_ss() -> None:
    """Check that the sockets of a process can be read.

    Raises:
        BenchError: there is no ss.
    """
    if shutil.which("ss") is None:
        raise BenchError("there is no ss (Debian's package iproute2)")


def measure_traffic(
    servers: Collection[int], sidecars: Sequence[int], clients: Collection[int]
) -> Traffic:
    """Return the traffic so far of processes that run, by their pids."""
    words = ["ss", "-tinpOH", "state", "established"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    peers, others = wire_bytes(parse_sockets(told), frozenset(servers), frozenset(clients))
    written = sum(psutil.Process(pid).io_counters().write_bytes for pid in [*servers, *sidecars])
    return Traffic(written, peers, others)


def parse_sockets(told: str) -> dict[Ports, End]:
    """Parse what `ss -tinpOH state established` prints."""
    found = {}
    for line in told.splitlines():
        if ports := _ports_of(line):
            sent = _sent_of(line)
            end = End(frozenset(map(int, _pid_of(line))), int(sent[1]) if sent else 0)
            found[int(ports[1]), int(ports[2])] = end
    return found


def wire_bytes(
    ends: Mapping[Ports, End], servers: frozenset[int], clients: frozenset[int]
) -> tuple[int, int]:
    """Return the bytes that servers have sent to servers, and servers and clients to each other."""
    peers = others = 0
    for (mine, theirs), end in ends.items():
        other = ends.get((theirs, mine))
        if other is None or not end.pids & (servers | clients):
            continue
        if end.pids & servers and other.pids & servers:
            peers += end.sent
        elif other.pids & (servers | clients) and (end.pids | other.pids) & servers:
            others += end.sent
    return peers, others
