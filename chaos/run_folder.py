"""The folder of a chaos run: its records and data, which are kept when something is wrong."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console


class RunFolder:
    """A folder that is removed at the end of a run that called `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = True

    def release(self) -> None:
        """Say that nobody needs the records: nothing is wrong."""
        self.is_kept = False


@contextmanager
def run_folder(prefix: str, console: Console) -> Iterator[RunFolder]:
    """Make a folder; tell at the end where it is if it is kept. Ctrl-C removes it."""
    folder = RunFolder(Path(tempfile.mkdtemp(prefix=prefix)))
    try:
        yield folder
    except KeyboardInterrupt:
        folder.release()
        raise
    finally:
        if folder.is_kept:
            console.print(f"records and data are kept in {folder.path}")
        else:
            shutil.rmtree(folder.path, ignore_errors=True)
