"""Packages that only some commands need, and that an installation may lack."""

from collections.abc import Iterator
from contextlib import contextmanager

from raykeeper.zab.errors import RayKeeperError


class MissingPackageError(RayKeeperError):
    """Raised when a command needs a package that is not installed.

    Nothing was done. The caller should install what the message says.
    """


@contextmanager
def needed_package(package: str, extra: str) -> Iterator[None]:
    """Import what needs `package` in the block; `extra` is that of ours which brings it.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        text = f"this command needs {package}: pip install 'raykeeper[{extra}]'"
        raise MissingPackageError(text) from None
