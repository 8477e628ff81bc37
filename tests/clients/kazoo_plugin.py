"""A plugin of pytest: kazoo's own tests find a server of ours where they would start ZooKeeper.

The lines of KAZOO_TESTS are the addresses of a port and of one with TLS, and the folder with the
files of a client. The module of kazoo that starts ZooKeeper is replaced, and with it the packages
that make Java's key stores.
"""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.clients.kazoo_exceptions import NOT_OFFERED, NOT_RUN

_ADDRESS, _TLS_ADDRESS, _FILES = os.environ["KAZOO_TESTS"].splitlines()


class RunningServer:
    """A server that is there already."""

    running = True
    address = _ADDRESS
    secure_address = _TLS_ADDRESS


class ZookeeperCluster(list[RunningServer]):
    """One server, in place of the class of kazoo's harness that starts three."""

    def __init__(self, **_of_zookeeper: object) -> None:
        super().__init__([RunningServer()])

    def terminate(self) -> None:
        """The process that started this one ends the server."""

    def get_logs(self) -> list[str]:
        return []

    def get_ssl_client_configuration(self) -> dict[str, bytes]:
        kinds = {"client_key": "key", "client_cert": "pem", "ca_cert": "ca"}
        return {key: Path(_FILES, f"authority.{kind}").read_bytes() for key, kind in kinds.items()}


_module = ModuleType("kazoo.testing.common")
_module.ZookeeperCluster = ZookeeperCluster  # type: ignore[attr-defined]
sys.modules[_module.__name__] = _module
os.environ["ZOOKEEPER_VERSION"] = "3.9.5"  # the harness reads it, and the class above does not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `kazoo_exceptions` lists."""
    for item in items:
        file = Path(item.path).stem
        name = "::".join([file, *item.nodeid.split("::")[-2:]])
        if name in NOT_RUN:
            item.add_marker(pytest.mark.skip(reason=NOT_RUN[name]))
        elif name in NOT_OFFERED:
            item.add_marker(pytest.mark.xfail(reason=NOT_OFFERED[name], strict=True))
