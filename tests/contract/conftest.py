"""What several contract suites share."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.client_handles import Room
from tests.contract.stream_carrier import TlsFiles


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """Certificates as Ray would use them."""
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def room() -> Room:
    """Servers."""
    return Room()


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[ThreadPoolExecutor]:
    """Threads that have ended after the test. Name it before `connect` in a test's arguments.

    Then the clients are closed before, and a call that a failed test has left waiting ends.
    """
    names = request.fixturenames
    assert "connect" not in names or names.index("pool") < names.index("connect")
    with ThreadPoolExecutor(8) as pool:
        yield pool
