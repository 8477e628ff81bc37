"""A program of a user's with a `Client`: every recipe, and the types of what each gives."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import Any, assert_type

from raykeeper.client import (
    CREATOR_ALL_ACL,
    Acl,
    Blocking,
    CachedZnode,
    Client,
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
    RandomPick,
    ReentrantHeld,
    Registration,
    RoundRobin,
    ServiceChange,
    ServiceWatch,
    Stat,
    Sticky,
    TreeCache,
    TreeChange,
    Versioned,
    WatchedEvent,
    WatchKind,
    connect,
    make_acl,
    make_digest_acl,
    make_scrypt_acl,
)
from raykeeper.client.errors import KeeperError, LostError, NoNodeError, WaitTimeoutError
from raykeeper.clusters import Ensemble, EnsembleStatus, attach, launch, list_ensembles


@dataclass
class Settings:
    """A configuration of one's own."""

    rate: int
    names: list[str]


def ensembles() -> Iterator[Client]:
    """Start one, look at it, open sessions."""
    ensemble = launch(name="coord", servers=3)
    assert_type(ensemble, Ensemble)
    assert_type(ensemble.status(), EnsembleStatus)
    assert_type(attach("coord"), Ensemble)
    assert_type(list_ensembles(), list[str])
    with ensemble.connect(session_timeout_s=5.0) as client:
        assert_type(client, Client)
        yield client
    other = connect("coord/app", default_acl=CREATOR_ALL_ACL, read_only=True)
    assert_type(other.state, ClientState)
    assert_type(other.client_id, ClientId)
    heir = connect("coord/app", client_id=other.client_id)
    heir.close()
    ensemble.shutdown()


def znodes(client: Client) -> None:
    """The operations."""
    assert_type(client.create("/a", b"v", ephemeral=True, makepath=True), str)
    assert_type(client.create("/a-", sequence=True, include_data=True), tuple[str, Stat])
    value, stat = client.get("/a", consistency="linearizable")
    assert_type(value, bytes)
    assert_type(stat, Stat)
    assert_type(client.set("/a", b"w", version=stat.version), Stat)
    found = client.exists("/a")
    assert_type(found, Stat | None)
    if found is not None:
        assert_type(found.num_children, int)
    assert_type(client.get_children("/"), list[str])
    for each in client.get_many(["/a", "/b"]):
        assert_type(each, tuple[bytes, Stat] | KeeperError)
    client.ensure_path("/b/c")
    client.delete("/b", recursive=True)
    client.sync()


def znodes_later(client: Client) -> None:
    """The same without waiting."""
    assert_type(client.create_async("/a", b"v", ttl_s=3.0), Future[str])
    assert_type(client.create_async("/a", include_data=True), Future[tuple[str, Stat]])
    assert_type(client.get_async("/a"), Future[tuple[bytes, Stat]])
    assert_type(client.set_async("/a", b""), Future[Stat])
    assert_type(client.exists_async("/a"), Future[Stat | None])
    assert_type(client.get_children_async("/a").result(), list[str])
    assert_type(client.delete_async("/a").result(3), None)


def watches(client: Client) -> None:
    """Callbacks for znodes and for the session."""

    def changed(event: WatchedEvent) -> None:
        assert_type(event.path, str)
        if event.new is not None:
            assert_type(event.new.value, bytes | None)

    def state_changed(state: ClientState) -> None:
        print(state is ClientState.LOST)

    client.add_listener(state_changed)
    client.add_watch("/a", changed, recursive=True, with_values=True)
    client.get("/a", watch=changed)
    client.get_children("/a", watch=lambda event: print(event.type))
    client.remove_watches("/a", changed, WatchKind.ANY)
    client.remove_listener(state_changed)


