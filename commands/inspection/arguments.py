"""Zxids, times and session ids as a user writes them."""

import re
from datetime import UTC, datetime

from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import COUNTER_MAX, EPOCH_MAX, Epoch, Millis, Zxid, make_zxid
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.requests import SessionId


class ArgumentError(RayKeeperError):
    """Raised when an argument of `raykeeper inspect`, `log` or `restore` has another form.

    The caller should show the message, which has an example.
    """


_ZXID = re.compile(r"(\d{1,7}):(\d{1,13})")
_SPAN = re.compile(r"(\d{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


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


def parse_time(option: str, text: str, now_ms: Millis) -> Millis:
    """Return the time that `text` names: a time in ISO 8601, or how long ago, such as `2h`.

    A time without a zone is in UTC, as every time that the commands print.

    Raises:
        ArgumentError: it is none.
    """
    match = _SPAN.fullmatch(text)
    if match is not None:
        return Millis(now_ms - int(match[1]) * _UNIT_MS[match[2]])
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return Millis(round(time.timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ArgumentError(
            f"{option} {text!r} is no time; expected such as 2026-11-25T14:00 (UTC), "
            "2026-11-25T15:00+01:00, or how long ago: 90s, 30m, 2h, 7d"
        ) from None


def parse_path(option: str, text: str) -> str:
    """Return the path of a znode that `text` is.

    Raises:
        ArgumentError: it is none.
    """
    fault = path_fault(text)
    if fault is not None:
        raise ArgumentError(f"{option} {text!r} is no path of a znode: {fault}")
    return text


def parse_session(option: str, text: str) -> SessionId:
    """Return the session id that `text` names, such as `0x1f` or `31`.

    Raises:
        ArgumentError: it is none.
    """
    try:
        number = int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 63:
        raise ArgumentError(f"{option} {text!r} is no session id; expected such as 0x40000000001")
    return SessionId(number)
