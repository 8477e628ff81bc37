"""The members of an ensemble and their changes: `members`, with a command for each change."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from raykeeper.commands.declarations.joining import find_ensemble, join
from raykeeper.commands.declarations.options import DAY_S, Address, Name
from raykeeper.commands.exit_codes import exit_unless
from raykeeper.commands.output import AsJson, make_console, print_document

if TYPE_CHECKING:
    from raykeeper.clusters.ensemble import Ensemble
    from raykeeper.clusters.members_status import MembersStatus

out = make_console()
err = make_console(stderr=True)
_SHOW = "show"

Server = Annotated[int, typer.Argument(metavar="SERVER", help="Its id.")]
WaitS = Annotated[
    float,
    typer.Option(
        "--wait-s", min=1.0, max=DAY_S, help="How long one act may take, such as a newcomer's copy."
    ),
]
Node = Annotated[
    str | None,
    typer.Option(help="Ray node for the newcomer: the beginning of its id, as in `status`."),
]
_WAIT_S = 600.0


class _MembersGroup(TyperGroup):
    """Shows the members if no command is named: `raykeeper members NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.list_commands(ctx), "--help"}:
            args = [_SHOW, *args]
        return list(super().parse_args(ctx, args))


members = typer.Typer(cls=_MembersGroup)


@members.command(_SHOW)
def show(name: Name = None, address: Address = None, as_json: AsJson = False) -> None:
    """Show the members, where they run, and a change that has not ended. The default."""
    from raykeeper.commands.member_reports import members_document, show_members

    join(address)
    report = find_ensemble(name).members()
    if as_json:
        print_document(members_document(report))
    else:
        show_members(out, report)
    exit_unless(report.leader is not None)


@members.command()
def add(
    name: Name = None,
    server: Annotated[
        int | None, typer.Option("--id", help="Its id; else the lowest free one.")
    ] = None,
    observer: Annotated[bool, typer.Option("--observer", help="It gets no vote.")] = False,
    node: Node = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Start a server and add it; it gets a vote when it has caught up."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.add_server(
            server, observer=observer, node=node, tell=tell, wait_s=wait_s
        ),
    )


@members.command()
def remove(
    server: Server,
    name: Name = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Remove a server and end it; a leader hands over before."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.remove_server(server, tell=tell, wait_s=wait_s),
    )


@members.command()
def replace(
    server: Server,
    name: Name = None,
    by: Annotated[
        int | None, typer.Option("--by", help="Id of the newcomer, or an observer; else a free id.")
    ] = None,
    node: Node = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Put another server in the place of one, which need not run."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.replace_server(
            server, by, node=node, tell=tell, wait_s=wait_s
        ),
    )


@members.command()
def promote(
    server: Server,
    name: Name = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Give an observer a vote, once it has caught up."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.promote(server, tell=tell, wait_s=wait_s),
    )


@members.command()
def demote(
    server: Server,
    name: Name = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Make a voter an observer; a leader hands over before."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.demote(server, tell=tell, wait_s=wait_s),
    )


@members.command("set")
def set_(
    name: Name = None,
    voters: Annotated[
        str | None, typer.Option(help="How many, such as 5, or which, such as =1,3,4.")
    ] = None,
    observers: Annotated[str | None, typer.Option(help="The same; = alone is none.")] = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Bring the ensemble to so many voters and observers, or to these, one step at a time."""
    if voters is None and observers is None:
        raise typer.BadParameter("say --voters, --observers or both")
    asked = _asked("--voters", voters), _asked("--observers", observers)
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.change_members(*asked, tell=tell, wait_s=wait_s),
    )


@members.command()
def resume(
    name: Name = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a change that has not ended, forward or back as it was."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.resume_change(tell=tell, wait_s=wait_s),
    )


@members.command()
def undo(
    name: Name = None,
    wait_s: WaitS = _WAIT_S,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Go back from a change that has not ended; servers that have left do not come back."""
    _change(
        *(name, address, as_json),
        lambda ensemble, tell: ensemble.undo_change(tell=tell, wait_s=wait_s),
    )


def _change(
    name: str | None,
    address: str | None,
    as_json: bool,
    act: "Callable[[Ensemble, Callable[[str], None]], MembersStatus]",
) -> None:
    """Do a change with its progress, and show the members after it."""
    from raykeeper.commands.member_reports import members_document, show_members, shown_change

    join(address)
    ensemble = find_ensemble(name)
    with shown_change(err if as_json else out) as tell:
        report = act(ensemble, tell)
    if as_json:
        print_document(members_document(report))
    else:
        show_members(out, report)


def _asked(option: str, text: str | None) -> int | list[int] | None:
    """Return the number, or the ids behind `=`, that an option names."""
    if text is None:
        return None
    try:
        if not text.startswith("="):
            return int(text)
        return [int(each) for each in text[1:].split(",") if text[1:]]
    except ValueError:
        raise typer.BadParameter(
            f"{option}: expected a number such as 5, or ids such as =1,3,4, not {text!r}"
        ) from None
