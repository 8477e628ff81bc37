"""Connection: its lifecycle has exactly the transitions of the table."""

from itertools import product

import pytest

from raykeeper.server.connection import TRANSITIONS, Connection, Phase
from tests.harness.pure_servers import Caller, PureServer


@pytest.mark.parametrize(("before", "after"), list(product(Phase, Phase)))
def test_only_the_transitions_of_the_table_are_possible(before: Phase, after: Phase) -> None:
    connection = Connection(1, Caller(PureServer(), 1).request())
    connection.phase = before
    if after in TRANSITIONS[before]:
        connection.enter(after)
        assert connection.phase is after
    else:
        with pytest.raises(AssertionError):
            connection.enter(after)


def test_a_closed_connection_stays_closed() -> None:
    assert TRANSITIONS[Phase.CLOSED] == set()
