"""The pinned earlier commit, which the tests of an upgrade run beside this checkout."""

import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PINNED: Final = "50e7bd5"
"""The last commit of feature level 1."""


def check_out_pinned(folder: Path) -> Path:
    """Check the pinned commit out of the history of this checkout; skip the test without it."""
    git = shutil.which("git")
    archive = None
    if git is not None:
        command = [git, "-C", str(ROOT), "archive", "--format=tar", PINNED]
        archive = subprocess.run(command, capture_output=True, check=False)
    if archive is None or archive.returncode:
        pytest.skip(f"commit {PINNED} is not in the history of this checkout")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder
