"""The simulator as a command.

    python -m tests.simulation --seed 17                    one run: plan, trace, result
    python -m tests.simulation --plan build/simulation/seed-17.json
    python -m tests.simulation simulate --seeds 1000 --from 1
    python -m tests.simulation simulate --recipe all --seeds 100
    python -m tests.simulation --seed 17 --recipe lock
    python -m tests.simulation simulate --recipe keeper --seeds 1000
    python -m tests.simulation simulate --recipe jute --seeds 1000
    python -m tests.simulation simulate --recipe upgrade --seeds 1000

Exit codes: 0 all runs passed; 1 one failed; 2 wrong usage; 130 interrupted.
"""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import MsgspecError
from rich.console import Console

from tests.simulation.draw import draw_plan
from tests.simulation.jute_clients.plans import JUTE
from tests.simulation.keepers.plans import KEEPER
from tests.simulation.members.plans import MEMBERS
from tests.simulation.plan_file import read_plan
from tests.simulation.recipes.catalogue import SCENARIOS
from tests.simulation.replay import TAIL, Replay, replay
from tests.simulation.simulate import FOLDER, Options, cores, simulate
from tests.simulation.transfers.plans import TRANSFER
from tests.simulation.upgrades.plans import UPGRADE

WORLDS = (*SCENARIOS, KEEPER, JUTE, UPGRADE, TRANSFER, MEMBERS)

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback(invoke_without_command=True)
def one(
    context: typer.Context,
    seed: Annotated[int | None, typer.Option(help="Replay this seed.")] = None,
    plan: Annotated[Path | None, typer.Option(help="Replay a plan kept as JSON.")] = None,
    recipe: Annotated[str, typer.Option(help="What the members do at this seed.")] = "",
    trace: Annotated[str, typer.Option(help="Lines in full at the end, or all.")] = str(TAIL),
    minimize: Annotated[bool, typer.Option(help="Make a failing plan smaller first.")] = True,
) -> None:
    """Replay one run, or `simulate` many."""
    if context.invoked_subcommand is not None:
        return
    if (seed is None) == (plan is None):
        raise typer.BadParameter("give a --seed or a --plan")
    if trace != "all" and not trace.isdecimal():
        raise typer.BadParameter("--trace takes a number of lines, or all")
    try:
        drawn = (
            draw_plan(seed, _checked(recipe))
            if seed is not None
            else read_plan(plan or Path()).plan
        )
    except (OSError, MsgspecError) as error:
        raise typer.BadParameter(f"{plan}: {error}") from error
    tail = None if trace == "all" else int(trace)
    outcome = replay(drawn, Replay(tail, FOLDER if minimize else None), Console())
    raise typer.Exit(int(outcome.failure is not None))


@app.command("simulate")
def many(
    seeds: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    first: Annotated[int, typer.Option("--from", help="The first seed.")] = 1,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for all cores.")] = 0,
    failures: Annotated[int, typer.Option(min=1, help="Stop after so many failed seeds.")] = 10,
    minimize: Annotated[bool, typer.Option(help="Make failing plans smaller.")] = True,
    recipe: Annotated[str, typer.Option(help="Members of this recipe, or of all.")] = "",
) -> None:
    """Run many seeds on all cores, and print a summary."""
    code = 0
    for name in WORLDS if recipe == "all" else [_checked(recipe)]:
        options = Options(
            first, seeds, jobs or cores(), failures, is_minimizing=minimize, recipe=name
        )
        code = max(code, simulate(options, Console()))
    raise typer.Exit(code)


def _checked(recipe: str) -> str:
    if recipe and recipe not in WORLDS:
        raise typer.BadParameter(f"--recipe takes one of {', '.join(WORLDS)}")
    return recipe


if __name__ == "__main__":
    app(prog_name="python -m tests.simulation")
