"""What keeps `raykeeper ui` from serving."""

from raykeeper.zab.errors import RayKeeperError


class PageError(RayKeeperError):
    """Raised when the page cannot be served: a package is missing, or the port is taken.

    The caller should do what the message says.
    """
