"""What several contract suites share."""

import pytest

from tests.contract.stream_carrier import TlsFiles


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """Certificates as Ray would use them."""
    return TlsFiles(tmp_path_factory.mktemp("tls"))
