"""Find the first seed from 1 on that finds each mutation.

    python -m tests.simulation.mutations                    all of them, the table of TESTING.md
    python -m tests.simulation.mutations --bound 2000 --only Z5 --jobs 2
    python -m tests.simulation.mutations --keep             also for the tests: found.json

Exit codes: 0 all were found; 1 one survived.
"""

from typing import Annotated

import typer
from rich.console import Console

from tests.simulation.mutations.catalogue import all_mutations, seeds_found
from tests.simulation.mutations.measure import Measuring
from tests.simulation.simulate import cores


def main(
    bound: Annotated[int, typer.Option(min=1, help="Seeds for each at most.")] = 500,
    only: Annotated[str, typer.Option(help="Those with this in their names.")] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for all cores.")] = 0,
    missing: Annotated[bool, typer.Option(help="Those without a kept seed.")] = False,
    keep: Annotated[bool, typer.Option(help="Keep the seeds for the tests.")] = False,
) -> None:
    """Run mutations until each is found, and print at which seed."""
    console = Console()
    chosen = [mutation for mutation in all_mutations() if only in mutation.name]
    if missing:
        kept = seeds_found()
        chosen = [mutation for mutation in chosen if mutation.name not in kept]
    measuring = Measuring(chosen, bound)
    try:
        measuring.run(jobs or cores(), console)
    finally:
        if keep:
            measuring.keep()
    for row in measuring.table():
        console.print(row, markup=False, highlight=False, soft_wrap=True)
    survivors = [found for found in measuring.found.values() if found.seed is None]
    raise typer.Exit(int(bool(survivors)))


if __name__ == "__main__":
    typer.run(main)
