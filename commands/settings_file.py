"""The settings file of `raykeeper init`: every setting, with its default and its meaning.

Its text is ray-config.yaml at the top of the repository, which the package contains too.
"""

from importlib.resources import files
from pathlib import Path

from raykeeper.zab.errors import RayKeeperError


class InitError(RayKeeperError):
    """Raised when `raykeeper init` cannot write its file, or would overwrite an existing one.

    Nothing was changed. The caller should name another path, or use `--force`.
    """


def settings_text() -> str:
    """Return the text of a settings file with all defaults."""
    return files("raykeeper").joinpath("ray-config.yaml").read_text(encoding="utf-8")


def write_settings(file: Path, *, overwrites: bool) -> None:
    """Write that text to `file`.

    Raises:
        InitError: the file exists and must not be overwritten, or cannot be written.
    """
    try:
        with file.open("w" if overwrites else "x", encoding="utf-8") as stream:
            stream.write(settings_text())
    except FileExistsError:
        raise InitError(f"{file} exists; --force overwrites it") from None
    except OSError as error:
        raise InitError(f"cannot write {file}: {error.strerror}") from error
