"""The doctor finds nothing on a healthy ensemble, and what is planted on a sick one."""

from pathlib import Path

from tests.ray.programs import run_module


def test_a_healthy_ensemble_has_no_finding_and_each_planted_fault_has_one(tmp_path: Path) -> None:
    settings = {
        "RAY_worker_niceness": "0",
        "RAY_gcs_storage": "rocksdb",
        "RAY_gcs_storage_path": str(tmp_path / "gcs"),
    }
    done = run_module("tests.ray.faulty_nodes", settings, timeout_s=250)
    assert done.stdout.endswith("all is well\n")
