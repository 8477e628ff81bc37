"""Compare Raykeeper with ZooKeeper by random programs.

    python -m tests.differential --seeds 1000 --from 1
    python -m tests.differential --seed 17
    python -m tests.differential --seeds 1000 --servers 3      pure servers of one ensemble
    python -m tests.differential --seeds 1000 --address 127.0.0.1:2181

Exit codes: 0 all programs had equal answers; 1 one had not; 2 wrong usage.
"""

from collections import Counter
from typing import Annotated

import typer

from tests.differential.comparison import Comparison, compare, minimize
from tests.differential.programs import draw
from tests.differential.targets import PortTarget, PureTarget, Target
from tests.differential.zookeeper_server import jars_folder, missing, zookeeper_server


def main(
    seed: Annotated[int | None, typer.Option(help="Only this seed, with its transcript.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    first: Annotated[int, typer.Option("--from", help="The first seed.")] = 1,
    servers: Annotated[int, typer.Option(min=1, help="Pure servers of one ensemble.")] = 1,
    address: Annotated[str, typer.Option(help="A port of Raykeeper instead, host:port.")] = "",
    zookeeper: Annotated[str, typer.Option(help="A ZooKeeper that runs, host:port.")] = "",
    failures: Annotated[int, typer.Option(min=1, help="Stop after so many.")] = 5,
) -> None:
    """Run programs against both, and print each that differs, made smaller."""

    def found() -> Target:
        return PortTarget(address) if address else PureTarget(servers)

    def run(where: str) -> None:
        expected = PortTarget(where)
        if seed is not None:
            comparison = compare(draw(seed), expected, found())
            for line in comparison.left:
                typer.echo(f"  {line.step:3} {line.session} {line.text}")
            _show(comparison)
            raise typer.Exit(int(comparison.difference is not None))
        failed = 0
        used: Counter[str] = Counter()
        for each in range(first, first + seeds):
            comparison = compare(draw(each), expected, found())
            used.update(known.reason for known in comparison.known)
            if comparison.difference is not None:
                _show(minimize(comparison, expected, found))
                failed += 1
                if failed == failures:
                    break
        for reason, count in used.items():
            typer.echo(f"known, {count} times: {reason}")
        typer.echo(f"{each - first + 1} programs, {failed} with a difference")
        raise typer.Exit(int(failed > 0))

    if zookeeper:
        run(zookeeper)
    elif reason := missing(jars := jars_folder()):
        raise typer.BadParameter(reason)
    else:
        with zookeeper_server(jars) as where:
            run(where)


def _show(comparison: Comparison) -> None:
    typer.echo(comparison.report())


if __name__ == "__main__":
    typer.run(main)