def transactions(client: Client, held: Held[Blocking]) -> None:
    """Several operations as one."""
    with client.transaction() as t:
        t.check("/a", version=3)
        t.set("/a", b"v")
        t.create("/log/entry-", b"v", sequence=True)
    assert_type(t.results, list[Any] | None)
    with client.transaction() as t:
        t.when("/leader", "value", "==", b"me")
        t.when_held(held)
        t.set("/a", b"v")
        t.otherwise.get("/leader")
    assert_type(t.succeeded, bool | None)
    assert_type(client.transaction().commit(), list[Any])


def access(client: Client) -> None:
    """Who may do what, and how much there may be."""
    client.add_auth("scrypt", "ann:secret")
    assert_type(client.who_am_i(), list[Identity])
    bob = make_scrypt_acl(client.ensemble_uuid, "bob", "secret", read=True)
    assert_type(bob, Acl)
    acls = [*CREATOR_ALL_ACL, bob, make_digest_acl("eve", "x", all=True)]
    client.create("/mine", acl=[*acls, make_acl("world", "anyone", read=True)])
    assert_type(client.get_acls("/mine"), tuple[list[Acl], Stat])
    client.set_quota("/mine", QuotaLimits(hard_znodes=3))
    quota = client.get_quota("/mine")
    assert_type(quota, Quota)
    assert_type(quota.limits, QuotaLimits)
    client.remove_quota("/mine")
    config = client.get_config()
    assert_type(config, EnsembleConfig)
    assert_type(client.reconfig(4, as_observer=True, version=config.version), EnsembleConfig)
    assert_type(client.reconfig_async(leaving=4), Future[EnsembleConfig])
    assert_type(client.get_ephemerals(), list[str])
    assert_type(client.get_all_children_number("/"), int)


def guarded(held: Held[Blocking]) -> int:
    """What a function of one's own does with a lock."""
    held.lost.check()
    assert_type(held.lost, LostEvent[Blocking])
    assert_type(held.lost.is_set(), bool)
    assert_type(held.is_released, bool)
    return held.token


def locks(client: Client) -> None:
    """All that is held."""
    lock = client.lock("/locks/a", b"me")
    assert_type(lock, Lock[Blocking])
    with lock as held:
        assert_type(held, Held[Blocking])
        guarded(held)
    held = lock.acquire(timeout_s=3)
    assert_type(held, Held[Blocking])
    assert_type(held.release(), None)
    assert_type(lock.contenders(), list[Contender])
    with client.simple_lock("/locks/b") as held, client.semaphore("/sem", permits=3) as permit:
        guarded(held)
        guarded(permit)
    semaphore = client.semaphore("/sem", 3)
    assert_type(semaphore.holders(), list[Contender])
    assert_type(semaphore.permits, int)
    assert_type(client.reentrant_lock("/locks/c").acquire(), ReentrantHeld[Blocking])
    sides = client.read_write_lock("/locks/d")
    with sides.read as reading:
        assert_type(reading, Held[Blocking])
    assert_type(sides.write.acquire(0), Held[Blocking])
    with client.multi_lock([lock, "/locks/e"]) as several:
        assert_type(several, MultiHeld[Blocking])
        assert_type(several.parts, list[Held[Blocking]])
        assert_type(several.tokens["/locks/a"] + 1, int)
    assert_type(client.multi_lock([lock]).paths, list[str])
    with client.lease("/lease", duration_s=30) as lease:
        assert_type(lease, HeldLease[Blocking])
        lease.renew()
        assert_type(lease.left_s(), float)


def fencing(client: Client, held: Held[Blocking]) -> None:
    """Guards that refuse an old token."""
    here = FencedResource("the file")
    with here.use(held.token):
        assert_type(here.newest, int)
    durable = client.fenced_resource("/fence")
    with durable.use(held.token, shared=True):
        assert_type(durable.check(held.token), None)


