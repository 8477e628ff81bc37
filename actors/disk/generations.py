"""Generations: folders that each hold one snapshot history and the log that goes with it.

Rule Z7: a snapshot received from the leader replaces snapshots and log at once. The new pair is
put together in `generation-<n+1>.tmp`, forced, and renamed. The generation with the highest number
counts, so a crash leaves the old state or the new one. The next start removes older generations
and those without a final name.
"""

from pathlib import Path

from raykeeper.actors.disk.file_operations import remove_tree, temp_path
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.snapshot_files import snapshot_zxids
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError

_PREFIX = "generation-"
_DIGITS_MAX = 18


class Generations:
    """The generations in a data folder, of which `number` counts."""

    def __init__(self, files: Filesystem, folder: Path, number: int) -> None:
        self._files = files
        self._folder = folder
        self.number = number

    @property
    def path(self) -> Path:
        """The folder of the generation that counts."""
        return self._folder / f"{_PREFIX}{self.number}"

    def prepare(self) -> Path:
        """Make the folder in which the next generation is put together.

        Raises:
            OSError: it cannot be made.
        """
        path = self._next_temp()
        self._files.make_folder(path)
        return path

    def publish(self) -> None:
        """Make the prepared generation, whose files are forced, the current one; remove the old.

        Raises:
            OSError: it failed; the old or the new generation counts.
        """
        old = self.path
        temp = self._next_temp()
        self._files.sync_folder(temp)
        self.number += 1
        self._files.rename(temp, self.path)
        self._files.sync_folder(self._folder)
        remove_tree(self._files, old)

    def _next_temp(self) -> Path:
        return temp_path(self._folder / f"{_PREFIX}{self.number + 1}")


def is_generation(name: str) -> bool:
    """Return whether a folder of that name is a generation, or was to become one."""
    return name.startswith(_PREFIX)


def holds_data(files: Filesystem, folder: Path) -> bool:
    """Return whether a generation contains anything.

    Raises:
        OSError: a folder cannot be read.
    """
    return any(files.names(folder / name) for name in files.names(folder) if is_generation(name))


def make_first_generation(files: Filesystem, folder: Path) -> None:
    """Make the empty generation of a folder that is being formatted. Durable on return.

    Raises:
        StorageError: the folder holds generations with data in them.
        OSError: it cannot be made.
    """
    numbers = _numbers(files, folder)
    path = Generations(files, folder, 1).path
    if numbers and (numbers != [1] or files.names(path)):
        raise StorageError(f"{folder} has no identity but holds a log or a snapshot")
    if not numbers:
        files.make_folder(path)
    files.sync_folder(folder)


def find_generation(files: Filesystem, folder: Path) -> tuple[Generations, list[str]]:
    """Find the generation that counts, and the names of the older ones. Changes nothing.

    Raises:
        CorruptRecord: there is none, though formatting made one, or it lacks its snapshot.
        OSError: a folder cannot be read.
    """
    numbers = _numbers(files, folder)
    if not numbers:
        raise CorruptRecord(f"the log and the snapshots in {folder} are gone")
    generations = Generations(files, folder, numbers[-1])
    if generations.number > 1 and not snapshot_zxids(files.names(generations.path)):
        # Only the first one starts without a snapshot, and the last snapshot is never pruned.
        raise CorruptRecord(f"the snapshot in {generations.path} is gone")
    return generations, [f"{_PREFIX}{number}" for number in numbers[:-1]]


def open_generations(files: Filesystem, folder: Path) -> tuple[Generations, list[str]]:
    """Find the generation that counts; remove the older ones and return their names, too.

    Raises:
        CorruptRecord: there is none, though formatting made one, or it lacks its snapshot.
            Nothing was removed.
        OSError: a folder cannot be read or removed.
    """
    generations, old = find_generation(files, folder)
    # Force the names again: one may remain from a force that failed (rule D5).
    files.sync_folder(folder)
    files.sync_folder(generations.path)
    for name in old:
        remove_tree(files, folder / name)
    return generations, old


def _numbers(files: Filesystem, folder: Path) -> list[int]:
    numbers = []
    for name in files.names(folder):
        if name.startswith(_PREFIX):
            number = name.removeprefix(_PREFIX)
            is_number = number.isdecimal() and len(number) <= _DIGITS_MAX
            if not is_number or str(int(number)) != number:
                raise CorruptRecord(f"{folder / name} is not the name of a generation")
            numbers.append(int(number))
    return sorted(numbers)
