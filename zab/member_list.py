"""A member list: data of the replicated state, of messages and of transactions.

By which lists a leader counts is in `members.py`.
"""

from typing import Annotated

from msgspec import Meta, Struct

from raykeeper.zab.ids import FOUNDING_DISK, SERVER_ID_MAX, DiskId, ServerId, Zxid
from raykeeper.zab.wire_types import WireDisk, WireServerId, WireZxid


class MemberList(Struct, frozen=True, array_like=True):
    """The voters with their disks, and the observers, from transaction `version` on.

    0 is the version of the list with which the ensemble was founded.
    """

    version: WireZxid
    voters: Annotated[dict[WireServerId, WireDisk], Meta(min_length=1, max_length=SERVER_ID_MAX)]
    observers: Annotated[tuple[WireServerId, ...], Meta(max_length=SERVER_ID_MAX)] = ()

    @property
    def servers(self) -> tuple[ServerId, ...]:
        """All members: the voters in order, then the observers."""
        return (*sorted(self.voters), *self.observers)

    @property
    def moved(self) -> dict[ServerId, DiskId]:
        """The voters whose vote rests on another than a founding disk."""
        return {server: disk for server, disk in self.voters.items() if disk != FOUNDING_DISK}

    def with_disk(self, server: ServerId, disk: DiskId, version: Zxid) -> "MemberList":
        """Return the list in which the vote of `server` rests on `disk`.

        This one if it does already, or if that server is no voter.
        """
        if self.voters.get(server, disk) == disk:
            return self
        return MemberList(version, {**self.voters, server: disk}, self.observers)
