"""Transfers of the lead and drains under all faults: fixed seeds, and that a seed decides all."""

from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.transfers.plans import TRANSFER

SEEDS = 40  # some twenty seconds of one core


def test_transfers_pass_their_seeds() -> None:
    seen = run_seeds(TRANSFER, SEEDS)
    # Not all is quiet.
    for name, at_least in (
        *(("transfer", 50), ("transfer.done", 50), ("transfer.not_done", 20)),
        *(("drain", 50), ("drain.done", 50)),
    ):
        assert seen[name] > at_least, (name, seen)


def test_a_seed_decides_everything() -> None:
    assert_seed_decides(TRANSFER)
