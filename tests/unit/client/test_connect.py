"""connect: by name, without starting Ray here; `tests/ray` tests it with Ray."""

import pickle

import pytest

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.connect import connect
from raykeeper.client.errors import EnsembleNotFoundError, WrongContextError


async def test_connect_in_an_event_loop_names_the_other_client() -> None:
    with pytest.raises(WrongContextError, match=r"AsyncClient\.connect"):
        connect("coord")


def test_errors_survive_their_way_out_of_a_task() -> None:
    for error in (EnsembleNotFoundError("no"), WrongContextError("no")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))


def test_the_module_offers_both_clients() -> None:
    from raykeeper import client

    assert client.connect is connect
    assert client.AsyncClient is AsyncClient
