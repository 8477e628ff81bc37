"""A call after `close` fails at once and says so, of both clients and of whatever they gave."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from raykeeper.client.errors import ClosedError, LostError, RayKeeperError
from tests.contract.blocking_calls import WAITING
from tests.contract.client_handles import Open, Room
from tests.contract.stream_room import StreamRoom
from tests.contract.test_clients import connect, opener

__all__ = ["connect", "opener"]

AT_ONCE_S = 5.0
"""Far less than any bound of a call, and more than a busy machine takes."""


class Limits(msgspec.Struct):
    rate: int = 1


@pytest.fixture(params=[Room, StreamRoom])
def room(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Servers, over either carrier."""
    room = request.param()
    yield room
    room.close()


OF_CLIENTS: dict[str, Callable[[Any], Any]] = {
    **{name: call for name, call in WAITING.items() if name not in ("close", "set_acls")},
    "commit": lambda client: client.transaction().commit(),
}
OF_RECIPES: dict[str, Callable[[Any], Any]] = {
    "lock": lambda client: client.lock("/x").acquire(),
    "lock with a bound": lambda client: client.lock("/x").acquire(timeout_s=60),
    "block": lambda client: client.lock("/x").__enter__(),
    "simple_lock": lambda client: client.simple_lock("/x").acquire(),
    "reentrant_lock": lambda client: client.reentrant_lock("/x").acquire(),
    "read": lambda client: client.read_write_lock("/x").read.acquire(),
    "multi_lock": lambda client: client.multi_lock(["/x", "/y"]).acquire(),
    "semaphore": lambda client: client.semaphore("/x", 2).acquire(),
    "lease": lambda client: client.lease("/x", 60).acquire(),
    "lead": lambda client: client.election("/x").lead(),
    "leader": lambda client: client.election("/x").leader(),
    "observe": lambda client: client.election("/x").observe(print),
    "leader_latch": lambda client: client.leader_latch("/x").start(),
    "join": lambda client: client.group("/x").join(),
    "members": lambda client: client.group("/x").members(),
    "watch": lambda client: client.group("/x").watch(print),
    "register": lambda client: client.services("/x").register("web", "a", 1),
    "rendezvous": lambda client: client.rendezvous("/x", 2).join(),
    "partitioner": lambda client: client.partitioner("/x", ["a"]).start(),
    "configuration": lambda client: client.configuration("/x", Limits).get(),
    "follow": lambda client: client.configuration("/x", Limits).follow(),
    "published": lambda client: client.published("/x").publish({"a": b"1"}),
    "tree_cache": lambda client: client.tree_cache("/x").start(),
    "counter": lambda client: client.counter("/x").increment(),
    "barrier": lambda client: client.barrier("/x").wait(),
    "double_barrier": lambda client: client.double_barrier("/x", 2).enter(),
    "put": lambda client: client.queue("/x").put(b"1"),
    "get": lambda client: client.queue("/x").get(),
    "lock_queue": lambda client: client.lock_queue("/x").get(),
    "two_phase_commit": lambda client: client.two_phase_commit("/x").decide(),
    "fenced_resource": lambda client: client.fenced_resource("/x").check(1),
}


@pytest.mark.parametrize("call", OF_CLIENTS.values(), ids=OF_CLIENTS.keys())
def test_a_request_of_a_closed_client_raises(connect: Open, call: Callable[[Any], Any]) -> None:
    client = connect()
    client.close()
    _fails_at_once(lambda: call(client), ClosedError, "the client was closed")


@pytest.mark.parametrize("call", OF_RECIPES.values(), ids=OF_RECIPES.keys())
def test_a_recipe_of_a_closed_client_raises(connect: Open, call: Callable[[Any], Any]) -> None:
    client = connect()
    client.close()
    _fails_at_once(lambda: call(client), ClosedError, "the client was closed")


def test_a_hold_is_lost_with_its_client(connect: Open) -> None:
    client = connect()
    held = client.lock("/x").acquire()
    lease = client.lease("/y", 60).acquire()
    membership = client.group("/z").join()
    client.close()
    for call in (held.release, lease.renew, lambda: membership.update(b"new"), membership.leave):
        _fails_at_once(call, LostError, "lost")
    held.lost.wait()


@pytest.mark.parametrize(
    "make",
    [lambda client: client.leader_latch("/x"), lambda client: client.partitioner("/x", ["a"])],
)
def test_a_closed_recipe_of_an_open_client_raises(
    connect: Open, make: Callable[[Any], Any]
) -> None:
    background = make(connect())
    background.start()
    background.wait()
    background.close()
    background.close()
    for call in (background.start, background.wait):
        _fails_at_once(call, ClosedError, " /x was closed")


def test_a_closed_cache_of_services_raises(connect: Open) -> None:
    services = connect().services("/x")
    assert services.names() == []
    services.close()
    for call in (services.names, services.malformed, lambda: services.pick("web")):
        _fails_at_once(call, ClosedError, "the cache of /x was closed")


def _fails_at_once(call: Callable[[], Any], kind: type[RayKeeperError], text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(kind, match=text) as raised:
        call()
    assert time.monotonic() - begun < AT_ONCE_S
    assert getattr(raised.value, "definite", True), "nothing was sent"