def elections(client: Client) -> None:
    """Who leads."""
    election = client.election("/leader", b"me")
    with election as leadership:
        assert_type(leadership, Leadership[Blocking])
        assert_type(leadership.epoch, int)
    election.lead(timeout_s=3).resign()
    leader = election.leader()
    assert_type(leader, Leader | None)
    assert_type(election.candidates(), list[Contender])

    def seen(leader: Leader | None) -> None:
        print(leader.identifier if leader else b"")

    with election.observe(seen) as observation:
        assert_type(observation, Observation[Blocking])

    def gained(leadership: Leadership[Blocking]) -> None:
        leadership.release()

    with client.leader_latch("/latch", on_gained=gained) as latch:
        assert_type(latch.wait(3), Leadership[Blocking])
        assert_type(latch.has_leadership, bool)
        assert_type(latch.leadership, Leadership[Blocking] | None)
        assert_type(latch.is_over, bool)
    assert_type(latch.start(), None)
    assert_type(latch.close(), None)


def groups(client: Client) -> None:
    """Who is there."""
    group = client.group("/group")
    membership = group.join("me", b"data")
    assert_type(membership, Membership[Blocking])
    assert_type(membership.name, str)
    assert_type(membership.update(b"new"), None)
    with group.join("me") as joined, client.lock("/locks/a").acquire(timeout_s=3) as held:
        assert_type(joined, Membership[Blocking])
        assert_type(held, Held[Blocking])
    assert_type(group.members(), list[Member])

    def changed(change: GroupChange) -> None:
        assert_type(change.joined, list[Member])

    with group.watch(changed) as watch:
        assert_type(watch.is_closed, bool)
    with client.rendezvous("/meet", size=3) as meeting:
        assert_type(meeting, Generation[Blocking])
        assert_type(meeting.members, list[Participant])
        assert_type((meeting.rank, meeting.generation), tuple[int, int])
        meeting.broken.check()
    assert_type(client.rendezvous("/meet", 3).join(timeout_s=3).leave(), None)

    def acquired(partition: Partition[Blocking]) -> None:
        partition.lost.check()

    with client.partitioner("/parts", ["a", "b"], on_acquired=acquired) as partitioner:
        assert_type(partitioner.wait(), list[Partition[Blocking]])
        assert_type(partitioner.partitions, list[str])
        assert_type(partitioner.owned[0].token + 1, int)


def services(client: Client) -> None:
    """Service discovery."""
    with client.services("/services", Settings, on_malformed=print) as found:
        registration = found.register("search", "10.0.0.1", 80, Settings(1, []))
        assert_type(registration, Registration[Blocking])
        registration.announce("10.0.0.1", 81)
        assert_type(found.names(), list[str])
        assert_type(found.instances("search"), list[Instance])
        assert_type(found.pick("search", Sticky(RandomPick(Random(7)))), Instance)
        assert_type(found.pick("search", choose=RoundRobin(), timeout_s=3).port, int)
        assert_type(found.malformed(), dict[str, str])

        def changed(change: ServiceChange) -> None:
            assert_type(change.left, list[Instance])

        watch = found.watch(changed, "search")
        assert_type(watch, ServiceWatch[Blocking])
        watch.close()
        registration.leave()


def configurations(client: Client) -> None:
    """Values of types."""
    configuration = client.configuration("/config", Settings, Settings(3, []))
    now = configuration.get()
    assert_type(now, Versioned[Settings])
    assert_type(now.value.rate, int)
    assert_type(configuration.set(Settings(4, []), version=now.version), Versioned[Settings])

    def faster(settings: Settings) -> Settings:
        return Settings(settings.rate + 1, settings.names)

    assert_type(configuration.update(faster), Versioned[Settings])

    def changed(new: Settings | None, old: Settings | None) -> None:
        print(new, old)

    with configuration.follow(changed, on_error=print) as live:
        assert_type(live, LiveConfiguration[Blocking, Settings])
        assert_type(live.value, Settings | None)
        assert_type(live.version, int)
        assert_type(live.is_missing, bool)
        assert_type(live.last_error, Exception | None)
    several = client.configurations({"/a": Settings, "/b": dict[str, int]}, form="msgpack")
    assert_type(several.get()["/a"].version, int)
    assert_type(several.paths, tuple[str, ...])
    several.update(lambda values: {**values, "/b": {}})
    with several.follow() as all_of_them:
        assert_type(all_of_them, LiveConfigurations[Blocking])
        assert_type(all_of_them.versions, dict[str, int] | None)
        assert_type(all_of_them.values, dict[str, Any] | None)
    published = client.published("/site")
    assert_type(published.publish({"index": b"html"}), int)
    assert_type(published.read().values["index"], bytes)
    with published.follow(lambda new, old: print(new, old)) as editions:
        assert_type(editions, Live[Blocking, PublishedVersion])
        assert_type(editions.newest, PublishedVersion | None)


