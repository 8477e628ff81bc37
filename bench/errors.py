"""The error of a failed measurement."""

from raykeeper.zab.errors import RayKeeperError


class BenchError(RayKeeperError):
    """Raised when a measured system or a load generator ends or does not answer.

    The message holds its last output. Every started process was stopped. The caller should read
    the message; the numbers of the experiment so far are lost.
    """
