"""Both sides of a migration: clients of kazoo, a server for them, and an ensemble of ours."""

from collections.abc import Iterator
from functools import partial

import pytest

from raykeeper.client import Client
from tests.contract.client_handles import SUPER, Room, open_blocking
from tests.contract.migration.migrations import LIMITS_WITH_SUPER, PROOFS, Connect
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import kazoo_clients


@pytest.fixture
def connect() -> Iterator[Connect]:
    with kazoo_clients() as open_client:
        yield partial(open_client, auth_data=PROOFS)


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of three servers in this process, as the superuser."""
    with open_blocking(Room())() as opened:
        opened.add_auth("digest", SUPER)
        opened.add_auth("digest", "ann:pw")
        yield opened


@pytest.fixture
def port() -> Iterator[JutePort]:
    """A pure server over TCP."""
    with JutePort(limits=LIMITS_WITH_SUPER) as opened:
        yield opened
