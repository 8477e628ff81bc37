"""The arguments and options that several commands have."""

from typing import Annotated, Final

import typer

from raykeeper.commands.completion import complete_name, complete_place

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Ray cluster; else RAY_ADDRESS, the head of `raykeeper up`, or the last one started.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Show so many at most.")]
DAY_S: Final = 86_400.0
"""The longest time that an option takes: an infinite one is none that can be waited for."""
RequestTimeout = Annotated[
    float,
    typer.Option("--timeout-s", min=0.1, max=DAY_S, help="How long one request may take."),
]
ClientsPerS = Annotated[
    int,
    typer.Option("--clients-per-s", min=1, max=100_000, help="Clients that are moved in a second."),
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience-s",
        min=0.0,
        max=DAY_S,
        help="How long a client of ZooKeeper that is never idle may stay.",
    ),
]
ServerWait = Annotated[
    float,
    typer.Option(
        "--wait-s",
        min=1.0,
        max=DAY_S,
        help="How long to wait for a server that restarts, or for a majority.",
    ),
]
StartTimeout = Annotated[
    float,
    typer.Option(
        "--timeout-s", min=1.0, max=DAY_S, help="How long the servers may take until one leads."
    ),
]
WalkTimeout = Annotated[
    float,
    typer.Option("--timeout-s", min=0.1, max=DAY_S, help="How long a server may walk its tree."),
]
Place = Annotated[
    str | None,
    typer.Argument(
        metavar="PLACE",
        help="ENSEMBLE, ENSEMBLE/PATH, or /PATH in the only one.",
        autocompletion=complete_place,
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(
        help="Ensemble; may be left out when only one runs.", autocompletion=complete_name
    ),
]
NameOrFile = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME|FILE",
        help="Ensemble, or its settings file.",
        autocompletion=complete_name,
    ),
]
