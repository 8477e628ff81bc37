"""Zxids as a user writes them."""

import re

from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import COUNTER_MAX, EPOCH_MAX, Epoch, Zxid, make_zxid


class ArgumentError(RayKeeperError):
    """Raised when an argument of `raykeeper inspect` has not the form that it must have.

    The caller should show the message, which has an example.
    """


_ZXID = re.compile(r"(\d{1,7}):(\d{1,13})")


def parse_zxid(option: str, text: str) -> Zxid:
    """Return the zxid that `text` names, such as `3:17`.

    Raises:
        ArgumentError: it is none.
    """
    match = _ZXID.fullmatch(text)
    if match is not None:
        epoch, counter = int(match[1]), int(match[2])
        if epoch <= EPOCH_MAX and counter <= COUNTER_MAX:
            return make_zxid(Epoch(epoch), counter)
    raise ArgumentError(f"{option} {text!r} is no zxid; expected EPOCH:COUNTER, such as 3:17")
