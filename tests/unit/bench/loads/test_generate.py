"""The load generator in Python: each kind of task has what performs it."""

from typing import get_args

from raykeeper.bench.loads.generate import _ONCE, _REPEATED
from raykeeper.bench.loads.task import REPEATED, Kind


def test_each_kind_of_task_is_performed() -> None:
    assert sorted(_REPEATED) == sorted(REPEATED)
    assert sorted([*_ONCE, *_REPEATED]) == sorted(get_args(Kind))
