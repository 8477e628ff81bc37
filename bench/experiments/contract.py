"""The definition of an experiment: its sizes, the function that measures, the plot of its rows."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct

from raykeeper.bench.experiment_run import ExperimentRun
from raykeeper.bench.measures import WarmUpBounds
from raykeeper.bench.results import Row

Sizes = TypeVar("Sizes", bound=Struct)

Count = Annotated[int, Meta(ge=1, le=100_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Ensembles = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=255)], ...],
    Meta(min_length=1, description="servers that vote, of each ensemble"),
]
ValueBytes = Annotated[Count, Meta(description="size of values")]
Sessions = Annotated[Count, Meta(description="sessions")]
Outstanding = Annotated[Count, Meta(description="requests of each under way")]
Processes = Annotated[
    Count, Meta(description="processes of clients in Python; one has all those in Java")
]


class WarmedSizes(Struct, frozen=True, kw_only=True):
    """The sizes of an experiment whose load first warms each system.

    A JVM compiles what it runs in its first seconds; every system gets the same.
    """

    warm_least_s: Annotated[
        Seconds, Meta(description="the load warms each system for at least so long")
    ] = 10.0
    warm_most_s: Annotated[
        Seconds, Meta(description="and until its rate stands still, but for at most so long")
    ] = 60.0

    @property
    def warm_up_bounds(self) -> WarmUpBounds:
        """Return for how long the load warms a system."""
        return WarmUpBounds(self.warm_least_s, self.warm_most_s)


class Experiment(Struct, Generic[Sizes], frozen=True, kw_only=True):
    """One command of `raykeeper bench`."""

    name: str
    title: str
    sizes: type[Sizes]
    """The options; their defaults are the full size. A `Meta` describes each field."""
    quick: Sizes
    """A size that takes seconds, to see that everything works. Its numbers are meaningless."""
    run: Callable[[ExperimentRun, Sizes], Iterable[Row]]
    plot: Callable[[Path, Sequence[Row]], None]
    by: tuple[str, ...]
    """The columns in which two rows must agree to be compared."""
    values: tuple[str, ...]
    """The columns that are compared."""
    is_less_better: bool = False
    is_alone: bool = False
    """It starts no system, but measures a part of Raykeeper in isolation."""


AnyExperiment = Experiment[Any]
