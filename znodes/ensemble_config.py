"""The text of /zookeeper/config: the servers and their addresses, as ZooKeeper's clients read it.

A line for each server, `server.1=host:2888:3888:participant;host:2181`, and a last one with the
zxid of the transaction that wrote it, `version=100000007`. Behind the semicolon is where clients
find the server, which is all that Curator follows. Both ports before it are ZooKeeper's usual ones:
its parser asks for them, and nobody listens there.

ZooKeeper: `QuorumMaj`, `QuorumPeer.QuorumServer`; `zkCli config`. Curator: `EnsembleTracker`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import ServerId, Zxid

_NO_LISTENER: Final = "2888:3888"
UNKNOWN_HOST: Final = "unknown"
"""Of a member that has not told where clients of ZooKeeper find it."""
_lines = re.compile(r"^server\.(\d{1,3})=([^\n]+)$", re.MULTILINE).findall


class EnsembleConfig(Struct, frozen=True):
    """The member list as /zookeeper/config has it.

    Each server id maps to the address "host:port" at which clients of ZooKeeper find that server;
    "" if they find it nowhere, or it has not told yet.
    """

    version: int
    """The zxid of the transaction that wrote it; `reconfig` takes it as a condition."""
    voters: dict[ServerId, str]
    observers: dict[ServerId, str]

    @property
    def servers(self) -> tuple[ServerId, ...]:
        """The ids of all members, in order."""
        return tuple(sorted((*self.voters, *self.observers)))


def parse_config(text: bytes, version: int) -> EnsembleConfig:
    """Return what the text of /zookeeper/config says; `version` is the mzxid of the znode.

    Lines that are not of a server are ignored.
    """
    voters: dict[ServerId, str] = {}
    observers: dict[ServerId, str] = {}
    for server, line in parse_servers(text).items():
        kind, _, address = line.partition(";")
        (observers if kind.endswith(":observer") else voters)[server] = address
    return EnsembleConfig(version, voters, observers)


def server_line(address: str, *, is_voter: bool) -> str:
    """Return what stands behind `server.N=` of a server with this address for clients."""
    host = address.rpartition(":")[0]
    kind = "participant" if is_voter else "observer"
    return f"{host}:{_NO_LISTENER}:{kind};{address}"


def parse_servers(text: bytes) -> dict[ServerId, str]:
    """Return what stands behind `server.N=` of each server."""
    return {ServerId(int(number)): line for number, line in _lines(text.decode(errors="replace"))}


def updated_servers(
    text: bytes,
    addresses: Mapping[ServerId, str],
    voters: Collection[ServerId],
    observers: Collection[ServerId],
) -> dict[ServerId, str] | None:
    """Return the lines of `text` with these addresses, and only those of members, by server.

    None when that is what it says already. A member whose address is not given keeps its line.
    """
    known = parse_servers(text)
    lines = {
        server: server_line(addresses[server], is_voter=server in voters)
        if server in addresses
        else known[server]
        for server in sorted((*voters, *observers))
        if server in addresses or server in known
    }
    return None if lines == known else lines


def member_lines(
    text: bytes,
    addresses: Mapping[ServerId, str],
    voters: Collection[ServerId],
    observers: Collection[ServerId],
) -> dict[ServerId, str]:
    """Return the lines of these members, each with its address, or that of `text`, if any."""
    lines = {}
    known = parse_servers(text)
    for server in sorted((*voters, *observers)):
        kind = "participant" if server in voters else "observer"
        address = addresses.get(server) or known.get(server, "").partition(";")[2]
        host = address.rpartition(":")[0] or UNKNOWN_HOST
        lines[server] = f"{host}:{_NO_LISTENER}:{kind}" + (f";{address}" if address else "")
    return lines


def format_config(lines: Mapping[ServerId, str], version: Zxid) -> bytes:
    """Return the text, with `version` as ZooKeeper shows a zxid."""
    return "".join(
        [*(f"server.{server}={line}\n" for server, line in lines.items()), f"version={version:x}"]
    ).encode()
