"""The exit codes of the commands, and of the errors that end one: see docs/COMMAND_LINE.md."""

import typer

from raykeeper.zab.errors import RayKeeperError

OK, FAILED, USAGE, NOT_FOUND, NO_QUORUM, INTERRUPTED = 0, 1, 2, 3, 4, 130


def code_of(error: RayKeeperError) -> int:
    """Return the exit code of a command that ends with this error."""
    from raykeeper.client.errors import (
        BadArgumentsError,
        ConnectionLossError,
        EnsembleNotFoundError,
        OperationTimeoutError,
        SessionExpiredError,
        WrongContextError,
    )
    from raykeeper.clusters.config import ConfigError
    from raykeeper.clusters.ensemble import NoLeaderError
    from raykeeper.clusters.local_ray import RayNotFoundError
    from raykeeper.commands.inspection.arguments import ArgumentError
    from raykeeper.commands.migration.errors import ZooKeeperUnreachableError
    from raykeeper.commands.shell import ShellUsageError

    match error:
        case ConfigError() | ShellUsageError() | ArgumentError() | BadArgumentsError():
            return USAGE
        case EnsembleNotFoundError() | RayNotFoundError() | WrongContextError():
            return NOT_FOUND
        case (
            NoLeaderError()
            | ConnectionLossError()
            | OperationTimeoutError()
            | SessionExpiredError()
            | ZooKeeperUnreachableError()
        ):
            return NO_QUORUM
        case _:
            return FAILED


def exit_unless(is_told: bool) -> None:
    """Exit with 4 if no server could tell what was asked."""
    if not is_told:
        raise typer.Exit(NO_QUORUM)
