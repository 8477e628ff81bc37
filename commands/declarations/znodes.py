"""Look at znodes and change them, and copy subtrees: `shell`, `copy`."""

import time
from pathlib import Path
from typing import Annotated

import typer

from raykeeper.commands.completion import complete_name, complete_place
from raykeeper.commands.declarations.joining import find_ensemble, join
from raykeeper.commands.declarations.options import DAY_S, Address, RequestTimeout
from raykeeper.commands.output import AsJson, make_console
from raykeeper.commands.shell_usage import USAGE as SHELL_USAGE

out = make_console()
err = make_console(stderr=True)

_POLL_S = 0.2


def _complete_shell(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete commands and ensembles: a path would need a session; the prompt has one."""
    if ctx.params.get("command"):
        return complete_place(incomplete)
    return [name for name in SHELL_USAGE if name.startswith(incomplete)]


def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{', '.join(SHELL_USAGE)}. A PATH may be ENSEMBLE/PATH.",
            autocompletion=_complete_shell,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", "-n", help="Ensemble.", autocompletion=complete_name),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, max=DAY_S, help="How long a command may take.")
    ] = 10.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Look at znodes and change them: one COMMAND, or a prompt."""
    from raykeeper.client import ClientState
    from raykeeper.commands.shell import Shell, ShellUsageError, split_place
    from raykeeper.commands.shell_completion import install_completion

    if as_json and not command:
        raise ShellUsageError("--json needs a COMMAND: `raykeeper shell --json get /x`")
    named = split_place(command)[0] if command else ""
    join(address)
    ensemble = find_ensemble(name or named or None)
    with ensemble.connect(timeout_s=timeout_s) as client:
        prompt = Shell(client, out, ensemble.name, as_json=as_json)
        try:
            if not command:
                install_completion(client)
                prompt.interact(lambda: input(f"{ensemble.name}> "))
                return
            prompt.run(command)
            while command[0] == "watch" and client.state != ClientState.LOST:
                time.sleep(_POLL_S)
        finally:
            prompt.leave()
        if command[0] == "create" and any("e" in w for w in command[1:] if w.startswith("-")):
            err.print("the session ends with this command, and the ephemeral znode with it")


def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="What: ENSEMBLE/PATH, or /PATH.", autocompletion=complete_place
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST", help="Where to: ENSEMBLE/PATH, or /PATH.", autocompletion=complete_place
        ),
    ],
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Copy into an existing DST, or complete a copy; deletes nothing."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read both, and say what would be done.")
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(help='File with lines such as "scrypt user:password", proven to both.'),
    ] = None,
    timeout_s: RequestTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Copy a subtree into another place or ensemble: values, ACLs, TTLs, no ephemeral znodes."""
    from raykeeper.client.session_options import split_ensemble_name
    from raykeeper.commands.subtree_copy import copy_and_tell, read_credentials

    (source_name, source_path), (target_name, target_path) = map(
        split_ensemble_name, (source, target)
    )
    proofs = [] if credentials is None else read_credentials(credentials)
    join(address)
    from_, to = find_ensemble(source_name or None), find_ensemble(target_name or None)
    with from_.connect(timeout_s=timeout_s) as reader, to.connect(timeout_s=timeout_s) as writer:
        for client in (reader, writer):
            for scheme, credential in proofs:
                client.add_auth(scheme, credential)
        places = ((reader, source_path or "/"), (writer, target_path or "/"))
        copy_and_tell(*places, out, err, merge=merge, dry_run=dry_run, as_json=as_json)
