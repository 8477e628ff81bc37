"""What a migration needs of either side, and the side of an ensemble of ours."""

from typing import Final, Protocol

from msgspec import Struct

from raykeeper.client.client import Client
from raykeeper.client.copy_places import Access, ClientPlace, Place, ReadablePlace
from raykeeper.client.errors import BadArgumentsError, InvalidAclError, KeeperError
from raykeeper.client.subtree_copy import ChangeCounter
from raykeeper.znodes.acl import normalize_acls
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import CONFIG_PATH, QUOTA_PATH, parent_of, path_fault
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.stat import Stat

SEQUENCE_NAME: Final = "raykeeper-raises-sequence"
"""The name of a child that is created and deleted in one transaction, to raise the counter."""


class Deletion(Protocol):
    """The outcome of a deletion that is under way."""

    def result(self) -> object:
        """Wait for it.

        Raises:
            KeeperError: it failed.
        """


class Side(Place, Protocol):
    """A place that a whole tree moves from or to."""

    @property
    def whole(self) -> str:
        """The path from the root of the ensemble."""

    @property
    def kinds_lost(self) -> int:
        """Containers and znodes with a TTL that were created as ordinary ones."""

    def label(self) -> str:
        """Return what the place is, whatever the addresses of the servers are."""

    def config_stat(self) -> Stat | None:
        """Return the Stat of /zookeeper/config, which tells ensembles of ours apart."""

    def quota_place(self) -> ReadablePlace:
        """Return the place of the quotas of this place, which may be missing."""

    def set_quota(self, relative: str, limits: QuotaLimits) -> None:
        """Set the limits of a quota."""

    def ensure_parents(self) -> None:
        """Create the znodes above the place that are missing, persistent and empty."""

    def raise_sequence(self, relative: str, missing: int) -> None:
        """Create and delete so many children."""

    def delete(self, relative: str, version: int) -> Deletion:
        """Begin to delete a znode that has this version and no children."""

    def begin_changes(self) -> None:
        """Count changes from now on."""

    def changes(self) -> int | None:
        """Return how many changes came since, at most; None if that is unknown."""


class EnsembleLimits(Struct, frozen=True):
    """The limits of an ensemble, as its settings are."""

    value_bytes_max: int
    acl_entries_max: int
    transaction_ops_max: int


class EnsembleSide(ClientPlace):
    """A place in one of our ensembles."""

    kinds_lost = 0

    def __init__(self, client: Client, path: str, limits: EnsembleLimits) -> None:
        super().__init__(client, path)
        self._limits = limits
        self._changes: ChangeCounter | None = None

    def label(self) -> str:
        """Return uuid and path."""
        return f"ensemble {self.own_uuid} {self.whole}"

    def config_stat(self) -> Stat | None:
        """Return the Stat of /zookeeper/config."""
        return self.client.exists(CONFIG_PATH)

    def refusal_of(self, relative: str, access: Access) -> KeeperError | None:
        """Return what this ensemble would say: its settings and its schemes are known."""
        path, limits = self.path_of(relative), self._limits
        if (fault := path_fault(path)) is not None:
            return BadArgumentsError(path, fault)
        if access.stat.data_length > limits.value_bytes_max:
            text = f"its value is above value_limit_bytes, {limits.value_bytes_max}"
            return BadArgumentsError(path, text)
        for each in access.acls:
            if isinstance(normalize_acls([each], ()), Code):
                text = f"an entry of the scheme {each.scheme!r} is unknown or malformed here"
                return InvalidAclError(path, text)
        if len(access.acls) > limits.acl_entries_max:
            text = f"more entries than acl_entries_max, {limits.acl_entries_max}"
            return InvalidAclError(path, text)
        return None

    def quota_place(self) -> ClientPlace:
        """Return the place of the quotas of this place."""
        return ClientPlace(self.client, (QUOTA_PATH + self.whole).rstrip("/"))

    def set_quota(self, relative: str, limits: QuotaLimits) -> None:
        """Set the limits of a quota."""
        self.client.set_quota(self.path_of(relative), limits)

    def ensure_parents(self) -> None:
        """Create the znodes above the place that are missing, persistent and empty."""
        self.client.ensure_path(parent_of(self.path))

    def raise_sequence(self, relative: str, missing: int) -> None:
        """Create and delete so many children."""
        path = f"{self.path_of(relative).rstrip('/')}/{SEQUENCE_NAME}"
        pairs_max = max(1, self._limits.transaction_ops_max // 2)
        while missing > 0:
            several = self.client.transaction()
            for _ in range(min(missing, pairs_max)):
                several.create(path)
                several.delete(path)
            several.commit()
            missing -= pairs_max

    def delete(self, relative: str, version: int) -> Deletion:
        """Begin to delete a znode that has this version and no children."""
        return self.client.delete_async(self.path_of(relative), version=version)

    def begin_changes(self) -> None:
        """Count changes from now on."""
        self._changes = ChangeCounter(self.client, self.path)

    def changes(self) -> int:
        """Return how many changes came since."""
        return 0 if self._changes is None else self._changes.count
