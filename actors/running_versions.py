"""What a process has loaded: the versions of the program, of its formats, of Ray and of Python."""

import platform
from collections.abc import Mapping
from functools import cache

import ray

from raykeeper import __version__
from raykeeper.actors.disk.epochs import EPOCHS_VERSION
from raykeeper.actors.disk.identity import FORMAT_VERSIONS
from raykeeper.actors.disk.log_format import LOG_VERSION
from raykeeper.actors.disk.snapshot_files import SNAPSHOT_VERSION
from raykeeper.links.hello import LINK_VERSION


@cache
def running_versions() -> Mapping[str, str]:
    """Return the versions by name, in the order in which they are shown."""
    formats = {
        "link": LINK_VERSION,
        "folder": max(FORMAT_VERSIONS.values()),
        "epochs": EPOCHS_VERSION,
        "log": LOG_VERSION,
        "snapshot": SNAPSHOT_VERSION,
    }
    return {
        "raykeeper": __version__,
        "formats": ", ".join(f"{name} {number}" for name, number in formats.items()),
        "Ray": ray.__version__,
        "Python": platform.python_version(),
    }
