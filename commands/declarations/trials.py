"""Try Raykeeper in an ensemble that is made for it: `demo`, `chaos`."""

import random
from pathlib import Path
from typing import Annotated

import typer

from raykeeper.commands.exit_codes import FAILED
from raykeeper.commands.output import AsJson, make_console, print_document

out = make_console()
err = make_console(stderr=True)


def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--input", help="Folder with text files; else Raykeeper's own documents."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count words with six workers while a coordinator and a leader are killed."""
    from raykeeper.commands.demo.run import run_demo
    from raykeeper.commands.reports import counts_document, show_counts

    report = run_demo(folder, err if as_json else out)
    if as_json:
        print_document(counts_document(report))
    else:
        show_counts(out, report)
    if report.wrong_files:
        raise typer.Exit(FAILED)


def chaos(
    minutes: Annotated[float, typer.Option(help="How long faults are injected.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Decides the faults; else one is drawn.")] = None,
    faults: Annotated[
        str, typer.Option(help="Which: all, kill, freeze, orderly, or kinds, by commas.")
    ] = "all",
    judge: Annotated[
        Path | None,
        typer.Option(help="Run nothing: judge the records that a run kept in this folder."),
    ] = None,
    lose_nodes: Annotated[bool, typer.Option(help="Lose two of five nodes instead.")] = False,
    tree_mb: Annotated[int, typer.Option(help="With --lose-nodes: the size of the tree.")] = 10,
    heal_after_s: Annotated[float, typer.Option(help="With --lose-nodes: the setting.")] = 5.0,
    upgrade_from: Annotated[
        Path | None,
        typer.Option(help="Upgrade servers instead, from the earlier package in this folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kill, freeze and operate a throw-away ensemble under load, and judge the answers.

    Exits with 1 when an acknowledged write was lost, a promise broken or a goal missed. If all
    faults are orderly, such as transfers and restarts in turn, no client may see an error either.
    """
    if sum((judge is not None, lose_nodes, upgrade_from is not None)) > 1:
        raise typer.BadParameter("--judge, --lose-nodes and --upgrade-from: choose one")
    seed = random.randrange(1_000_000) if seed is None else seed
    if lose_nodes:
        _lose_nodes(tree_mb, heal_after_s, seed, as_json)
        return
    if upgrade_from is not None:
        _upgrade(upgrade_from, seed, as_json)
        return
    from raykeeper.chaos.history_file import judge_records
    from raykeeper.chaos.run import check_settings, run_chaos
    from raykeeper.commands.reports import show_verdict, verdict_document

    if judge is not None:
        judgement = judge_records(judge)
        document = verdict_document(judgement, records=judge)
        circumstances = {"records": str(judge)}
    else:
        settings = check_settings(minutes, seed, faults)
        report = run_chaos(settings, err if as_json else out)
        judgement = report.history
        document = verdict_document(judgement, seed=settings.seed, records=report.records)
        circumstances = {"seed": str(settings.seed)}
    if as_json:
        print_document(document)
    else:
        show_verdict(out, judgement, circumstances)
    if not judgement.is_clean:
        raise typer.Exit(FAILED)


def _lose_nodes(tree_mb: int, heal_after_s: float, seed: int, as_json: bool) -> None:
    from raykeeper.chaos.lose_nodes import check_loss_settings, run_losses
    from raykeeper.commands.reports import losses_document, show_losses

    settings = check_loss_settings(tree_mb, heal_after_s, seed)
    report = run_losses(settings, err if as_json else out)
    if as_json:
        print_document(losses_document(report, settings))
    else:
        show_losses(out, report, settings)
    if not report.is_met:
        raise typer.Exit(FAILED)


def _upgrade(earlier: Path, seed: int, as_json: bool) -> None:
    from raykeeper.chaos.upgrade import check_upgrade_settings, run_upgrade
    from raykeeper.commands.reports import show_upgrade, upgrade_document

    settings = check_upgrade_settings(earlier, seed)
    report = run_upgrade(settings, err if as_json else out)
    if as_json:
        print_document(upgrade_document(report, seed))
    else:
        show_upgrade(out, report, seed)
    if not report.is_met:
        raise typer.Exit(FAILED)
