"""Answers as JSON. An error has a text for people, its class, and a status that programs know."""

import json
from typing import Final

from aiohttp import web

from raykeeper.client.errors import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ConnectionLossError,
    EnsembleNotFoundError,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    OperationTimeoutError,
    QuotaExceededError,
    SessionExpiredError,
)
from raykeeper.clusters.admin import SessionNotFoundError
from raykeeper.clusters.ensemble import NoLeaderError
from raykeeper.clusters.local_ray import RayNotFoundError
from raykeeper.commands.output import Document
from raykeeper.commands.ui.source import LateError
from raykeeper.zab.errors import RayKeeperError

STATUS: Final[dict[type[RayKeeperError], int]] = {
    BadArgumentsError: 400,
    InvalidAclError: 400,
    AuthFailedError: 403,
    NoAuthError: 403,
    NoNodeError: 404,
    SessionNotFoundError: 404,
    BadVersionError: 409,
    NodeExistsError: 409,
    NotEmptyError: 409,
    NoChildrenForEphemeralsError: 409,
    QuotaExceededError: 409,
    ConnectionLossError: 503,
    EnsembleNotFoundError: 503,
    NoLeaderError: 503,
    NotReadOnlyError: 503,
    OperationTimeoutError: 503,
    RayNotFoundError: 503,
    SessionExpiredError: 503,
    LateError: 504,
}
"""The status of each error; 500 of others."""


class ApiError(RayKeeperError):
    """Raised when a request cannot be answered; becomes an answer with its status and text.

    The caller should do what the text says.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def answer(document: Document, status: int = 200) -> web.Response:
    """Return a document as an answer, in ASCII."""
    return web.json_response(text=json.dumps(document), status=status)


def error_answer(error: RayKeeperError) -> web.Response:
    """Return the answer for an error."""
    if isinstance(error, ApiError):
        status = error.status
    else:
        status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    return answer({"error": str(error), "kind": type(error).__name__}, status)
