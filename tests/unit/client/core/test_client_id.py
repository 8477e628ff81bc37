"""ClientId: a pair, as kazoo's `client_id`."""

from raykeeper.client.core.client_id import ClientId
from raykeeper.znodes.requests import SessionId


def test_it_is_a_pair() -> None:
    assert ClientId(SessionId(1), b"secret") == (1, b"secret")
