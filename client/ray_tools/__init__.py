"""What Ray users build around named actors, built on an ensemble instead.

A tool is named by an ensemble and a path, so it may be made anywhere and passed to any task or
actor; each process that uses it has a session of its own, opened at the first use (tool.py).

rate_limit.py           so many per second over all processes
"""

from raykeeper.client.ray_tools.rate_limit import RateLimit

__all__ = ["RateLimit"]
