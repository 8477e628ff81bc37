"""The routes of one znode: its value, Stat and ACL, and its changes, as the viewer may do them.

Everything here is done by the viewer's own session, so the ACLs of the ensemble decide. A change
states the version that the viewer saw. Without `--edit` every change is refused.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from raykeeper.client import AsyncClient
from raykeeper.commands.output import Document, value_fields
from raykeeper.commands.shell import stat_document
from raykeeper.commands.ui.access import is_json
from raykeeper.commands.ui.answers import ApiError, answer
from raykeeper.commands.ui.query import number_in, path_in
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.viewers import Viewers
from raykeeper.znodes.acl import Acl, Permission

PART_BYTES = 64 << 10
"""Of a value, unless a request asks for more."""
VALUE_BYTES_MAX = 1 << 40
VERSION_MAX = (1 << 31) - 1


class _NewValue(Struct, forbid_unknown_fields=True):
    """The body of a change of a value."""

    path: str
    version: int
    value: str | None = None
    value_base64: str | None = None


class _NewZnode(Struct, forbid_unknown_fields=True):
    """The body of a creation."""

    path: str
    value: str | None = None
    value_base64: str | None = None
    sequence: bool = False
    container: bool = False


class _Credential(Struct, forbid_unknown_fields=True):
    """The body with which a viewer enters an identity."""

    scheme: str
    credential: str


class ZnodeRoutes:
    """Reads and changes by the sessions of viewers."""

    def __init__(
        self,
        viewers: Viewers,
        viewer_of: Callable[[web.Request], str],
        settings: PageSettings,
    ) -> None:
        """`viewer_of` returns who sent a request."""
        self._viewers = viewers
        self._viewer_of = viewer_of
        self._may_edit = settings.may_edit

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, to be added to an application."""
        return [
            web.get("/api/v1/znode", self._read),
            web.get("/api/v1/value", self._download),
            web.put("/api/v1/znode", self._set),
            web.post("/api/v1/znode", self._create),
            web.delete("/api/v1/znode", self._delete),
            web.get("/api/v1/identities", self._identities),
            web.post("/api/v1/identities", self._add_identity),
            web.delete("/api/v1/identities", self._drop_identities),
        ]

    async def _read(self, request: web.Request) -> web.Response:
        path = path_in(request.query)
        offset = number_in(request.query, "offset", 0, 0, VALUE_BYTES_MAX)
        length = number_in(request.query, "length", PART_BYTES, 1, VALUE_BYTES_MAX)
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            value, stat = await client.get(path)
            acls, _ = await client.get_acls(path)
        part = value[offset : offset + length]
        return answer(
            {
                "path": path,
                **value_fields(part),
                "offset": offset,
                "is_text": _is_text(value),
                "stat": stat_document(stat),
                "acls": [_acl_document(each) for each in acls],
            }
        )

    async def _download(self, request: web.Request) -> web.Response:
        path = path_in(request.query)
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            value, _ = await client.get(path)
        # As a file with a fixed name, so that no browser takes a value for a page.
        headers = {"Content-Disposition": 'attachment; filename="value.bin"'}
        return web.Response(body=value, content_type="application/octet-stream", headers=headers)

    async def _set(self, request: web.Request) -> web.Response:
        self._check_may_edit()
        body = await _body_of(request, _NewValue)
        path, version = path_in({"path": body.path}), _checked_version(body.version)
        value = _value_of(body.value, body.value_base64)
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            stat = await client.set(path, value, version)
        return answer({"path": path, "stat": stat_document(stat)})

    async def _create(self, request: web.Request) -> web.Response:
        self._check_may_edit()
        body = await _body_of(request, _NewZnode)
        if body.sequence and body.container:
            raise ApiError(400, "a znode is sequential or a container, not both")
        value = _value_of(body.value, body.value_base64)
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            created = await client.create(
                body.path, value, sequence=body.sequence, container=body.container
            )
        return answer({"path": created}, 201)

    async def _delete(self, request: web.Request) -> web.Response:
        self._check_may_edit()
        _check_json(request)
        path = path_in(request.query)
        if "version" not in request.query:
            raise ApiError(400, "version is missing: the version that was seen")
        version = number_in(request.query, "version", 0, 0, VERSION_MAX)
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            await client.delete(path, version)
        return answer({"path": path})

    async def _identities(self, request: web.Request) -> web.Response:
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            return answer(await _identities_document(client))

    async def _add_identity(self, request: web.Request) -> web.Response:
        body = await _body_of(request, _Credential)
        async with self._viewers.client_of(self._viewer_of(request)) as client:
            await client.add_auth(body.scheme, body.credential)
            return answer(await _identities_document(client))

    async def _drop_identities(self, request: web.Request) -> web.Response:
        """End the session: identities cannot be dropped earlier."""
        _check_json(request)
        await self._viewers.close(self._viewer_of(request))
        return answer({"identities": []})

    def _check_may_edit(self) -> None:
        if not self._may_edit:
            raise ApiError(403, "nothing can be changed: `raykeeper ui` was started without --edit")


async def _identities_document(client: AsyncClient) -> Document:
    """Return the identities by scheme and user, without hashes."""
    found = await client.who_am_i()
    return {
        "identities": [
            {
                "scheme": each.scheme,
                "user": each.id if each.scheme == "ip" else each.id.partition(":")[0],
            }
            for each in found
        ]
    }


async def _body_of(request: web.Request, kind: type[Any]) -> Any:
    _check_json(request)
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"the body is not what it should be: {error}") from None


def _check_json(request: web.Request) -> None:
    if not is_json(request.headers):
        raise ApiError(415, "a change must have the Content-Type application/json")


def _checked_version(version: int) -> int:
    if not 0 <= version <= VERSION_MAX:
        raise ApiError(400, f"version must be the one that was seen, not {version}")
    return version


def _value_of(text: str | None, encoded: str | None) -> bytes:
    if (text is None) == (encoded is None):
        raise ApiError(400, "give either value or value_base64")
    if text is not None:
        return text.encode()
    try:
        return base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(400, f"value_base64 is no base64: {error}") from None


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _acl_document(acl: Acl) -> dict[str, Any]:
    granted = Permission(acl.permissions)
    single = [each for each in Permission if each is not Permission.ALL]
    return {
        "scheme": acl.scheme,
        "id": acl.id,
        "permissions": [each.name.lower() for each in single if each in granted and each.name],
    }
