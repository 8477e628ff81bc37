"""Permissions by a znode's ACL and a session's identities, implemented a second time.

The links of the simulated world carry no addresses, so the scheme `ip` matches no session.
"""

from base64 import b64encode
from hashlib import sha1, sha256

from raykeeper.znodes.acl import Acl, Acls, Identities, Identity
from raykeeper.znodes.errors import Code

EVERYBODY = Acl(31, "world", "anyone")
READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
SUPER = Identity("super", "")
_PROVEN = ("digest", "scrypt")


def may(acls: Acls | None, who: Identities, permission: int) -> bool:
    """Return whether an ACL grants `permission` to a session with these identities."""
    if acls is None or SUPER in who:
        return True
    proved = {(each.scheme, each.id) for each in who}
    proved.add(("world", "anyone"))
    return any(
        entry.permissions & permission and (entry.scheme, entry.id) in proved for entry in acls
    )


def as_kept(acls: list[Acl] | None, who: Identities) -> Acls | Code | None:
    """Return the ACL that a znode gets, None if it is open to all, or the error code."""
    if acls is None:
        return None
    kept: list[Acl] = []
    for entry in acls:
        if entry.scheme != "auth":
            kept.append(entry)
            continue
        mine = [each for each in who if each.scheme in _PROVEN]
        if not mine:
            return Code.INVALID_ACL
        kept.extend(Acl(entry.permissions, each.scheme, each.id) for each in mine)
    if not kept:
        return Code.INVALID_ACL
    once = tuple(dict.fromkeys(kept))
    return None if once == (EVERYBODY,) else once


def as_shown(acls: Acls | None, who: Identities) -> Acls:
    """Return the ACL as a session sees it: only a session with ADMIN sees the hashes."""
    if acls is None:
        return (EVERYBODY,)
    if may(acls, who, ADMIN):
        return acls
    return tuple(
        Acl(each.permissions, each.scheme, each.id.split(":")[0] + ":x")
        if each.scheme in _PROVEN
        else each
        for each in acls
    )


def proved_by(scheme: str, credential: bytes) -> Identity | None:
    """Return the identity of user and password, or of user and key; a password may be missing."""
    user, colon, key = credential.partition(b":")
    if not colon and scheme != "digest":
        return None
    hashed = sha1(credential) if scheme == "digest" else sha256(key)
    return Identity(scheme, f"{user.decode()}:{b64encode(hashed.digest()).decode()}")
