"""Rendezvous: ports that are bound before they are published. In actors: tests/ray."""

import pickle
import socket
from typing import Any

import pytest

from raykeeper.client.errors import BadArgumentsError, InvalidValueError, WaitTimeoutError
from raykeeper.client.ray_tools import Address, Rendezvous
from raykeeper.client.ray_tools.address_rendezvous import RendezvousResult, listen
from raykeeper.client.recipes.primitives import get_children
from tests.harness.recipe_stage import RecipeStage

PATH = "/train/rendezvous"


def test_every_member_is_reachable_before_it_serves() -> None:
    stage = RecipeStage()
    members = [stage.member() for _ in range(2)]
    rendezvous = Rendezvous("coord", PATH, 2)
    brought = [listen("127.0.0.1", 0, data) for data in (b"a", b"b")]
    joins = [
        member.begin(rendezvous._on(member, address).join)
        for member, (_, address) in zip(members, brought, strict=True)
    ]
    all_met = [
        RendezvousResult(each.value, own) for each, (own, _) in zip(joins, brought, strict=True)
    ]
    assert all_met[0].addresses == all_met[1].addresses == [address for _, address in brought]
    for met in all_met:
        own = met.addresses[met.rank]
        assert met.socket.getsockname() == (own.host, own.port)
        with socket.create_connection((own.host, own.port), 5):
            pass
    with all_met[0]:
        pass
    assert all_met[0].socket.fileno() == -1
    stage.rest()
    assert all_met[1].broken.is_set()
    all_met[1].socket.close()


def test_a_member_without_an_address_is_an_error() -> None:
    stage = RecipeStage()
    member, outsider = stage.member(), stage.member()
    own, address = listen("127.0.0.1", 0)
    join = member.begin(Rendezvous("coord", PATH, 2)._on(member, address).join)
    outsider.begin(outsider.rendezvous(PATH, 2, b"hello").join)
    with own, pytest.raises(InvalidValueError, match="no address"):
        _ = RendezvousResult(join.value, own).addresses


def test_a_rendezvous_listens_at_the_given_host() -> None:
    own, address = listen("127.0.0.1", 0)
    with own, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", address.port)
    with pytest.raises(BadArgumentsError, match="data"):
        listen("127.0.0.1", 0, "text")  # type: ignore[arg-type]


def test_who_meets_nobody_stops_listening() -> None:
    member = RecipeStage().member()

    class Here(Rendezvous):
        def _get_client(self) -> Any:
            return member

    with Here("coord", PATH, 1).meet(host="127.0.0.1") as met:
        assert met.addresses == [Address("127.0.0.1", met.socket.getsockname()[1])]
        port = met.addresses[0].port
    assert member.do(get_children(PATH)) == []
    with pytest.raises(WaitTimeoutError):
        Here("coord", PATH, 2).meet(0, host="127.0.0.1", port=port)
    listen("127.0.0.1", port)[0].close()


@pytest.mark.parametrize("size", [0, 501, "4", True])
def test_a_size_that_is_not_a_number_is_refused(size: Any) -> None:
    with pytest.raises(BadArgumentsError, match="size"):
        Rendezvous("coord", PATH, size)


def test_a_rendezvous_pickles_as_its_settings() -> None:
    copy = pickle.loads(pickle.dumps(Rendezvous("coord", PATH, 4)))
    assert (copy.path, copy.size) == (PATH, 4)
