"""A program of a user's with an `AsyncClient`: every recipe, and the types of what each gives."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Any, assert_type

from raykeeper.client import (
    CREATOR_ALL_ACL,
    Acl,
    AsyncClient,
    Awaited,
    CachedZnode,
    ChildrenCache,
    ClientId,
    ClientState,
    CommitProgress,
    Contender,
    Decision,
    Element,
    EnsembleConfig,
    Entered,
    FencedResource,
    Generation,
    GroupChange,
    Held,
    HeldElement,
    HeldLease,
    Identity,
    Instance,
    Leader,
    Leadership,
    Live,
    LiveConfiguration,
    LiveConfigurations,
    Lock,
    LostEvent,
    Member,
    Membership,
    MultiHeld,
    Observation,
    Participant,
    Partition,
    PublishedVersion,
    Quota,
    QuotaLimits,
    ReentrantHeld,
    Registration,
    RoundRobin,
    ServiceChange,
    ServiceWatch,
    Stat,
    TreeCache,
    TreeChange,
    Versioned,
    WatchedEvent,
    make_acl,
)
from raykeeper.client.errors import KeeperError


@dataclass
class Settings:
    """A configuration of one's own."""

    rate: int
    names: list[str]


async def sessions() -> AsyncIterator[AsyncClient]:
    """Open them."""
    async with await AsyncClient.connect("coord", session_timeout_s=5.0) as client:
        assert_type(client, AsyncClient)
        assert_type(client.client_id, ClientId)
        assert_type(client.state, ClientState)
        yield client
    other = await AsyncClient.connect("coord/app", default_acl=CREATOR_ALL_ACL)
    await other.close()


async def znodes(client: AsyncClient) -> None:
    """The operations: each is sent at once, and may be awaited later."""
    first = client.create("/a", b"v", ephemeral=True, makepath=True)
    assert_type(first, asyncio.Future[str])
    assert_type(await first, str)
    made = await client.create("/a-", sequence=True, include_data=True)
    assert_type(made, tuple[str, Stat])
    value, stat = await client.get("/a", consistency="linearizable")
    assert_type(value, bytes)
    assert_type(await client.set("/a", b"w", version=stat.version), Stat)
    assert_type(await client.exists("/a"), Stat | None)
    assert_type(await client.get_children("/"), list[str])
    many = await client.get_many(["/a", "/b"])
    assert_type(many, list[tuple[bytes, Stat] | KeeperError])
    together = await asyncio.gather(client.get("/a"), client.get_children("/"))
    assert_type(together, tuple[tuple[bytes, Stat], list[str]])
    await client.ensure_path("/b/c")
    await client.delete("/b", recursive=True)
    await client.sync()


async def watches(client: AsyncClient) -> None:
    """Callbacks, which may be coroutines."""

    async def changed(event: WatchedEvent) -> None:
        await client.get(event.path)

    client.add_listener(lambda state: print(state is ClientState.LOST))
    await client.add_watch("/a", changed, recursive=True, with_values=True)
    await client.get("/a", watch=changed)
    await client.remove_watches("/a", changed)


async def transactions(client: AsyncClient, held: Held[Awaited]) -> None:
    """Several operations as one."""
    async with client.transaction() as t:
        t.when_held(held)
        t.set("/a", b"v")
        t.otherwise.get("/leader")
    assert_type(t.succeeded, bool | None)
    assert_type(t.results, list[Any] | None)
    assert_type(await client.transaction().commit(), list[Any])


async def access(client: AsyncClient) -> None:
    """Who may do what, and how much there may be."""
    await client.add_auth("scrypt", "ann:secret")
    assert_type(await client.who_am_i(), list[Identity])
    await client.set_acls("/mine", [make_acl("world", "anyone", read=True)])
    assert_type(await client.get_acls("/mine"), tuple[list[Acl], Stat])
    await client.set_quota("/mine", QuotaLimits(hard_znodes=3))
    assert_type(await client.get_quota("/mine"), Quota)
    await client.remove_quota("/mine")
    assert_type(await client.get_config(), EnsembleConfig)
    assert_type(await client.reconfig(4, 3), EnsembleConfig)
    assert_type(await client.get_ephemerals(), list[str])
    assert_type(await client.get_all_children_number("/"), int)


