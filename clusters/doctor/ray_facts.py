"""What a node shows of how Ray runs there: its memory monitor, the storage of the GCS, the load.

Ray has no public way to ask for its settings. They are in the environment of its processes, which a
task inherits from the raylet, and in the words that its processes were started with. What cannot
be read is not known.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import psutil

MEMORY: Final = "memory"
REDIS: Final = "redis"
_MONITOR_PERIOD: Final = "RAY_memory_monitor_refresh_ms"
_MONITOR_THRESHOLD: Final = "RAY_memory_usage_threshold"
_USUAL_THRESHOLD: Final = "0.95"
_SESSION: Final = re.compile(r"session_[\d_-]+")
_CGROUP: Final = Path("/sys/fs/cgroup")


def memory_kill_percent(environment: Mapping[str, str]) -> int:
    """Return at how much memory in use Ray ends workers; 0 if it does not, or that is not known."""
    if environment.get(_MONITOR_PERIOD) == "0":
        return 0
    try:
        return round(100 * float(environment.get(_MONITOR_THRESHOLD, _USUAL_THRESHOLD)))
    except ValueError:
        return 0


def memory_percent(cgroup: Path = _CGROUP) -> int:
    """Return how much of the machine's memory, or of the container's if that is more, is in use.

    Args:
        cgroup: Where the control group of the container is (version 2).
    """
    of_machine = round(psutil.virtual_memory().percent)
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        given_back = _counter((cgroup / "memory.stat").read_text(), "inactive_file")
    except (OSError, ValueError):  # there is none, or its limit is "max"
        return of_machine
    return max(of_machine, 100 * max(0, used - given_back) // max(1, limit))


def load_percent() -> int:
    """Return the load of the last five minutes for each processor, in percent."""
    return round(100 * os.getloadavg()[1] / (os.cpu_count() or 1))


def gcs_storage() -> str:
    """Return where the GCS that runs on this node keeps its tables; "" if none is seen here."""
    raylet = psutil.Process(os.getppid())
    try:
        session = session_of(raylet.cmdline())
    except psutil.Error:
        return ""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if words and Path(words[0]).name == "gcs_server" and session_of(words) == session:
                return storage_of(words, process.environ())
        except psutil.Error:  # it has ended, or is another user's
            continue
    return ""


def session_of(words: Iterable[str]) -> str | None:
    """Return the session of Ray that a process was started in."""
    found = (_SESSION.search(word) for word in words)
    return next((match[0] for match in found if match), None)


def storage_of(words: Iterable[str], environment: Mapping[str, str]) -> str:
    """Return where a GCS keeps its tables: memory, redis, or what `gcs_storage` says."""
    given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    if given.get("redis_address") or environment.get("RAY_REDIS_ADDRESS"):
        return REDIS
    storage = environment.get("RAY_gcs_storage")
    if storage is None:
        try:
            storage = json.loads(base64.b64decode(given.get("config_list", ""))).get("gcs_storage")
        except (ValueError, AttributeError):
            storage = None
    return str(storage or MEMORY)


def _counter(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
