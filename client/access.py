"""Access control lists as users write them. Their meaning: znodes/acl.py.

kazoo: `kazoo.security`.
"""

from typing import Final, TypedDict, Unpack

from raykeeper.client.errors import AuthFailedError, BadArgumentsError
from raykeeper.znodes.acl import (
    AUTH_SCHEMES,
    USER_BYTES_MAX,
    Acl,
    Identity,
    Permission,
    digest_id,
    scrypt_id,
    scrypt_key,
)

__all__ = [
    "CREATOR_ALL_ACL",
    "OPEN_ACL_UNSAFE",
    "READ_ACL_UNSAFE",
    "Acl",
    "Identity",
    "Permission",
    "Permissions",
    "make_acl",
    "make_digest_acl",
    "make_scrypt_acl",
]

OPEN_ACL_UNSAFE: Final = (Acl(Permission.ALL.value, "world", "anyone"),)
"""Everybody may do everything: the ACL of a znode that is created without one."""
READ_ACL_UNSAFE: Final = (Acl(Permission.READ.value, "world", "anyone"),)
"""Everybody may read."""
CREATOR_ALL_ACL: Final = (Acl(Permission.ALL.value, "auth", ""),)
"""The identities of the creating session (`add_auth`) may do everything, others nothing."""


class Permissions(TypedDict, total=False):
    """The permissions that an entry grants; those left out are not granted."""

    read: bool
    write: bool
    create: bool
    delete: bool
    admin: bool
    all: bool


def make_acl(scheme: str, credential: str, **granted: Unpack[Permissions]) -> Acl:
    """Return an entry for the identity `credential` of `scheme`, as ("ip", "10.0.0.0/8").

    Args:
        scheme: The scheme of the identity, see docs/SECURITY.md.
        credential: The id in that scheme.
        granted: Permissions by name, such as `read=True`.

    Raises:
        BadArgumentsError: a permission has another name.
    """
    permissions = 0
    for name, is_granted in granted.items():
        if name.upper() not in Permission.__members__:
            raise BadArgumentsError("", f"{name!r} is no permission")
        permissions |= Permission[name.upper()].value if is_granted else 0
    return Acl(permissions, scheme, credential)


def make_digest_acl(username: str, password: str, **granted: Unpack[Permissions]) -> Acl:
    """Return an entry of ZooKeeper's scheme `digest`, an unsalted SHA-1, for migrated ACLs.

    Args:
        username: The user of the entry.
        password: The password that the user proves with `add_auth`.
        granted: Permissions by name.

    Raises:
        BadArgumentsError: the name has a ":", or a permission has another name.
    """
    return make_acl("digest", digest_id(_user(username), password), **granted)


def make_scrypt_acl(
    ensemble: str, username: str, password: str, **granted: Unpack[Permissions]
) -> Acl:
    """Return an entry of the scheme `scrypt`, which is recommended; computes for about 50 ms.

    Args:
        ensemble: `client.ensemble_uuid`, which salts the hash.
        username: The user of the entry.
        password: The password that the user proves with `add_auth`.
        granted: Permissions by name.

    Raises:
        BadArgumentsError: the name has a ":", or a permission has another name.
    """
    return make_acl("scrypt", scrypt_id(ensemble, _user(username), password), **granted)


def credential_proof(ensemble: str, scheme: str, credential: str | bytes) -> bytes:
    """Return the proof of "user:password" to send: for `scrypt` a key made of it, else itself.

    Raises:
        BadArgumentsError: the credential is not text.
        AuthFailedError: the scheme is unknown, or the credential has another form.
    """
    if not isinstance(credential, str | bytes):
        raise BadArgumentsError("", f"a credential is text, not {type(credential).__name__}")
    if scheme not in AUTH_SCHEMES:
        raise AuthFailedError("", f'a scheme is "scrypt" or "digest", not {scheme!r}')
    if isinstance(credential, str):
        credential = credential.encode(errors="surrogatepass")
    try:
        text = credential.decode()
    except UnicodeDecodeError:
        raise AuthFailedError("", "a credential must be valid UTF-8") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise AuthFailedError("", 'a credential has the form "user:password"')
    name = user.encode()
    if len(name) > USER_BYTES_MAX:
        raise AuthFailedError("", f"a user has at most {USER_BYTES_MAX} bytes, not {len(name)}")
    if scheme != "scrypt":
        return credential
    return name + b":" + scrypt_key(ensemble, user, password)


def _user(name: str) -> str:
    if not isinstance(name, str) or ":" in name:
        raise BadArgumentsError("", f'a user name is a text without ":", not {name!r}')
    return name
