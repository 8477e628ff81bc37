"""The settings file of `raykeeper init`: every setting, with its default and what it does.

Its text is that of ray-config.yaml at the top of the repository, which the package holds too.
"""

from importlib.resources import files
from pathlib import Path

from raykeeper.zab.errors import RayKeeperError


class InitError(RayKeeperError):
    """Raised when `raykeeper init` cannot write, or would overwrite, what it is told to make.

    Nothing was changed. The caller should name another place, or say `--force`.
    """


def settings_text() -> str:
    """The text of a settings file with all defaults."""
    return files("raykeeper").joinpath("ray-config.yaml").read_text(encoding="utf-8")


def write_settings(file: Path, *, overwrites: bool) -> None:
    """Write that text to `file`.

    Raises:
        InitError: the file exists and is not to be overwritten, or it cannot be written.
    """
    try:
        with file.open("w" if overwrites else "x", encoding="utf-8") as stream:
            stream.write(settings_text())
    except FileExistsError:
        raise InitError(f"{file} exists; --force overwrites it") from None
    except OSError as error:
        raise InitError(f"cannot write {file}: {error.strerror}") from error
