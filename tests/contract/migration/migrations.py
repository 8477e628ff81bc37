"""Imports and exports between kazoo's servers and servers of ours, and the trees they move."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl, make_digest_acl
from msgspec.structs import replace

from raykeeper.client import Client
from raykeeper.client.copy_places import ClientPlace
from raykeeper.commands.migration.journal import CopyJournal
from raykeeper.commands.migration.migration import Migration, MigrationReport
from raykeeper.commands.migration.sides import EnsembleLimits, EnsembleSide, Side
from raykeeper.commands.migration.zookeeper_session import (
    open_session,
    parse_hosts,
)
from raykeeper.commands.migration.zookeeper_side import PACKET_BYTES_MAX, ZooKeeperSide
from raykeeper.znodes.acl import Identity, digest_id
from tests.harness.kazoo_clients import PATIENCE_S
from tests.harness.pure_servers import LIMITS

LIMITS_WITH_SUPER = replace(LIMITS, super_identities=(Identity("digest", digest_id("ann", "pw")),))
ANN = make_digest_acl("ann", "pw", all=True)
DEFAULT_LIMITS = EnsembleLimits(1 << 20, 64, 1_000)
SMALL = EnsembleLimits(1_000, 2, 4)
Connect = Callable[..., KazooClient]
Proofs = list[tuple[str, str]]
PROOFS: Proofs = [("digest", "ann:pw")]


class Copied(NamedTuple):
    """What of a znode must be the same in the copy."""

    data: bytes | None
    acls: list[ACL]
    next_number: int


@contextmanager
def importing(
    hosts: str,
    client: Client,
    state: Path | None = None,
    path: str = "/",
    to: str = "/",
    **how: Any,
) -> Iterator[Migration]:
    """An import that is ready to begin; `limits` are those of the ensemble."""
    limits = how.pop("limits", DEFAULT_LIMITS)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(parse_hosts(hosts), PROOFS, None, PATIENCE_S))
        sides = ZooKeeperSide(opened, path), EnsembleSide(client, to, limits)
        journal = stack.enter_context(CopyJournal(state, *(each.label() for each in sides)))
        yield Migration(*sides, journal, **how)


@contextmanager
def exporting(
    client: Client,
    hosts: str,
    state: Path | None = None,
    path: str = "/",
    to: str = "/",
    **how: Any,
) -> Iterator[Migration]:
    """An export that is ready to begin."""
    packet_bytes_max = how.pop("packet_bytes_max", PACKET_BYTES_MAX)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(parse_hosts(hosts), PROOFS, None, PATIENCE_S))
        sides: tuple[Side, Side] = (
            EnsembleSide(client, path, DEFAULT_LIMITS),
            ZooKeeperSide(opened, to, packet_bytes_max),
        )
        journal = stack.enter_context(CopyJournal(state, *(each.label() for each in sides)))
        yield Migration(*sides, journal, **how)


def last(migration: Migration) -> MigrationReport:
    """Do all of it."""
    *_, report = migration.steps()
    return report


def import_all(*arguments: Any, **how: Any) -> MigrationReport:
    with importing(*arguments, **how) as migration:
        return last(migration)


def export_all(*arguments: Any, **how: Any) -> MigrationReport:
    with exporting(*arguments, **how) as migration:
        return last(migration)


def grow(client: KazooClient) -> None:
    """Create what a program may have left in a tree, nine znodes that stay."""
    client.create("/app", b"v")
    client.create("/app/null", None)
    client.create("/app/empty", b"")
    client.create("/app/large", bytes(900_000))
    client.create("/app/private", b"s", acl=[ANN, make_acl("ip", "127.0.0.0/8", read=True)])
    client.create("/app/private/below", b"t", acl=[ANN])
    client.create("/app/queue")
    for number in range(53):
        client.create_async("/app/queue/n-", sequence=True)
        if number not in (3, 50):
            client.delete_async(f"/app/queue/n-{number:010d}")
    client.create("/app/here", ephemeral=True)
    client.create("/zookeeper/quota/app", acl=None)
    client.create("/zookeeper/quota/app/zookeeper_limits", b"count=500,bytes=-1")
    client.create("/zookeeper/quota/app/zookeeper_stats", b"count=0,bytes=0")


GROWN = 9
VALUE_BYTES = 1 + 900_000 + 1 + 1


def kazoo_tree(client: KazooClient, path: str = "/app", relative: str = "") -> dict[str, Copied]:
    """The znodes of a subtree that are not ephemeral, by relative path."""
    data, stat = client.get(path + relative)
    if stat.ephemeralOwner:
        return {}
    number = (stat.cversion + stat.numChildren) // 2
    found = {relative: Copied(data, client.get_acls(path + relative)[0], number)}
    for name in client.get_children(path + relative):
        found |= kazoo_tree(client, path, f"{relative}/{name}")
    return found


def our_tree(client: Client, path: str = "/app", relative: str = "") -> dict[str, Copied]:
    """The same, as our client sees it."""
    place = ClientPlace(client, path)
    ((data, stat),) = place.read_values([relative])  # type: ignore[misc]
    acls = [
        ACL(each.permissions, make_acl(each.scheme, each.id).id)
        for each in client.get_acls(path + relative)[0]
    ]
    number = (stat.cversion + stat.num_children) // 2
    found = {relative: Copied(data, acls, number)}
    for name in client.get_children(path + relative):
        found |= our_tree(client, path, f"{relative}/{name}")
    return found
