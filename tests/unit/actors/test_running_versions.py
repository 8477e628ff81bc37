"""The versions that a process has loaded."""

import platform

import ray

import raykeeper
from raykeeper.actors.running_versions import running_versions


def test_versions_are_told_by_name() -> None:
    assert running_versions() == {
        "raykeeper": raykeeper.__version__,
        "formats": "link 1, folder 3, epochs 3, log 2, snapshot 1",
        "Ray": ray.__version__,
        "Python": platform.python_version(),
    }
