"""Who may use the page: those who have the token. And from where: a page of this server only.

The first visit shows the token, in the URL that the command prints or in the form of the login
page. It gets a cookie, which is no token: a random number and a proof that this process gave it
out. Programs show the token in a header, `Authorization: Bearer …`.

Against other pages in the same browser:

    Host        must name this machine, else another site's name leads here (DNS rebinding)
    Origin      of a request that has one must be this server
    cookie      HttpOnly, SameSite=Strict: no request that another site makes carries it
    changes     must be JSON, which no form of another site can send
    framing     is forbidden, as are scripts, styles and images that are not ours
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

HERE: Final = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without one the Origin of the login form is "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer."""
TOKEN_BYTES: Final = 24
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


class AccessControl:
    """Decides about requests by their headers; knows nothing of HTTP libraries."""

    def __init__(self, token: str, key: bytes) -> None:
        """`token` is what a visitor must have; `key` signs the cookies of this process."""
        self._token = token
        self._key = key

    def is_token(self, text: str) -> bool:
        """Return whether this is the token, in a time that does not depend on the text."""
        return hmac.compare_digest(text.encode(errors="replace"), self._token.encode())

    def has_token(self, authorization: str) -> bool:
        """Return whether a header `Authorization` shows the token."""
        scheme, _, text = authorization.partition(" ")
        return scheme.lower() == "bearer" and self.is_token(text.strip())

    def new_cookie(self) -> str:
        """Return a cookie for a viewer who has shown the token."""
        viewer = secrets.token_urlsafe(18)
        return f"{viewer}.{self._proof(viewer)}"

    def viewer_of(self, cookie: str) -> str | None:
        """Return the viewer who has this cookie, None if this process did not give it out."""
        viewer, _, proof = cookie.partition(".")
        proven = proof.encode(errors="replace")
        return viewer if hmac.compare_digest(proven, self._proof(viewer).encode()) else None

    def _proof(self, viewer: str) -> str:
        return hmac.new(self._key, viewer.encode(errors="replace"), hashlib.sha256).hexdigest()


def foreign_problem(method: str, headers: Mapping[str, str]) -> str | None:
    """Return why a request may come from a page of another site; None if it does not.

    The body of a login is a form; of any other change it must be JSON, see `is_json`.
    """
    host = headers.get("Host", "")
    if _name_of(host) not in HERE:
        return f"the Host must be this machine, 127.0.0.1 or localhost, not {host!r}"
    origin = headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        return f"the Origin must be this page, not {origin!r}"
    if method not in SAFE_METHODS and headers.get("Sec-Fetch-Site", "same-origin") not in (
        "same-origin",
        "none",
    ):
        return "another site asks for a change"
    return None


def is_json(headers: Mapping[str, str]) -> bool:
    """Return whether the body is said to be JSON."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json"


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # such as a bracket that is not closed
        return None
