"""Completion of ensembles in the user's shell, from what this machine knows without Ray.

To ask Ray at each press of the key would take more than a second. So the commands note the names of
ensembles that they find, in `~/.raykeeper/names.json`, and a name is offered that stands there or
has a folder below the default `data_dir`. An ensemble of that name need not run now.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NAMES_MAX: Final = 50
"""Names that are kept, the newest ones."""


def complete_name(incomplete: str) -> list[str]:
    """Return the known ensembles that begin so."""
    return [name for name in known_names() if name.startswith(incomplete)]


def complete_place(incomplete: str) -> list[str]:
    """Return the same for ENSEMBLE/PATH; a path is not completed."""
    return complete_name(incomplete)


def known_names() -> list[str]:
    """Return the names in the note, the newest first, and then those of folders."""
    names = [*_noted(), *_in_data_dir()]
    return list(dict.fromkeys(names))


def note_name(name: str) -> None:
    """Note that an ensemble of this name was found. Whatever goes wrong changes nothing."""
    _replace([name, *(each for each in _noted() if each != name)])


def forget_name(name: str) -> None:
    """Note that no ensemble of this name runs."""
    _replace([each for each in _noted() if each != name])


def _file() -> Path:
    """Return the file of the note.

    Raises:
        RuntimeError: the user has no home, as in a container whose user the system does not know.
    """
    return Path.home() / ".raykeeper" / "names.json"


def _noted() -> list[str]:
    try:
        noted = json.loads(_file().read_bytes())
    except (OSError, ValueError, RuntimeError):
        return []
    return [each for each in noted if isinstance(each, str)] if isinstance(noted, list) else []


def _in_data_dir() -> list[str]:
    try:
        return sorted(each.name for each in (_file().parent / "data").iterdir())
    except (OSError, RuntimeError):
        return []


def _replace(names: list[str]) -> None:
    kept = names[:NAMES_MAX]
    if kept == _noted():
        return
    try:
        file = _file()
    except RuntimeError:
        return
    temp = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(exist_ok=True)
        temp.write_text(json.dumps(kept))
        temp.replace(file)
    except OSError:
        with suppress(OSError):
            temp.unlink()
