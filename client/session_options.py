"""The options of a new session, and the core and request builder made of them."""

import os
from collections.abc import Iterable
from random import Random

from msgspec import Struct

from raykeeper.client import arguments
from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.public_types import ClientId
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.request_builder import RequestBuilder
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.acl import Acl, Acls
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.requests import PASSWORD_BYTES

VALUE_BYTES_MAX = Limits().value_bytes_max


class SessionOptions(Struct, frozen=True, kw_only=True):
    """The options of a session; see `connect`. They pickle."""

    session_timeout_s: float = 10.0
    timeout_s: float = 30.0
    open_timeout_s: float | None = None
    """What is left of `timeout_s` for opening the session; None for all of it."""
    value_bytes_max: int = VALUE_BYTES_MAX
    default_acl: Acls | None = None
    """The default ACL, which has been checked."""
    client_id: ClientId | None = None
    chroot: str = ""
    """The path of the znode that is the root of the handle, "" for the root of the ensemble."""
    read_only: bool = False
    identity: bytes = b""
    """The line that names the process of the session; see client/identity.py."""
    learns_servers: bool = True
    """Go to servers that join, and leave those that are removed. Else stay with those given."""


def split_ensemble_name(name: str) -> tuple[str, str]:
    """Return the name of an ensemble and the chroot in it; "coord/app1" has both.

    Raises:
        BadArgumentsError: it is not text, or its second part is not the path of a znode.
    """
    if not isinstance(name, str):
        raise BadArgumentsError(
            "", f"the name of an ensemble must be a string, not {type(name).__name__}"
        )
    ensemble, slash, below = name.partition("/")
    return ensemble, arguments.checked_path(slash + below) if below else ""


def new_core(servers: list[ServerId], options: SessionOptions) -> ClientCore:
    """Return a core for a new session, with a random password and a random seed.

    Raises:
        BadArgumentsError: a timeout is not a positive number, or `client_id` is malformed.
    """
    takeover, timeout_s, open_s = options.client_id, options.timeout_s, options.open_timeout_s
    limits = ClientLimits(
        request_timeout_ms=arguments.milliseconds("timeout_s", timeout_s),
        open_timeout_ms=None if open_s is None else Millis(max(1, round(open_s * 1000))),
    )
    return ClientCore(
        os.urandom(PASSWORD_BYTES),
        arguments.milliseconds("session_timeout_s", options.session_timeout_s),
        servers,
        Random(),
        limits,
        takeover=None if takeover is None else arguments.checked_client_id(takeover),
        chroot=Chroot(options.chroot),
        read_only=options.read_only,
        identity=options.identity,
        learns_servers=options.learns_servers,
    )


def checked_default_acl(acls: Iterable[Acl] | None) -> Acls | None:
    """Return the default ACL of a handle, checked.

    Raises:
        InvalidAclError: it is malformed.
    """
    return None if acls is None else arguments.checked_acls("", acls)


def new_request_builder(options: SessionOptions) -> RequestBuilder:
    """Return the request builder of a handle with these options."""
    bytes_max, acls = options.value_bytes_max, options.default_acl
    return RequestBuilder(bytes_max, acls, chroot=options.chroot)
