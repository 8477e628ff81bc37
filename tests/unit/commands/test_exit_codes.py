"""Which exit code an error has."""

import pytest

from raykeeper.client.errors import BadArgumentsError, NoNodeError
from raykeeper.clusters.config import ConfigError
from raykeeper.clusters.ensemble import EnsembleNotFoundError, NoLeaderError
from raykeeper.commands.exit_codes import code_of
from raykeeper.commands.shell import ShellUsageError
from raykeeper.zab.errors import RayKeeperError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong"), 2),
        (ShellUsageError("wrong"), 2),
        (BadArgumentsError("x", "no path"), 2),
        (NoNodeError("/x"), 1),
        (EnsembleNotFoundError("nowhere"), 3),
        (NoLeaderError("none"), 4),
        (RayKeeperError("else"), 1),
    ],
)
def test_an_error_has_its_exit_code(error: RayKeeperError, code: int) -> None:
    assert code_of(error) == code
