"""The in-memory carrier beyond the contract: servers that come and go."""

import pytest

from raykeeper.links.contract import LinkUnreachable
from raykeeper.links.hello import client_hello
from tests.contract.link_carriers import ENSEMBLE, SERVER, Recorder, Station
from tests.harness.memory_links import MemoryNetwork


async def test_a_server_that_was_removed_is_unreachable_until_it_listens_again() -> None:
    network = MemoryNetwork()
    network.listen(Station())
    network.remove(SERVER)
    dialer = network.dialer(client_hello(ENSEMBLE))
    with pytest.raises(LinkUnreachable, match="server 1 does not listen"):
        await dialer.dial(SERVER, Recorder())
    network.listen(Station(incarnation=8))
    assert (await dialer.dial(SERVER, Recorder())).incarnation == 8


async def test_the_close_reason_of_a_cut_end_is_lost() -> None:
    network = MemoryNetwork(deadline_s=0.01)
    station = Station()
    network.listen(station)
    near = Recorder()
    link = await network.dialer(client_hello(ENSEMBLE)).dial(SERVER, near)
    network.cut_to_acceptors()
    link.send(b"lost")
    link.close("bye")
    assert await station.wait_closed(0) == "nothing was heard in time"
    assert near.reasons == []
