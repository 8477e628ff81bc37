"""The arguments in the query of a request, checked: an error names what is expected."""

from collections.abc import Mapping

from raykeeper.client.arguments import checked_path
from raykeeper.client.errors import BadArgumentsError
from raykeeper.commands.ui.answers import ApiError
from raykeeper.znodes.requests import SessionId

Query = Mapping[str, str]


def number_in(query: Query, name: str, default: int, least: int, most: int) -> int:
    """Return a number from `least` to `most`.

    Raises:
        ApiError: it is none.
    """
    text = query.get(name)
    if text is None:
        return default
    # Longer texts are no numbers that could be allowed, and take long to convert.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not least <= number <= most:
        raise ApiError(400, f"{name} must be a number from {least} to {most}, not {text[:40]!r}")
    return number


def path_in(query: Query, default: str | None = None) -> str:
    """Return the path of a znode; without a default it must be there.

    Raises:
        ApiError: there is none, or it is malformed.
    """
    text = query.get("path") or default
    if text is None:
        raise ApiError(400, "path is missing: the path of a znode, such as /a")
    try:
        return checked_path(text) if text else ""
    except BadArgumentsError as error:
        raise ApiError(400, str(error)) from None


def session_in(query: Query, name: str) -> SessionId | None:
    """Return a session id, such as `0x1f`; None if there is none.

    Raises:
        ApiError: it is no session id.
    """
    text = query.get(name)
    if not text:
        return None
    try:
        return SessionId(int(text[:40], 0))
    except ValueError:
        raise ApiError(
            400, f"{name} must be a session id such as 0x1f, not {text[:40]!r}"
        ) from None
