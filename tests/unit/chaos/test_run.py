"""What `raykeeper chaos` accepts."""

import math

import pytest

from raykeeper.chaos.fault_plan import ALL_KINDS, OrderlyKind
from raykeeper.chaos.run import ChaosSettings, check_settings
from raykeeper.clusters.config import ConfigError


@pytest.mark.parametrize(("minutes", "seed"), [(0.1, 0), (10_000, 7)])
def test_valid_options_are_accepted(minutes: float, seed: int) -> None:
    assert check_settings(minutes, seed) == ChaosSettings(minutes, seed, ALL_KINDS)
    chosen = check_settings(minutes, seed, "transfer")
    assert chosen == ChaosSettings(minutes, seed, (OrderlyKind.TRANSFER,))


@pytest.mark.parametrize(
    ("minutes", "seed", "said"),
    [
        (0, 1, "--minutes must be above 0"),
        (-1, 1, "--minutes must be above 0"),
        (10_001, 1, "at most 10000, not 10001"),
        (math.nan, 1, "not nan"),
        (math.inf, 1, "not inf"),
        (1, -1, "--seed must not be negative"),
    ],
)
def test_invalid_options_are_refused(minutes: float, seed: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_settings(minutes, seed)
