"""What can go wrong with a measurement."""

from raykeeper.zab.errors import RayKeeperError


class BenchError(RayKeeperError):
    """Raised when a measured system or a load generator ends or stays silent; says what it told.

    Whatever was started has been stopped. The caller should read the message; numbers of the
    experiment so far are lost.
    """
