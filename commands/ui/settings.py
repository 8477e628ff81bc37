"""The settings of the page: the options of `raykeeper ui`."""

from msgspec import Struct


class PageSettings(Struct, frozen=True, kw_only=True):
    """What a user of the command may set."""

    may_edit: bool = False
    """Whether viewers may change znodes."""
    interval_s: float = 2.0
    """Between two looks at the load."""
    looks_kept: int = 300
    """Looks for the plots."""
    viewers_max: int = 20
    """Sessions of viewers, and open pages."""
    idle_s: float = 900.0
    """After how long without a request the session of a viewer is closed."""
    backups: tuple[str, ...] = ()
    """Paths and URLs of backup files, folders of them, or archives, to be shown."""
    backup_files_max: int = 200
    """How many files of each place are read."""
    backup_timeout_s: float = 10.0
    """How long a place may take."""
