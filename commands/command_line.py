"""The command `raykeeper`: which commands it has, in the order of its help.

The commands are declared in commands/declarations/, those of groups in bench/command.py and
inspection/command.py. docs/COMMAND_LINE.md lists the exit codes and the documents of `--json`. An
error is one line on stderr, never a traceback.
"""

import gc
import logging
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from raykeeper import __version__
from raykeeper.commands.declarations import (
    backups,
    lifecycle,
    listings,
    members,
    migration,
    monitoring,
    trials,
    znodes,
)
from raykeeper.commands.declarations.joining import is_in_ray
from raykeeper.commands.exit_codes import INTERRUPTED, code_of
from raykeeper.commands.inspection.command import inspection
from raykeeper.commands.output import EscapedFormatter, make_console, print_error
from raykeeper.zab.errors import RayKeeperError

_GARBAGE_MIN = 100_000
"""New objects before a garbage collection. With Python's 700, collections that find nothing take a
seventh of the time of all imports."""
_RUN, _CHANGE, _LOOK = "Run an ensemble", "Change it while it works", "Look at it"
_DATA, _FOLDERS, _TRY = "Use and move its data", "Save it, and look into its folders", "Try it"
_GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    _RUN: (lifecycle.init, lifecycle.up, lifecycle.down, lifecycle.recover),
    _CHANGE: (lifecycle.restart, lifecycle.transfer, lifecycle.drain_server, lifecycle.drain),
    _LOOK: (
        *(monitoring.status, monitoring.doctor, monitoring.top, monitoring.ui, monitoring.events),
        *(listings.sessions, listings.locks, listings.watches, listings.tree, monitoring.grafana),
    ),
    _DATA: (znodes.shell, znodes.copy, migration.import_, migration.export),
    _FOLDERS: (backups.backup, backups.restore, listings.log),
    _TRY: (trials.demo, trials.chaos),
}
"""The commands as the help shows them, beside the groups of commands."""


class _ExperimentGroup(TyperGroup):
    """The commands of `raykeeper bench`, which are imported when one of them is requested."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._group().list_commands(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._group().get_command(ctx, cmd_name)

    def _group(self) -> Any:
        from raykeeper.bench.command import app as experiments

        return typer.main.get_command(experiments)


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
for _panel, _commands in _GROUPS.items():
    for _command in _commands:
        # What follows `shell get` is the command's, also if it begins with a dash.
        settings = {"allow_interspersed_args": _command is not znodes.shell}
        _name = _command.__name__.rstrip("_").replace("_", "-")
        app.command(_name, context_settings=settings, rich_help_panel=_panel)(_command)
app.add_typer(
    members.members,
    name="members",
    help="Show the members of an ensemble (`members NAME`), and change them while it works.",
    rich_help_panel=_CHANGE,
)
app.add_typer(
    inspection,
    name="inspect",
    help="Look into the folder of a server, which may run meanwhile. Writes nothing there.",
    rich_help_panel=_FOLDERS,
)
app.add_typer(
    typer.Typer(cls=_ExperimentGroup, no_args_is_help=True),
    name="bench",
    help="Measure: the paper's evaluation, and more.",
    rich_help_panel=_TRY,
)
out = make_console()
err = make_console(stderr=True)


def main() -> None:
    """Run the command line and exit with its code."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(EscapedFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    gc.set_threshold(_GARBAGE_MIN)
    belongs_to_caller = is_in_ray()
    try:
        app()
    except RayKeeperError as error:
        print_error(err, error)
        sys.exit(code_of(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if is_in_ray() and not belongs_to_caller:
            # Without this, Ray sleeps for half a second when the interpreter ends.
            sys.modules["ray"].shutdown()


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        out.print(f"raykeeper {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """ZooKeeper's coordination kernel for Ray."""
