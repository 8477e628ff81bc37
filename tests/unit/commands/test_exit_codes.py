"""Which exit code an error has."""

import pytest
import typer

from raykeeper.client.errors import (
    BadArgumentsError,
    ConnectionLossError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    WrongContextError,
)
from raykeeper.clusters.config import ConfigError
from raykeeper.clusters.ensemble import EnsembleNotFoundError, NoLeaderError
from raykeeper.clusters.local_ray import RayNotFoundError
from raykeeper.commands.exit_codes import code_of, exit_unless
from raykeeper.commands.inspection.arguments import ArgumentError
from raykeeper.commands.migration.errors import ZooKeeperUnreachableError
from raykeeper.commands.shell import ShellUsageError
from raykeeper.zab.errors import RayKeeperError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong"), 2),
        (ShellUsageError("wrong"), 2),
        (ArgumentError("wrong"), 2),
        (BadArgumentsError("x", "no path"), 2),
        (NoNodeError("/x"), 1),
        (EnsembleNotFoundError("nowhere"), 3),
        (RayNotFoundError("none"), 3),
        (WrongContextError("a fork"), 3),
        (NoLeaderError("none"), 4),
        (ConnectionLossError("cut"), 4),
        (OperationTimeoutError("late"), 4),
        (SessionExpiredError("over"), 4),
        (ZooKeeperUnreachableError("away"), 4),
        (RayKeeperError("else"), 1),
    ],
)
def test_an_error_has_its_exit_code(error: RayKeeperError, code: int) -> None:
    assert code_of(error) == code


def test_what_no_server_could_tell_has_its_exit_code() -> None:
    exit_unless(is_told=True)
    with pytest.raises(typer.Exit) as ended:
        exit_unless(is_told=False)
    assert ended.value.exit_code == 4