def caches_and_counters(client: Client) -> None:
    """Copies, and an integer."""

    def changed(change: TreeChange) -> None:
        print(change.kind, change.path)

    with client.tree_cache("/config", changed, znodes_max=1000) as cache:
        assert_type(cache, TreeCache[Blocking])
        assert_type(cache.get("/config/a"), CachedZnode | None)
        assert_type(cache.children("/config"), list[str])
        assert_type(list(cache), list[str])
        assert_type("/config" in cache, bool)
    started = client.tree_cache("/config").start()
    assert_type(started, TreeCache[Blocking])
    assert_type(started.close(), None)
    children = client.children_cache("/config").start()
    assert_type(children.names(), list[str])
    assert_type(children.snapshot(), dict[str, CachedZnode])
    assert_type(children.is_current, bool)
    counter = client.counter("/counter", default=3)
    assert_type(counter.get(), int)
    assert_type(counter.value, int)
    assert_type(counter.add(2) + counter.increment(), int)
    assert_type(counter.compare_and_set(3, 4), bool)
    counter.set(0)


def barriers(client: Client) -> None:
    """Together."""
    barrier = client.barrier("/barrier")
    assert_type(barrier.create(), bool)
    assert_type(barrier.remove(), bool)
    try:
        assert_type(barrier.wait(timeout_s=3), None)
    except WaitTimeoutError as error:
        print(error)
    double = client.double_barrier("/double", size=3, on_crash="continue")
    assert_type(double.size, int)
    entered = double.enter()
    assert_type(entered, Entered)
    assert_type(entered.round + 1, int)
    assert_type(double.leave(), None)
    assert_type(double.cross(timeout_s=3), None)


def queues(client: Client) -> None:
    """Values that are taken once."""
    queue = client.queue("/queue", size_max=100)
    queue.put(b"v", timeout_s=3)
    queue.put_many([b"v", b"w"])
    element = queue.get(timeout_s=3)
    assert_type(element, Element)
    assert_type(element.path, str)
    assert_type(element.decode(), str)
    assert_type(queue.get_nowait(), Element | None)
    assert_type(queue.peek(), bytes | None)
    assert_type(queue.size(), int)
    assert_type(queue.size_max, int | None)
    first = client.priority_queue("/priorities")
    first.put(b"v", 1)
    assert_type(first.get().priority, int)
    locked = client.lock_queue("/jobs")
    locked.put_many([b"v"], priority=5)
    job = locked.get()
    assert_type(job, HeldElement[Blocking])
    assert_type(job.value, Element)
    assert_type(job.consume(), None)
    with locked.get() as held, client.transaction() as t:
        assert_type(held, HeldElement[Blocking])
        t.consume(held)
    assert_type(locked.held(), int)


def agreements(client: Client) -> None:
    """Two-phase commit."""
    commit = client.two_phase_commit("/pay/1")
    commit.begin(["a", "b"], b"100")
    assert_type(commit.join("a"), bytes)
    assert_type(commit.vote("a", commit=True), Decision | None)
    assert_type(commit.decide(), Decision)
    assert_type(commit.abort(), Decision)
    assert_type(commit.outcome(timeout_s=3), Decision)
    assert_type(commit.progress(), CommitProgress)
    commit.finish()


def errors(client: Client) -> None:
    """What is raised has fields."""
    try:
        client.get("/missing")
    except NoNodeError as error:
        assert_type(error.path, str)
        assert_type(error.definite, bool)
    except LostError:
        raise
