"""Service discovery: who is there, what the cache costs, what is told, what is malformed."""

import math
from random import Random

import pytest
from msgspec import Struct

from raykeeper.client.core.public_types import ClientState, EventType, WatchedEvent
from raykeeper.client.errors import ClosedError, LostError, WaitTimeoutError
from raykeeper.client.recipes.picking import Instance, RandomPick
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.services import ServiceChange
from raykeeper.zab.ids import ZERO
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Create, Delete, SetData
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.freezing import abandoned_at

PATH = "/services"


class Meta(Struct):
    shard: int
    zone: str = "a"


def register(member: Member, service: str, port: int, name: str | None = None):  # type: ignore[no-untyped-def]
    return member.services(PATH).register(service, "host", port, {"n": port}, name=name)


def parts(change: ServiceChange) -> tuple[list[Instance], ...]:
    return change.joined, change.left, change.updated


def test_instances_are_listed_in_the_order_of_registration(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    services = bob.services(PATH)
    assert services.names() == []
    assert services.instances("web") == []
    one = register(alice, "web", 2)
    two = register(bob, "web", 1, "fixed")
    register(alice, "db", 3)
    assert services.names() == ["db", "web"]
    listed = services.instances("web")
    assert [(each.name, each.port, each.metadata) for each in listed] == [
        ("instance-0000000000", 2, {"n": 2}),
        ("fixed", 1, {"n": 1}),
    ]
    assert [each.token for each in listed] == [one.token, two.token]
    one.announce("elsewhere", 7)
    first = services.instances("web")[0]
    assert (first.address, first.port, first.metadata) == ("elsewhere", 7, None)
    one.leave()
    two.leave()
    assert services.names() == ["db"]


def test_the_cache_sends_no_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    first = register(alice, "web", 1)
    services = bob.services(PATH)
    services.start()
    bob.asked.clear()
    for port in range(2, 7):
        register(alice, "web", port)
    first.leave()
    assert [each.port for each in services.instances("web")] == [2, 3, 4, 5, 6]
    assert [services.pick("web").port for _ in range(6)] == [2, 3, 4, 5, 6, 2]
    assert bob.asked.total() == 0
    alice.asked.clear()
    register(alice, "web", 9)
    assert dict(alice.asked) == {"Create": 1, "GetData": 1}


def test_metadata_have_the_given_type(stage: RecipeStage) -> None:
    alice = stage.member()
    told: list[tuple[str, str]] = []
    services = alice.services(PATH, Meta, lambda *args: told.append(args))
    services.register("web", "host", 1, Meta(3, "b"), name="good")
    services.register("web", "host", 1, {"shard": "x"}, name="bad")
    assert [each.metadata for each in services.instances("web")] == [Meta(3, "b")]
    assert [path for path, _ in told] == [f"{PATH}/web/bad"]
    assert "shard" in told[0][1]


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{", b"null", b"[1]", b'{"address":"a"}', b'{"address":"a","port":70000}'),
        *(b'{"address":"a","port":-1}', b'{"address":1,"port":1}', b"\xff\xfe"),
        *(b'{"address":"\xff","port":1}', b'{"address":"a","port":1,"metadata":"\xff"}'),
        # Deeper than any Python from 3.11 to 3.13 goes.
        b'{"address":"a","port":1,"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_malformed_instance_is_left_out_and_reported(stage: RecipeStage, value: bytes) -> None:
    alice, bob = stage.member(), stage.member()
    told: list[str] = []
    services = bob.services(PATH, on_malformed=lambda path, why: told.append(path))
    register(alice, "web", 1)
    alice.ask(Create(f"{PATH}/web/odd", value, 0))
    assert [each.port for each in services.instances("web")] == [1]
    assert told == [f"{PATH}/web/odd"]
    assert list(services.malformed()) == told
    alice.ask(SetData(f"{PATH}/web/odd", b'{"address":"a","port":5,"more":1}', -1))
    assert [each.port for each in services.instances("web")] == [1, 5]
    assert services.malformed() == {}
    alice.ask(SetData(f"{PATH}/web/odd", value, -1))
    assert len(told) == 2
    alice.ask(Delete(f"{PATH}/web/odd", -1))
    assert services.malformed() == {}


def test_a_watch_receives_each_change(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    one = register(alice, "web", 1)
    services = bob.services(PATH)
    every: list[ServiceChange] = []
    of_db: list[ServiceChange] = []
    watch = services.watch(every.append)
    services.watch(of_db.append, "db")
    one.announce("host", 2)
    register(alice, "db", 3)
    one.leave()
    short = [
        (
            t.service,
            *([e.port for e in part] for part in (t.instances, t.joined, t.left, t.updated)),
        )
        for t in every
    ]
    assert short == [
        ("web", [1], [1], [], []),
        ("web", [2], [], [], [2]),
        ("db", [3], [3], [], []),
        ("web", [], [], [2], []),
    ]
    assert [t.service for t in of_db] == ["db"]
    watch.close()
    register(alice, "db", 4)
    assert (len(every), len(of_db)) == (4, 2)
    services.close()
    events = bob.events
    register(alice, "db", 5)
    assert (len(of_db), bob.events) == (2, events)
    with pytest.raises(ClosedError, match="closed"):
        services.instances("db")


def test_picking_waits_for_an_instance(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    services = bob.services(PATH)
    with pytest.raises(WaitTimeoutError, match="no instance of web"):
        services.pick("web", timeout_s=0)
    waiting = bob.begin(lambda: bob._run_flow(services._wait_for("web", None), "pick"))
    register(alice, "db", 1)
    assert not waiting.is_done
    register(alice, "web", 2)
    assert [each.port for each in waiting.value] == [2]
    assert services.pick("web").port == 2
    register(alice, "web", 3)
    same = [services.pick("web", RandomPick(Random(3))).port for _ in range(5)]
    assert len(set(same)) == 1


def test_a_dead_instance_disappears_and_a_deleted_one_comes_back(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    services = bob.services(PATH)
    register(alice, "web", 1)
    kept = register(bob, "web", 2)
    bob.ask(Delete(kept.path, -1))
    assert [each.port for each in services.instances("web")] == [1, 2]
    alice.die()
    stage.pass_time(4_000)
    assert [each.port for each in services.instances("web")] == [2]


def test_the_cache_misses_nothing_without_a_connection(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    services = bob.services(PATH)
    one = register(alice, "web", 1)
    assert services.names() == ["web"]
    bob.cut()
    one.leave()
    register(alice, "db", 2)
    assert services.names() == ["web"]  # what it was told last
    bob.mend()
    assert services.names() == ["db"]


def test_a_gap_in_the_events_is_read_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    services = bob.services(PATH)
    one = register(alice, "web", 1)
    assert services.names() == ["web"]
    bob.freeze()
    one.leave()
    register(alice, "db", 2)
    host = bob._host
    assert host is not None
    host.frames[bob._connection].clear()  # the events are lost
    bob._taken = 0
    bob.thaw()
    assert services.names() == ["web"]
    watchers = bob.core._watches.tables._recursive[PATH]
    (event,) = watchers
    event.set(WatchedEvent(EventType.RESYNC, ClientState.CONNECTED, PATH, ZERO))  # type: ignore[attr-defined]
    stage.rest()
    assert services.names() == ["db"]


def test_the_cache_is_refused_after_the_session(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    register(alice, "web", 1)
    services = bob.services(PATH)
    waiting = bob.begin(lambda: bob._run_flow(services._wait_for("db", None), "pick"))
    assert services.names() == ["web"]
    bob.cut()
    stage.pass_time(3_000)
    for call in (services.names, services.malformed):
        with pytest.raises(LostError, match="is out of date"):
            call()
    with pytest.raises(Exception, match="expired"):
        _ = waiting.value
    services.close()


def test_a_cancelled_call_leaves_nothing_at_any_step(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    point = 1
    while abandoned_at(bob, point, bob.services(PATH).register, "web", "host", 1):
        assert alice.do(get_children(f"{PATH}/web")) == []
        point += 1
    assert point > 1


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    services = stage.member().services(PATH)
    for service, address, port, metadata in [
        ("a/b", "host", 1, None),
        ("", "host", 1, None),
        ("web", 7, 1, None),
        ("web", "host", 65_536, None),
        ("web", "host", -1, None),
        ("web", "host", True, None),
        ("web", "host", "80", None),
        ("web", "host", 1, object()),
    ]:
        with pytest.raises(BadArgumentsError):
            services.register(service, address, port, metadata)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError):
        services.register("web", "host", 1, name="a/b")
    with pytest.raises(BadArgumentsError):
        stage.member().services("services")


def test_metadata_that_reading_would_change_are_refused(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    me = alice.services(PATH).register("web", "host", 1, Meta(3))  # others may read it as Meta
    for metadata in ({"a": (1,)}, {1: "a"}, {"a": math.nan}, [Meta(3)], {"a": {1}}):
        asked = alice.asked.total()
        for act in (alice.services(PATH).register, lambda _, *args: me.announce(*args)):
            with pytest.raises(BadArgumentsError, match="JSON would change the metadata: "):
                act("web", "host", 1, metadata)
        assert alice.asked.total() == asked
    of_kind = alice.services(PATH, dict[int, tuple[int, ...]])
    with of_kind.register("db", "host", 1, {1: (2, 3)}) as registered:
        registered.announce("host", 2, {1: (4,)})
        assert of_kind.instances("db")[0].metadata == {1: (4,)}
    assert bob.services(PATH, Meta).instances("web")[0].metadata == Meta(3)
    assert bob.services(PATH).names() == ["web"]


class Strict(Struct):
    shard: int

    def __post_init__(self) -> None:
        if self.shard < 0:
            raise KeyError(self.shard)


def test_a_type_may_reject_a_value_by_any_error(stage: RecipeStage) -> None:
    alice = stage.member()
    services = alice.services(PATH, Strict)
    services.register("web", "host", 1, {"shard": -1}, name="bad")
    services.register("web", "host", 2, {"shard": 1}, name="good")
    assert [each.name for each in services.instances("web")] == ["good"]
    assert list(services.malformed()) == [f"{PATH}/web/bad"]
    services.close()
    assert stage.reported == []


def test_a_type_that_cannot_be_read_is_refused(stage: RecipeStage) -> None:
    with pytest.raises(BadArgumentsError, match="kind"):
        stage.member().services(PATH, int | float | Struct | Meta)


def test_closed_and_unreferenced_watches_are_forgotten(stage: RecipeStage) -> None:
    alice = stage.member()
    services = alice.services(PATH)
    for _ in range(100):
        services.watch(alice.called.append).close()
    assert len(services._watches) <= 1
    outcome = alice.begin(services.watch, alice.called.append)
    outcome.run.cancel()
    register(alice, "web", 1)
    assert alice.called == []


def test_a_callback_may_change_the_lists_it_receives(stage: RecipeStage) -> None:
    alice = stage.member()
    services = alice.services(PATH)
    services.watch(lambda change: change.instances.clear())
    told: list[int] = []
    services.watch(lambda change: told.append(len(change.instances)))
    register(alice, "web", 1)
    services.watch(lambda change: change.instances.clear())
    register(alice, "web", 2)
    assert told == [1, 2]
    assert [each.port for each in services.instances("web")] == [1, 2]
