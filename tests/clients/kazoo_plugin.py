"""A plugin of pytest: kazoo's own tests find a server of ours where they would start ZooKeeper.

The lines of KAZOO_TESTS are the addresses of a port and of one with TLS, and the folder with the
files of a client. The module of kazoo that starts ZooKeeper is replaced, and with it the packages
that make Java's key stores.
"""

import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Final

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


PATIENCE_S: Final = 3.0
"""What happens within 0.1 to 1 s on an idle machine may take so long on a busy one."""
_wait = threading.Event.wait


def _wait_longer(event: threading.Event, timeout: float | None = None) -> bool:
    is_of_a_test = sys._getframe(1).f_globals["__name__"].startswith("kazoo.tests.")
    if is_of_a_test and timeout is not None:
        timeout = max(timeout, PATIENCE_S)
    return _wait(event, timeout)


threading.Event.wait = _wait_longer  # type: ignore[method-assign]


def _wait_for_reactions(test: Any) -> None:
    """Wait until every partitioner has noticed that the party has changed."""
    while any(each.acquired for each in test._KazooPartitionerTests__partitioners):
        time.sleep(0.01)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `kazoo_exceptions` lists, and let the other tests wait for what they expect."""
    partitioner = sys.modules.get("kazoo.tests.test_partitioner")
    if partitioner is not None:  # it sleeps for 0.1 s in place of that
        partitioner.KazooPartitionerTests._KazooPartitionerTests__wait = _wait_for_reactions
    for item in items:
        file = Path(item.path).stem
        name = "::".join([file, *item.nodeid.split("::")[-2:]])
        if name in NOT_RUN:
            item.add_marker(pytest.mark.skip(reason=NOT_RUN[name]))
        elif name in NOT_OFFERED:
            item.add_marker(pytest.mark.xfail(reason=NOT_OFFERED[name], strict=True))
