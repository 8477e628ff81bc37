"""A program of a user's with Ray tasks and actors: sessions of calls, and every tool."""

from socket import socket
from typing import assert_type

import ray

from raykeeper.client import (
    AsyncClient,
    Awaited,
    Blocking,
    Client,
    Contender,
    Generation,
    Held,
    Leader,
    with_session,
)
from raykeeper.client.ray_tools import (
    Address,
    ConcurrencyLimit,
    ElectedActor,
    Gang,
    RateLimit,
    Rendezvous,
    RendezvousResult,
    Worker,
    WorkerGroup,
    WorkerMembership,
    WorkersChange,
)

LIMIT = ConcurrencyLimit("coord", "/limits/api", permits=4)
RATE = RateLimit("coord", "/limits/rate", per_second=100.0, burst=10)


@ray.remote
@with_session("coord")
def work(client: Client, shard: int) -> str:
    """A task: callers do not see the client."""
    with client.lock(f"/shards/{shard}") as held:
        return held.path


@with_session("coord", restart_on_loss=True, session_timeout_s=5.0)
async def serve(client: AsyncClient, name: str, count: int) -> bytes:
    """A loop that survives a lost session."""
    async with client.lock(name):
        return (await client.get(name))[0] * count


@with_session("coord", parameter="coord", read_only=True)
def keyword(path: str, *, coord: Client) -> int:
    """The client by name."""
    return coord.get_all_children_number(path)


class Service:
    """An actor's class."""

    @with_session("coord")
    def count(self, client: Client, path: str) -> int:
        """How many children there are."""
        return len(client.get_children(path))

    @with_session("coord")
    async def read(self, client: AsyncClient, path: str) -> bytes:
        """A value."""
        return (await client.get(path))[0]

    @LIMIT
    def limited(self, prompt: str) -> list[str]:
        """A call that has a permit."""
        return [prompt]


async def calls(service: Service) -> None:
    """What callers see."""
    assert_type(ray.get(work.remote(7)), str)
    assert_type(await serve("/x", count=3), bytes)
    assert_type(keyword("/x"), int)
    assert_type(service.count("/x"), int)
    assert_type(await service.read(path="/x"), bytes)
    assert_type(service.limited("a"), list[str])


@RATE
def asked(prompt: str, retries: int = 3) -> str:
    """A call that waits for its turn."""
    return prompt * retries


async def limits() -> None:
    """Rates and permits."""
    assert_type(asked("a", retries=2), str)
    RATE.take(2, timeout_s=3)
    await RATE.take_async(2)
    with RATE:
        pass
    async with RATE:
        pass
    with LIMIT as held:
        assert_type(held, Held[Blocking])
    async with LIMIT as awaited:
        assert_type(awaited, Held[Awaited])
        await awaited.lost.wait(1)
    assert_type(LIMIT.acquire(timeout_s=3), Held[Blocking])
    assert_type(await LIMIT.acquire_async(), Held[Awaited])
    assert_type(LIMIT.holders(), list[Contender])
    assert_type(await LIMIT.holders_async(), list[Contender])
    assert_type((LIMIT.ensemble, LIMIT.path), tuple[str, str])
    assert_type((LIMIT.permits, LIMIT.identifier), tuple[int, bytes | None])
    assert_type((RATE.per_second, RATE.burst), tuple[float, int])
    LIMIT.close()
    await LIMIT.aclose()


def train(meeting: Generation[Blocking], steps: int) -> float:
    """What each member of a gang does."""
    meeting.broken.check()
    return meeting.rank / steps


async def train_async(meeting: Generation[Awaited], steps: int) -> float:
    """The same as a coroutine."""
    await meeting.wait_broken(timeout_s=1)
    return meeting.rank / steps


async def gangs() -> None:
    """All start or none."""
    gang = Gang("coord", "/gangs/train", size=4)
    assert_type(gang.run(train, 100, restarts_max=3), float)
    assert_type(await gang.run_async(train_async, 100), float)
    with gang as meeting:
        assert_type(meeting, Generation[Blocking])
    async with gang as awaited:
        assert_type(awaited, Generation[Awaited])
    gang.join(timeout_s=3, data=b"me").leave()
    await (await gang.join_async()).leave()


async def addresses() -> None:
    """Who listens where."""
    rendezvous = Rendezvous("coord", "/meet", size=2)
    with rendezvous.meet(timeout_s=3, port=0) as met:
        assert_type(met, RendezvousResult[Blocking])
        assert_type(met.addresses, list[Address])
        assert_type((met.rank, met.generation), tuple[int, int])
        assert_type(met.socket, socket)
        assert_type(met.meeting, Generation[Blocking])
        met.broken.check()
    async with await rendezvous.meet_async(data=b"x") as awaited:
        assert_type(awaited, RendezvousResult[Awaited])


async def workers() -> None:
    """Who is there."""
    group = WorkerGroup("coord", "/workers")
    membership = group.join("me", b"data")
    assert_type(membership, WorkerMembership[Blocking])
    membership.update(b"new")
    assert_type(await group.join_async(), WorkerMembership[Awaited])
    assert_type(group.members(), list[Worker])
    assert_type(await group.members_async(), list[Worker])

    def changed(change: WorkersChange) -> None:
        assert_type(change.left, list[Worker])

    group.watch(changed).close()
    await (await group.watch_async(changed)).close()


async def elected() -> None:
    """An actor that a standby takes over from."""
    service = ElectedActor("coord", "/orders", Service)
    service.start()
    assert_type(service.leader(), Leader | None)
    answer: int = service.call("count", "/x")
    later: int = await service.call_async("count", "/x")
    print(answer + later)
    service.stop()
