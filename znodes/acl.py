"""Access control: ACLs, the identities of a session, and how they match.

An ACL belongs to one znode and is not inherited. A permission is granted when any of its entries
grants it to any identity of the session. Identities belong to the *session*: they are added by
numbered writes, so they are ordered with its other requests and need no replay on a reconnect.

    scheme   id in an ACL                          a session has it
    world    anyone                                always
    auth     ignored; becomes what the session     -
             has of digest and scrypt
    digest   user:base64(SHA1(user:password))      after proving user and password
    scrypt   user:base64(SHA256(key))              after showing `key`, see `scrypt_key`
    ip       an address, or network/bits           its connection comes from there
    super    never in an ACL                       when one of its ids is a super id of the limits

`digest` is ZooKeeper's, so that ACLs can move over: an unsalted hash, and the password travels.
`scrypt` is ours: a key travels that is made slowly from the password with a salt of ensemble and
user, and only the key's hash is kept, which opens nothing for a reader of the ACL.

ZooKeeper: `AuthenticationProvider` and its classes, `PrepRequestProcessor.checkACL`, `fixupACL`.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from enum import IntFlag
from ipaddress import ip_address, ip_network
from typing import Final

from msgspec import Struct

from raykeeper.znodes.errors import Code


class Permission(IntFlag):
    """The permission bits, as in ZooKeeper's `ZooDefs.Perms`."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Identity(Struct, frozen=True, array_like=True, gc=False):
    """One identity of a session: a scheme and an id of it."""

    scheme: str
    id: str


class Acl(Struct, frozen=True, array_like=True, gc=False):
    """One entry: grants `permissions` (bits of `Permission`) to each session with this identity."""

    permissions: int
    scheme: str
    id: str


Acls = tuple[Acl, ...]
Identities = tuple[Identity, ...]

WORLD: Final = Identity("world", "anyone")
SUPER: Final = Identity("super", "")
OPEN_ACL: Final[Acls] = (Acl(Permission.ALL, *("world", "anyone")),)
"""Everybody may do everything: ZooKeeper's OPEN_ACL_UNSAFE, and what None stands for."""
READ_ONLY_ACL: Final[Acls] = (Acl(Permission.READ, *("world", "anyone")),)

ENTRIES_CEILING: Final = 1_000
"""Each is looked at in each check: a thousand addresses take some milliseconds."""
ID_CHARS_MAX: Final = 512
USER_BYTES_MAX: Final = 128
"""Of the name before the ":" of a credential, in UTF-8."""
IDENTITIES_CEILING: Final = 1_000
"""Of one session; each is looked at with each entry."""

AUTH_SCHEMES: Final = ("digest", "scrypt")
"""Those of which a session proves an identity with a credential."""
_KEY_BYTES: Final = 32


def allows(acls: Acls | None, identities: Identities, permission: int) -> bool:
    """Return whether a session with these identities has any of the bits of `permission`."""
    if acls is None:
        return True
    for entry in acls:
        if entry.permissions & permission:
            if entry.scheme == "world":
                return True
            for identity in identities:
                if entry.scheme == identity.scheme and _matches(entry, identity):
                    return True
    return SUPER in identities


def _matches(entry: Acl, identity: Identity) -> bool:
    if entry.scheme != "ip":
        return entry.id == identity.id
    try:
        return ip_address(identity.id) in ip_network(entry.id, strict=False)
    except ValueError:
        return False  # the carrier gave a name


