"""States: they compare with their names, as in kazoo."""

from raykeeper.client.core.states import ClientState


def test_states_are_their_names() -> None:
    assert [str(state) for state in ClientState] == [
        *("CONNECTED", "CONNECTED_READ_ONLY", "SUSPENDED", "LOST")
    ]
    assert ClientState.LOST == "LOST"
