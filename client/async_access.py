"""The part of the client to await that is about who may do what, how much there may be, and whose
znodes are whose. What ACLs and identities are: client/access.py; what quotas are: znodes/quotas.py.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from raykeeper.client.core.compound_operations import Rounds
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.results import Quota
from raykeeper.client.request_builder import RequestBuilder
from raykeeper.znodes.acl import Acl, Identity
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.requests import ANY_VERSION
from raykeeper.znodes.stat import Stat


class AsyncAccess(ABC):
    """The methods of `AsyncClient` that few programs need. What they raise: `BlockingAccess`."""

    _requests: RequestBuilder

    @property
    @abstractmethod
    def ensemble_uuid(self) -> str:
        """What names the ensemble for ever; it salts the keys of the scheme `scrypt`."""

    @abstractmethod
    def _start(self, asked: NewRequest | Rounds) -> asyncio.Future[Any]:
        """Submit a request, or an operation of several rounds."""

    def get_acls(self, path: str) -> asyncio.Future[tuple[list[Acl], Stat]]:
        """Read ACL and Stat. See `Client.get_acls`.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._start(self._requests.get_acls(path))

    def set_acls(
        self, path: str, acls: Iterable[Acl], version: int = ANY_VERSION
    ) -> asyncio.Future[Stat]:
        """Replace the ACL. See `Client.set_acls`.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
        """
        return self._start(self._requests.set_acls(path, acls, version))

    def add_auth(self, scheme: str, credential: str | bytes) -> asyncio.Future[None]:
        """Prove an identity. See `Client.add_auth`; `scrypt` holds up the loop for some 50 ms.

        Raises:
            BadArgumentsError: scheme or credential is no text; nothing was sent.
            AuthFailedError: there is no such scheme, or the credential has another form; nothing
                was sent.
        """
        return self._start(self._requests.add_auth(self.ensemble_uuid, scheme, credential))

    def who_am_i(self) -> asyncio.Future[list[Identity]]:
        """The identities of the session."""
        return self._start(self._requests.who_am_i())

    def get_ephemerals(self, prefix: str = "/") -> asyncio.Future[list[str]]:
        """The paths of this session's ephemeral znodes that begin with `prefix`.

        Raises:
            BadArgumentsError: the prefix is not acceptable; nothing was sent.
        """
        return self._start(self._requests.get_ephemerals(prefix))

    def get_all_children_number(self, path: str) -> asyncio.Future[int]:
        """How many znodes there are below this one, at any depth.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._start(self._requests.get_all_children_number(path))

    def set_quota(self, path: str, limits: QuotaLimits) -> asyncio.Future[None]:
        """Limit the subtree of a znode. See `Client.set_quota`.

        Raises:
            BadArgumentsError: an argument is not acceptable, or the handle has a chroot.
        """
        return self._start(self._requests.set_quota(path, limits))

    def get_quota(self, path: str) -> asyncio.Future[Quota]:
        """The limits of the subtree of a znode, and what is in it. See `Client.get_quota`.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._start(self._requests.get_quota(path))

    def remove_quota(self, path: str) -> asyncio.Future[None]:
        """Lift the limits of the subtree of a znode. See `Client.remove_quota`.

        Raises:
            BadArgumentsError: the path is not acceptable, or the handle has a chroot.
        """
        return self._start(self._requests.remove_quota(path))
