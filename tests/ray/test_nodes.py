"""Several Ray nodes: servers spread, keep to their disks, and return with their node."""

from tests.ray.programs import QUICK_HEALTH_CHECKS, run_module


def test_an_ensemble_spreads_over_three_nodes() -> None:
    done = run_module("tests.ray.three_nodes", QUICK_HEALTH_CHECKS, timeout_s=200)
    assert done.stdout.endswith("all is well\n")
