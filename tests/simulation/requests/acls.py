"""Access control lists and identities: znodes that are protected by ACLs."""

from collections.abc import Callable
from random import Random
from typing import Final

from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.znodes.acl import Acl, Permission, digest_id
from raykeeper.znodes.requests import (
    ANY_VERSION,
    AddAuth,
    Check,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    Multi,
    ReadData,
    ReadStat,
    SetAcls,
    SetData,
    WhoAmI,
)

SUPER: Final = b"root:simulated"
ALICE, BOB = digest_id("alice", "a"), digest_id("bob", "b")
GUARDED: Final = ["/k0", "/k0/x", "/k1"]
ALL: Final = int(Permission.ALL)
LISTS: Final = [
    [Acl(ALL, "auth", "")],
    [Acl(1, *("world", "anyone")), Acl(ALL, "digest", ALICE)],
    [Acl(ALL, "digest", BOB), Acl(16, "digest", ALICE)],
    [Acl(17, *("world", "anyone"))],
    [Acl(6, *("world", "anyone")), Acl(ALL, "scrypt", "carol:none")],
    [Acl(8, *("world", "anyone")), Acl(31, "ip", "10.0.0.0/8"), Acl(1, "digest", BOB)],
    [Acl(ALL, *("world", "anyone"))],
    [],  # refused
]


class Guarded:
    """The requests with ACLs of one session."""

    def __init__(self, random: Random, value: Callable[[], bytes]) -> None:
        self._random = random
        self._value = value

    def next(self) -> NewRequest:
        """Return the next request."""
        random = self._random
        kind, path = random.random(), random.choice(GUARDED)
        if kind < 0.1:
            return self._proof()
        if kind < 0.3:
            acls = random.choice(LISTS) if random.random() < 0.8 else None
            return Create(path, self._value(), random.choice([0, 0, CreateMode.EPHEMERAL]), acls)
        if kind < 0.45:
            return SetAcls(path, random.choice(LISTS), random.choice([ANY_VERSION, 0, 1]))
        if kind < 0.55:
            return SetData(path, self._value(), ANY_VERSION)
        if kind < 0.62:
            return Delete(path, ANY_VERSION)
        if kind < 0.7:
            return self._transaction(path)
        if kind < 0.8:
            return random.choice([GetAcls(0, path), WhoAmI(0)])
        kinds = random.choice([GetData, GetData, Exists, GetChildren])
        return Query(kinds, path, None, random.random() < 0.3)

    def _transaction(self, path: str) -> Multi:
        """Build a multi in which an ACL that forbids one operation aborts all."""
        random = self._random
        change = random.choice([Check(path, ANY_VERSION), SetData(path, self._value(), 0)])
        read = random.choice([ReadData, ReadStat])(random.choice(GUARDED))
        made = Create("/k1", self._value(), 0, random.choice(LISTS))
        return Multi([], random.sample([change, read, made], 2), [])

    def _proof(self) -> AddAuth:
        kind = self._random.random()
        if kind < 0.4:
            return AddAuth("digest", b"alice:a")
        if kind < 0.7:
            return AddAuth("digest", b"bob:b")
        if kind < 0.8:
            return AddAuth("scrypt", b"carol:" + bytes(32))
        if kind < 0.9:
            return AddAuth("digest", SUPER)
        if kind < 0.95:
            return AddAuth("digest", b"dora")  # without a password
        return AddAuth("scrypt", b"nobody")
