"""Types of a module that every process imports, for tests/recipes/driver_types.py."""

from msgspec import Struct


class ImportedLimits(Struct, rename="camel"):
    """What arrives whole."""

    rate_max: int = 1


class ImportedBase(Struct):
    """What others add to."""

    base: int = 1
