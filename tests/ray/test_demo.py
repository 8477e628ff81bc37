"""The main job, as a user runs it: right counts in spite of two kills, within a minute."""

import re
import time
from pathlib import Path

from tests.ray.programs import ROOT, run_raykeeper


def test_the_job_ends_with_the_right_counts(tmp_path: Path) -> None:
    """It counts the project's own documents, wherever it runs, and leaves nothing there."""
    (tmp_path / "mine.txt").write_text("of the user")
    began = time.monotonic()
    done = run_raykeeper("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < 60
    served = r"in a browser meanwhile: (RAY_AUTH_MODE=token )?\S+ ui demo --address \S+:\d+$"
    assert re.search(served, done.stdout, re.MULTILINE)
    coordinators = re.findall(r"(worker-\d) coordinates, epoch (\d)", done.stdout)
    assert [epoch for _, epoch in coordinators] == ["1", "2"], done.stdout
    assert coordinators[0][0] != coordinators[1][0]
    killed = re.search(r"killed (worker-\d), .* and server \d, the leader", done.stdout)
    assert killed is not None
    assert killed.group(1) == coordinators[0][0]
    counted = re.findall(r"^(\S+) +\d+ +\d+ +the same$", done.stdout, re.MULTILINE)
    folder = ROOT / "docs"
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))
    assert counted == pages
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert "counted right" in done.stdout


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    done = run_raykeeper("demo", "--input", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"error: no text (.md, .rst, .txt) in {tmp_path}\n"
