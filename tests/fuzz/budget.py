"""How much a fuzz test may try, and what one example may take: time, memory, nothing else.

`make test` runs a fixed set of examples, the same each time. `FUZZ_FACTOR`, which
`python -m tests.fuzz` sets, multiplies them and draws new ones.
"""

import os
import resource
import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from hypothesis import HealthCheck, settings

FACTOR: Final = int(os.environ.get("FUZZ_FACTOR", "0"))
EXAMPLE_S: Final = 5.0
BYTES_MAX: Final = 4 << 20
"""What decoding may allocate, however large the lengths that its input claims."""
BYTES_PER_BYTE: Final = 400
"""What it may allocate for each byte it was really given."""
_PAGE: Final = resource.getpagesize()
_ROOM: Final = 2 << 30


def examples(count: int) -> settings:
    """Settings of a test that tries `count` examples in `make test`."""
    return settings(
        max_examples=count * max(FACTOR, 1),
        deadline=None,
        derandomize=FACTOR == 0,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def bounded(size: int, seconds: float = EXAMPLE_S) -> Iterator[None]:
    """Refuse a hang, and an allocation out of proportion to an input of `size` bytes."""
    with _limited_time(seconds), _limited_memory():
        was_tracing = tracemalloc.is_tracing()
        if not was_tracing:
            tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        try:
            yield
        finally:
            peak = tracemalloc.get_traced_memory()[1] - before
            if not was_tracing:
                tracemalloc.stop()
    assert peak < BYTES_MAX + BYTES_PER_BYTE * size, f"{peak:,} bytes for an input of {size}"


@contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    def too_long(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {seconds} s")

    # The time of this process, so that a busy machine is no hang.
    old_handler = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old_handler)


@contextmanager
def _limited_memory() -> Iterator[None]:
    """A hard bound, for what would fill the machine before anybody could measure it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    resource.setrlimit(resource.RLIMIT_AS, (mapped + _ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
