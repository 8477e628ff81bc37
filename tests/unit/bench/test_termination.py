"""A SIGTERM to an experiment ends its processes, also those that would not end, and its folder."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil

from raykeeper.bench.termination import EXIT_CODE, is_alive
from tests.ray.programs import ROOT

_STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'],"
    " start_new_session=True); print(child.pid, flush=True); time.sleep(3600)"
)
_EXPERIMENT = f"""
import signal, subprocess, sys
from io import StringIO
from pathlib import Path
from rich.console import Console
from raykeeper.bench.experiment_run import ExperimentRun
with ExperimentRun([], Console(file=StringIO()), Path(sys.argv[1])) as run:
    stubborn = subprocess.Popen([sys.executable, "-c", {_STUBBORN!r}], stdout=subprocess.PIPE)
    signal.signal(signal.SIGTERM, print)  # as Ray does
    print(stubborn.pid, stubborn.stdout.readline().decode().strip(), run.folder, flush=True)
    stubborn.wait()
"""


def test_all_processes_and_the_folder_of_an_experiment_are_gone(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _EXPERIMENT, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as experiment:
        assert experiment.stdout is not None
        *pids, folder = experiment.stdout.readline().split()
        others = [psutil.Process(int(pid)) for pid in pids]
        assert Path(folder).is_dir()
        experiment.send_signal(signal.SIGTERM)
        try:
            assert experiment.wait(60) == EXIT_CODE
        finally:
            experiment.kill()
    assert [each for each in others if is_alive(each)] == []
    assert list(tmp_path.iterdir()) == []
