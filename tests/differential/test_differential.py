"""Random programs have the same answers from ZooKeeper and here, and would find what differs."""

from collections.abc import Iterator
from functools import cache

import pytest

from tests.differential.comparison import compare, compared
from tests.differential.execution import execute
from tests.differential.planted_faults import PLANTED_FAULTS
from tests.differential.programs import draw
from tests.differential.targets import PortTarget, PureTarget
from tests.differential.transcripts import Line, lines_of
from tests.differential.zookeeper_server import jars_folder, missing, zookeeper_server
from tests.simulation.mutations.mutation import Mutation

SEEDS = (*range(1, 31), 1006)
"""In the last one, a watched znode is deleted and created again while its session is away."""
WITHIN = 150
"""Seeds that a planted difference may need."""


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[str]:
    jars = jars_folder()
    if reason := missing(jars):
        pytest.skip(reason)
    with zookeeper_server(jars) as address:
        yield address


@pytest.mark.parametrize("servers", [1, 3])
def test_a_program_has_the_answers_of_zookeeper(zookeeper: str, servers: int) -> None:
    for seed in SEEDS:
        comparison = compare(draw(seed), PortTarget(zookeeper), PureTarget(servers))
        assert comparison.difference is None, comparison.report()


@cache
def right_lines(seed: int) -> list[Line]:
    program = draw(seed)
    return lines_of(program, execute(program, PureTarget()))


@pytest.mark.parametrize("name", PLANTED_FAULTS)
def test_a_planted_difference_is_found(name: str) -> None:
    mutation = Mutation(name, name, PLANTED_FAULTS[name])

    def is_found(seed: int) -> bool:
        program, right = draw(seed), right_lines(seed)
        with mutation.applied():
            wrong = lines_of(program, execute(program, PureTarget()))
        return compared(program, right, wrong).difference is not None

    assert any(map(is_found, range(1, WITHIN + 1)))