def normalize_acls(
    acls: Iterable[Acl] | None, identities: Identities, entries_max: int = ENTRIES_CEILING
) -> Acls | Code | None:
    """Return the list as a znode keeps it: no duplicates, `auth` replaced, None when it is open.

    INVALID_ACL when it is empty or too long, an entry is malformed, or `auth` stands for nobody.
    """
    if acls is None:
        return None
    entries: dict[Acl, None] = {}
    for acl in acls:
        if acl in entries:
            continue
        if len(entries) > entries_max or not 0 <= acl.permissions <= Permission.ALL:
            return Code.INVALID_ACL
        if acl.scheme == "auth":
            proven = [each for each in identities if each.scheme in AUTH_SCHEMES]
            if not proven:
                return Code.INVALID_ACL
            entries.update((Acl(acl.permissions, x.scheme, x.id), None) for x in proven)
        elif _is_id(acl.scheme, acl.id):
            entries[acl] = None
        else:
            return Code.INVALID_ACL
    if not 0 < len(entries) <= entries_max:
        return Code.INVALID_ACL
    kept = tuple(entries)
    return None if kept == OPEN_ACL else kept


def _is_id(scheme: str, text: str) -> bool:
    if len(text) > ID_CHARS_MAX:
        return False
    if scheme == "world":
        return text == "anyone"
    if scheme in AUTH_SCHEMES:
        hashed = text.partition(":")[2]
        return hashed != "" and ":" not in hashed
    if scheme == "ip":
        try:
            ip_network(text, strict=False)
        except ValueError:
            return False
        return True
    return False


def mask_hashes(acls: Acls | None, identities: Identities) -> Acls:
    """Return the list as a client sees it: without the hashes, unless the session has ADMIN."""
    if acls is None:
        return OPEN_ACL
    if allows(acls, identities, Permission.ADMIN):
        return acls
    return tuple(
        Acl(each.permissions, each.scheme, f"{each.id.partition(':')[0]}:x")
        if each.scheme in AUTH_SCHEMES
        else each
        for each in acls
    )


def identities_of(auth_ids: Identities, host: str) -> Identities:
    """Return all identities of a session, from its credentials and its address."""
    return (*auth_ids, Identity("ip", host)) if host else auth_ids


def authenticate(scheme: str, credential: bytes) -> Identity | None:
    """Return the identity that a credential proves; None if malformed or of another scheme.

    `digest`: b"user:password"; without a colon all of it is the user, and bytes that are not UTF-8
    are read as U+FFFD, both as in ZooKeeper. `scrypt`: b"user:" and the key.
    """
    if scheme == "digest":
        text = credential.decode(errors="replace")
        name = text.partition(":")[0]
        if len(name.encode()) > USER_BYTES_MAX:
            return None
        return Identity(scheme, f"{name}:{_encoded(hashlib.sha1(text.encode()).digest())}")
    user, colon, secret = credential.partition(b":")
    if not colon or len(user) > USER_BYTES_MAX:
        return None
    try:
        name = user.decode()
    except UnicodeDecodeError:
        return None
    if scheme == "scrypt" and len(secret) == _KEY_BYTES:
        return Identity(scheme, f"{name}:{_encoded(hashlib.sha256(secret).digest())}")
    return None


def digest_id(user: str, password: str) -> str:
    """Return a user's id in the scheme `digest`: `DigestAuthenticationProvider.generateDigest`."""
    return f"{user}:{_encoded(hashlib.sha1(f'{user}:{password}'.encode()).digest())}"


def scrypt_key(ensemble: str, user: str, password: str) -> bytes:
    """Return the credential of a password in the scheme `scrypt`; takes some 50 ms and 16 MB.

    `ensemble` is the uuid that the servers tell, `ConnectReply.ensemble`: a key is of no use where
    it is another one.
    """
    salt = f"raykeeper\0{ensemble}\0{user}".encode()
    return hashlib.scrypt(password.encode(), salt=salt, n=1 << 14, r=8, p=1, dklen=_KEY_BYTES)


def scrypt_id(ensemble: str, user: str, password: str) -> str:
    """Return the id of a user in the scheme `scrypt`."""
    key = scrypt_key(ensemble, user, password)
    return f"{user}:{_encoded(hashlib.sha256(key).digest())}"


def _encoded(data: bytes) -> str:
    return b64encode(data).decode()
