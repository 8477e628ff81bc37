"""The Ray that `up` has started: it ends, whatever its processes do."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from raykeeper.client.head_record import LocalHead
from raykeeper.clusters import local_head
from raykeeper.clusters.local_head import stop_head
from raykeeper.links.processes import started_at, this_pid_namespace


def test_what_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(local_head, "_STOP_TIMEOUT_S", 0.1)
    program = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); print(flush=True); s.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it ignores the signal from now on
            began = started_at(process.pid)
            assert began is not None
            stop_head(LocalHead(process.pid, began, this_pid_namespace(), "10.0.0.1:1"))
            assert not psutil.pid_exists(process.pid)
        finally:
            process.kill()