async def guarded(held: Held[Awaited]) -> int:
    """What a function of one's own does with a lock."""
    held.lost.check()
    assert_type(held.lost, LostEvent[Awaited])
    await held.lost.wait(timeout_s=1)
    return held.token


async def locks(client: AsyncClient) -> None:
    """All that is held."""
    lock = client.lock("/locks/a", b"me")
    assert_type(lock, Lock[Awaited])
    assert_type(lock.acquire(), Awaitable[Held[Awaited]])
    async with lock as held:
        assert_type(held, Held[Awaited])
        await guarded(held)
    held = await lock.acquire(timeout_s=3)
    assert_type(held, Held[Awaited])
    assert_type(held.release(), Awaitable[None])
    assert_type(await lock.contenders(), list[Contender])
    async with client.simple_lock("/locks/b") as held, client.semaphore("/sem", 3) as permit:
        await guarded(held)
        await guarded(permit)
    assert_type(await client.semaphore("/sem", 3).holders(), list[Contender])
    assert_type(await client.reentrant_lock("/locks/c").acquire(), ReentrantHeld[Awaited])
    sides = client.read_write_lock("/locks/d")
    async with sides.read as reading:
        assert_type(reading, Held[Awaited])
    assert_type(await sides.write.acquire(0), Held[Awaited])
    async with client.multi_lock([lock, "/locks/e"]) as several:
        assert_type(several, MultiHeld[Awaited])
    async with client.lease("/lease", duration_s=30) as lease:
        assert_type(lease, HeldLease[Awaited])
        await lease.renew()
        assert_type(lease.left_s(), float)


async def fencing(client: AsyncClient, held: Held[Awaited]) -> None:
    """Guards that refuse an old token."""
    async with FencedResource("the file").use(held.token):
        pass
    durable = client.fenced_resource("/fence")
    async with durable.use(held.token, shared=True):
        assert_type(await durable.check(held.token), None)


async def elections(client: AsyncClient) -> None:
    """Who leads."""
    election = client.election("/leader", b"me")
    async with election as leadership:
        assert_type(leadership, Leadership[Awaited])
    await (await election.lead(timeout_s=3)).resign()
    assert_type(await election.leader(), Leader | None)
    assert_type(await election.candidates(), list[Contender])

    async def seen(leader: Leader | None) -> None:
        print(leader.identifier if leader else b"")

    async with await election.observe(seen) as observation:
        assert_type(observation, Observation[Awaited])

    async def gained(leadership: Leadership[Awaited]) -> None:
        await leadership.release()

    async with client.leader_latch("/latch", on_gained=gained) as latch:
        assert_type(await latch.wait(3), Leadership[Awaited])
        assert_type(latch.leadership, Leadership[Awaited] | None)
    await latch.start()
    await latch.close()


async def groups(client: AsyncClient) -> None:
    """Who is there."""
    group = client.group("/group")
    membership = await group.join("me", b"data")
    assert_type(membership, Membership[Awaited])
    await membership.update(b"new")
    async with await group.join("me") as joined:
        assert_type(joined, Membership[Awaited])
    await membership.leave()
    assert_type(await group.members(), list[Member])

    async def changed(change: GroupChange) -> None:
        await client.set("/seen", change.joined[0].data)

    async with await group.watch(changed) as watch:
        assert_type(watch.is_closed, bool)
    async with client.rendezvous("/meet", size=3) as meeting:
        assert_type(meeting, Generation[Awaited])
        assert_type(meeting.members, list[Participant])
        await meeting.wait_broken()
    await (await client.rendezvous("/meet", 3).join(timeout_s=3)).leave()

    async def acquired(partition: Partition[Awaited]) -> None:
        await client.set("/owner", partition.name.encode())

    async with client.partitioner("/parts", ["a", "b"], on_acquired=acquired) as partitioner:
        assert_type(await partitioner.wait(), list[Partition[Awaited]])
        assert_type(partitioner.owned, list[Partition[Awaited]])


async def services(client: AsyncClient) -> None:
    """Service discovery."""
    async with client.services("/services", Settings) as found:
        registration = await found.register("search", "10.0.0.1", 80, Settings(1, []))
        assert_type(registration, Registration[Awaited])
        await registration.announce("10.0.0.1", 81)
        assert_type(await found.names(), list[str])
        assert_type(await found.instances("search"), list[Instance])
        assert_type(await found.pick("search", RoundRobin(), timeout_s=3), Instance)
        assert_type(await found.malformed(), dict[str, str])

        async def changed(change: ServiceChange) -> None:
            await client.set("/seen", change.service.encode())

        watch = await found.watch(changed, "search")
        assert_type(watch, ServiceWatch[Awaited])
        await watch.close()
        await registration.leave()


