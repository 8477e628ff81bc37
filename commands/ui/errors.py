"""What keeps `raykeeper ui` from serving."""

from raykeeper.zab.errors import RayKeeperError


class PageError(RayKeeperError):
    """Raised when the page cannot be served: the port is taken, or not allowed.

    The caller should do what the message says.
    """
