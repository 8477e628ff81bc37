"""The public types of the core compare with plain values, as in kazoo."""

from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.znodes.requests import SessionId


def test_states_are_their_names() -> None:
    assert [str(state) for state in ClientState] == [
        *("CONNECTED", "CONNECTED_READ_ONLY", "SUSPENDED", "LOST")
    ]
    assert ClientState.LOST == "LOST"


def test_a_client_id_is_a_pair() -> None:
    assert ClientId(SessionId(1), b"secret") == (1, b"secret")
    assert repr(ClientId(SessionId(1), b"secret")) == "ClientId(session_id=1, password=...)"
