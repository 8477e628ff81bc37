"""A new session: what it is made of, for both facades."""

import os
from random import Random

from raykeeper.client import arguments
from raykeeper.client.core import ClientCore
from raykeeper.client.limits import ClientLimits
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.requests import PASSWORD_BYTES

VALUE_BYTES_MAX = Limits().value_bytes_max


def new_core(servers: list[ServerId], session_timeout_s: float, timeout_s: float) -> ClientCore:
    """A core for a new session, with a password and a seed of its own.

    Raises:
        BadArgumentsError: a span of time makes no sense.
    """
    return ClientCore(
        os.urandom(PASSWORD_BYTES),
        arguments.milliseconds("session_timeout_s", session_timeout_s),
        servers,
        Random(),
        ClientLimits(request_timeout_ms=arguments.milliseconds("timeout_s", timeout_s)),
    )
