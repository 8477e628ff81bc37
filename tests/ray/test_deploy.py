"""The files of deploy/, tried as far as one machine allows: labelled nodes, jobs, restarts."""

from tests.ray.programs import QUICK_HEALTH_CHECKS, run_module


def test_an_ensemble_runs_on_the_slots_of_the_deployment() -> None:
    settings = {**QUICK_HEALTH_CHECKS, "RAY_gcs_storage": "rocksdb"}
    done = run_module("tests.ray.deployed", settings)
    assert done.stdout.endswith("all is well\n")
