"""The part of the blocking client that is about who may do what, how much there may be, and whose
znodes are whose. What ACLs and identities are: client/access.py; what quotas are: znodes/quotas.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future

from raykeeper.client.core.results import Quota
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.session import Session
from raykeeper.znodes.acl import Acl, Identity
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.requests import ANY_VERSION
from raykeeper.znodes.stat import Stat


class BlockingAccess(ABC):
    """The methods of `Client` that few programs need."""

    @abstractmethod
    def _open_session(self) -> Session:
        """The session of the handle."""

    def get_acls(self, path: str) -> tuple[list[Acl], Stat]:
        """Read ACL and Stat. Hashes are masked unless the session has ADMIN.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            NoAuthError: it grants neither READ nor ADMIN.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_acls")
        live = self._open_session()
        answer: tuple[list[Acl], Stat] = live.call(live.requests.get_acls(path))
        return answer

    def get_acls_async(self, path: str) -> Future[tuple[list[Acl], Stat]]:
        """`get_acls` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.get_acls(path))

    def set_acls(self, path: str, acls: Iterable[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL if it is at `version` (`Stat.aversion`), or at any (-1).

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed, or its `auth` stands for nobody.
            NoNodeError: the znode does not exist.
            NoAuthError: it does not grant ADMIN.
            BadVersionError: its ACL is at another version.
            KeeperError: as for every call.
        """
        refuse_running_loop("set_acls")
        live = self._open_session()
        answer: Stat = live.call(live.requests.set_acls(path, acls, version))
        return answer

    def set_acls_async(
        self, path: str, acls: Iterable[Acl], version: int = ANY_VERSION
    ) -> Future[Stat]:
        """`set_acls` without waiting.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.set_acls(path, acls, version))

    def add_auth(self, scheme: str, credential: str | bytes) -> None:
        """Prove an identity, which the session then has until its end, wherever it is served.

        If it fails, only that has failed: the session goes on with the identities it has.

        Args:
            scheme: "scrypt" (recommended; it takes some 50 ms) or "digest". See docs/SECURITY.md.
            credential: "user:password".

        Raises:
            BadArgumentsError: scheme or credential is no text; nothing was sent.
            AuthFailedError: there is no such scheme, the credential has another form, or the
                session has too many identities.
            KeeperError: as for every call.
        """
        refuse_running_loop("add_auth")
        live = self._open_session()
        live.call(live.requests.add_auth(live.ensemble_uuid, scheme, credential))

    def add_auth_async(self, scheme: str, credential: str | bytes) -> Future[None]:
        """`add_auth` without waiting for the answer.

        Raises:
            BadArgumentsError: scheme or credential is no text; nothing was sent.
            AuthFailedError: there is no such scheme, or the credential has another form; nothing
                was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.add_auth(live.ensemble_uuid, scheme, credential))

    def who_am_i(self) -> list[Identity]:
        """The identities of the session.

        Raises:
            KeeperError: as for every call.
        """
        refuse_running_loop("who_am_i")
        live = self._open_session()
        answer: list[Identity] = live.call(live.requests.who_am_i())
        return answer

    def who_am_i_async(self) -> Future[list[Identity]]:
        """`who_am_i` without waiting."""
        live = self._open_session()
        return live.submit(live.requests.who_am_i())

    def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """The paths of this session's ephemeral znodes that begin with `prefix`.

        Raises:
            BadArgumentsError: the prefix is not acceptable; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_ephemerals")
        live = self._open_session()
        answer: list[str] = live.call(live.requests.get_ephemerals(prefix))
        return answer

    def get_ephemerals_async(self, prefix: str = "/") -> Future[list[str]]:
        """`get_ephemerals` without waiting.

        Raises:
            BadArgumentsError: the prefix is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.get_ephemerals(prefix))

    def get_all_children_number(self, path: str) -> int:
        """How many znodes there are below this one, at any depth.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            NoAuthError: it does not grant READ.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_all_children_number")
        live = self._open_session()
        answer: int = live.call(live.requests.get_all_children_number(path))
        return answer

    def get_all_children_number_async(self, path: str) -> Future[int]:
        """`get_all_children_number` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.get_all_children_number(path))

    def set_quota(self, path: str, limits: QuotaLimits) -> None:
        """Limit the subtree of a znode, which need not exist yet, instead of its limits so far.

        What would grow it beyond a hard limit is refused; beyond a soft one it is only logged.

        Raises:
            BadArgumentsError: an argument is not acceptable, or the handle has a chroot.
            NoAuthError: /zookeeper/quota does not grant it.
            KeeperError: as for every call.
        """
        refuse_running_loop("set_quota")
        self._open_session().wait(self.set_quota_async(path, limits))

    def set_quota_async(self, path: str, limits: QuotaLimits) -> Future[None]:
        """`set_quota` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable, or the handle has a chroot.
        """
        live = self._open_session()
        return live.run(live.requests.set_quota(path, limits))

    def get_quota(self, path: str) -> Quota:
        """The limits of the subtree of a znode, and what is in it.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            NoNodeError: it has no quota.
            NoAuthError: the znode that keeps the quota does not grant READ.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_quota")
        live = self._open_session()
        answer: Quota = live.call(live.requests.get_quota(path))
        return answer

    def get_quota_async(self, path: str) -> Future[Quota]:
        """`get_quota` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.get_quota(path))

    def remove_quota(self, path: str) -> None:
        """Lift the limits of the subtree of a znode.

        Raises:
            BadArgumentsError: the path is not acceptable, or the handle has a chroot.
            NoNodeError: it has no quota.
            NoAuthError: /zookeeper/quota does not grant it.
            KeeperError: as for every call.
        """
        refuse_running_loop("remove_quota")
        self._open_session().wait(self.remove_quota_async(path))

    def remove_quota_async(self, path: str) -> Future[None]:
        """`remove_quota` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable, or the handle has a chroot.
        """
        live = self._open_session()
        return live.run(live.requests.remove_quota(path))