async def configurations(client: AsyncClient) -> None:
    """Values of types."""
    configuration = client.configuration("/config", Settings, Settings(3, []))
    now = await configuration.get()
    assert_type(now, Versioned[Settings])
    assert_type(await configuration.set(Settings(4, []), now.version), Versioned[Settings])
    await configuration.update(lambda settings: Settings(settings.rate + 1, []))

    async def changed(new: Settings | None, old: Settings | None) -> None:
        await client.set("/seen", repr((new, old)).encode())

    async with await configuration.follow(changed, on_error=print) as live:
        assert_type(live, LiveConfiguration[Awaited, Settings])
        assert_type(live.value, Settings | None)
    several = client.configurations({"/a": Settings, "/b": dict[str, int]})
    assert_type((await several.get())["/a"].version, int)
    async with await several.follow() as all_of_them:
        assert_type(all_of_them, LiveConfigurations[Awaited])
    published = client.published("/site")
    assert_type(await published.publish({"index": b"html"}), int)
    assert_type((await published.read()).values, dict[str, bytes])
    async with await published.follow(lambda new, old: print(new, old)) as editions:
        assert_type(editions, Live[Awaited, PublishedVersion])


async def caches_and_counters(client: AsyncClient) -> None:
    """Copies, and an integer."""

    async def changed(change: TreeChange) -> None:
        await client.set("/seen", change.path.encode())

    async with client.tree_cache("/config", changed, znodes_max=1000) as cache:
        assert_type(cache, TreeCache[Awaited])
        assert_type(cache.get("/config/a"), CachedZnode | None)
    started = await client.tree_cache("/config").start()
    assert_type(started, TreeCache[Awaited])
    await started.close()
    children = await client.children_cache("/config").start()
    assert_type(children, ChildrenCache[Awaited])
    assert_type(children.names(), list[str])
    counter = client.counter("/counter", default=3)
    assert_type(await counter.get(), int)
    assert_type(await counter.add(2), int)
    assert_type(await counter.increment(), int)
    assert_type(await counter.compare_and_set(3, 4), bool)
    await counter.set(0)


async def barriers(client: AsyncClient) -> None:
    """Together."""
    barrier = client.barrier("/barrier")
    assert_type(await barrier.create(), bool)
    assert_type(await barrier.remove(), bool)
    await barrier.wait(timeout_s=3)
    double = client.double_barrier("/double", size=3, on_crash="continue")
    assert_type(await double.enter(), Entered)
    await double.leave()
    await double.cross(timeout_s=3)


async def queues(client: AsyncClient) -> None:
    """Values that are taken once."""
    queue = client.queue("/queue", size_max=100)
    await queue.put(b"v", timeout_s=3)
    await queue.put_many([b"v", b"w"])
    assert_type(await queue.get(timeout_s=3), Element)
    assert_type(await queue.get_nowait(), Element | None)
    assert_type(await queue.peek(), bytes | None)
    assert_type(await queue.size(), int)
    first = client.priority_queue("/priorities")
    await first.put(b"v", 1)
    assert_type((await first.get()).priority, int)
    locked = client.lock_queue("/jobs")
    await locked.put_many([b"v"], priority=5)
    job = await locked.get()
    assert_type(job, HeldElement[Awaited])
    assert_type(job.value, Element)
    await job.consume()
    async with await locked.get() as held, client.transaction() as t:
        assert_type(held, HeldElement[Awaited])
        t.consume(held)
    assert_type(await locked.held(), int)


async def agreements(client: AsyncClient) -> None:
    """Two-phase commit."""
    commit = client.two_phase_commit("/pay/1")
    await commit.begin(["a", "b"], b"100")
    assert_type(await commit.join("a"), bytes)
    assert_type(await commit.vote("a", commit=True), Decision | None)
    assert_type(await commit.decide(), Decision)
    assert_type(await commit.abort(), Decision)
    assert_type(await commit.outcome(timeout_s=3), Decision)
    assert_type(await commit.progress(), CommitProgress)
    await commit.finish()
