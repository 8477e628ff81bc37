"""Raykeeper: ZooKeeper's coordination kernel for Ray.

This folder holds what the package itself has: its version, and the mark that its types are meant
for users (`py.typed`). Its subpackages are the folders beside it: `raykeeper.client` is client/,
`raykeeper.clusters` is clusters/, and so on (pyproject.toml).
"""

from typing import Final

__version__: Final = "0.1.0"

__all__ = ["__version__"]
