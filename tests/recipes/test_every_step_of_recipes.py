"""Every recipe, struck at each of its steps: nothing is left behind, and others get on.

An operation is struck when it has sent its n-th request, for every n: its caller gives up, the
link breaks, a request is late, the session ends, or somebody deletes the znodes of the session.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import LostError, RayKeeperError
from raykeeper.client.recipes.background_recipe import BackgroundRecipe
from raykeeper.client.recipes.lock_queue import HeldElement
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.two_phase_commit import Decision
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.giving_up import watches
from tests.recipes.test_configuration import Limits

PATH = "/recipes/x"
STEPS_MAX = 60
COARSE_MS = 500


def _nothing(*_: object) -> None:
    """There is nothing to do."""


class Case(NamedTuple):
    """One operation in its surroundings."""

    begin: Callable[[Member], Callable[..., Any]]
    """The operation of the member that is struck."""
    prepare: Callable[[Member], Callable[[], object]] = lambda _: _nothing
    """What another member does before; what lets the operation go on is returned."""
    check: Callable[[Member], object] = _nothing
    """What must be possible for a third one at the end."""
    given_up: Callable[[Member], object] = _nothing
    """And if the operation was given up, or its result undone."""


def _held(make: Callable[[Member], Any], take: str = "acquire") -> Case:
    def get(member: Member) -> Any:
        return getattr(make(member), take)

    return Case(
        get,
        lambda alice: get(alice)().release,
        lambda carol: get(carol)(timeout_s=0).release(),
    )


def _until(member: Member, background: BackgroundRecipe[Any], is_so: Callable[[], object]) -> Any:
    """Begin something in the background and end it when it has come so far."""

    def flow() -> Flow[BackgroundRecipe[Any]]:
        yield from background._start_until(is_so)
        return background

    return lambda: member.do(flow())


def _latch(member: Member) -> Any:
    latch = member.leader_latch(PATH)
    return _until(member, latch, lambda: latch.has_leadership)


def _loss(member: Member) -> Any:
    lock = member.lock(PATH)

    def flow() -> Flow[None]:
        held = yield from lock._acquire()
        yield from held.lost._wait()

    return lambda: member.do(flow())


def _delete_places(alice: Member) -> Callable[[], object]:
    def delete() -> None:
        for name in alice.do(get_children(PATH)):
            alice.ask(Delete(f"{PATH}/{name}", -1))

    return delete


def _consume(member: Member) -> Any:
    queue = member.lock_queue(PATH)

    def flow() -> Flow[None]:
        held: HeldElement[Any] = yield from type(queue).get.flow(queue)
        yield from HeldElement.consume.flow(held)

    return lambda: member.do(flow())


def _put(alice: Member) -> Callable[[], object]:
    return lambda: alice.queue(PATH).put(b"1")


def _full(alice: Member) -> Callable[[], object]:
    alice.queue(PATH, 1).put(b"0")
    return lambda: alice.queue(PATH, 1).get_nowait()


def _makes_room(carol: Member) -> None:
    queue = carol.queue(PATH, 1)
    queue.get_nowait()
    queue.put(b"2", timeout_s=0)
    assert queue.get_nowait() == b"2"


def _has_the_element(carol: Member) -> None:
    assert carol.queue(PATH).get_nowait() == b"1"


def _nobody_holds(carol: Member) -> None:
    queue = carol.lock_queue(PATH)
    assert queue.held() == 0
    queue.put(b"2", priority=999)
    while queue.get(timeout_s=0).value != b"2":
        pass


def _can_lock(carol: Member) -> None:
    held = carol.lock_queue(PATH).get(timeout_s=0)
    assert held.value == b"1"
    held.consume()


def _barrier(alice: Member) -> Callable[[], object]:
    alice.barrier(PATH).create()
    return alice.barrier(PATH).remove


def _comes(begin: Callable[[Member], Callable[..., Any]]) -> Callable[[Member], Any]:
    """The other one of two who meet; it does not come in vain for long."""

    def prepare(alice: Member) -> Callable[[], object]:
        return lambda: alice.begin(begin(alice), timeout_s=5)

    return prepare


def _meets(begin: Callable[[Member], Callable[..., Any]]) -> Callable[[Member], object]:
    def check(carol: Member) -> None:
        both = [carol.begin(begin(carol)), carol.begin(begin(carol))]
        assert [each.error for each in both if each.is_done] == [None, None]

    return check


def _changes(alice: Member) -> Callable[[], object]:
    limits = alice.configuration(PATH, Limits)
    limits.set(Limits(1))
    return lambda: limits.set(Limits(2))


def _counts(carol: Member) -> None:
    assert carol.counter(PATH).get() in (2, 3)


def _name(member: Member) -> Any:
    group = member.group(PATH)
    return lambda timeout_s=None: group.join("n", b"", timeout_s)


def _join(member: Member) -> Any:
    return member.rendezvous(PATH, 2).join


def _cross(member: Member) -> Any:
    return member.double_barrier(PATH, 2).cross


def _observe(member: Member) -> Any:
    return lambda: member.election(PATH).observe(_nothing)


def _watch_group(member: Member) -> Any:
    return lambda: member.group(PATH).watch(_nothing)


def _follow(member: Member) -> Any:
    return lambda: member.configuration(PATH, Limits).follow(_nothing)


def _pick(member: Member) -> Any:
    services = member.services(PATH)
    return _until(member, services, lambda: "s" in services._services)


def _register(member: Member) -> Any:
    services = member.services(PATH)
    return lambda timeout_s=None: services.register("s", "a", 1, None, "n", timeout_s)


def _partitioner(member: Member) -> Any:
    partitioner = member.partitioner(PATH, "ab")
    return _until(member, partitioner, lambda: len(partitioner.owned) == 2)


def _shares(alice: Member) -> Callable[[], object]:
    partitioner = alice.partitioner(PATH, "ab")
    partitioner.start()
    return partitioner.close


def _has_all(carol: Member) -> None:
    partitioner = carol.partitioner(PATH, "ab")
    partitioner.start()
    assert len(partitioner.wait(timeout_s=0)) == 2


def _published(member: Member) -> Any:
    return lambda: member.published(PATH).publish({"a": b"1", "b": b"1"})


def _publishes(alice: Member) -> Callable[[], object]:
    alice.published(PATH).publish({"a": b"0", "b": b"0"})
    return _nothing


def _reads_a_whole(carol: Member) -> None:
    published = carol.published(PATH)
    values = published.read().values
    assert values["a"] == values["b"]
    published.publish({"c": b""})
    assert len(carol.do(get_children(f"{PATH}/versions"))) == 1


def _commits(alice: Member) -> Callable[[], object]:
    trip = alice.two_phase_commit(PATH)
    trip.begin(["a"])
    trip.join("a")

    def decide() -> None:
        trip.vote("a", commit=True)
        trip.decide()

    return decide


def _begins(alice: Member) -> Callable[[], object]:
    alice.two_phase_commit(PATH).begin(["a"])
    return _nothing


def _knows(carol: Member) -> None:
    assert carol.two_phase_commit(PATH).outcome(timeout_s=0) is Decision.COMMIT


def _pass(member: Member) -> Any:
    return member.double_barrier(PATH, 2, on_crash="continue").cross


CASES: dict[str, Case] = {
    "lock": _held(lambda member: member.lock(PATH)),
    "simple_lock": _held(lambda member: member.simple_lock(PATH)),
    "read": _held(lambda member: member.read_write_lock(PATH).read)._replace(
        prepare=lambda alice: alice.read_write_lock(PATH).write.acquire().release
    ),
    "write": _held(lambda member: member.read_write_lock(PATH).write),
    "reentrant_lock": _held(lambda member: member.reentrant_lock(PATH)),
    "multi_lock": _held(lambda member: member.multi_lock([PATH, f"{PATH}2"])),
    "semaphore": _held(lambda member: member.semaphore(PATH, 1)),
    "lease": _held(lambda member: member.lease(PATH, 5)),
    "election": _held(lambda member: member.election(PATH), "lead"),
    "latch": _held(lambda member: member.election(PATH), "lead")._replace(begin=_latch),
    "loss": Case(_loss, _delete_places, lambda carol: carol.lock(PATH).acquire(timeout_s=0)),
    "observe": Case(_observe),
    "barrier": Case(lambda member: member.barrier(PATH).wait, _barrier),
    "queue.get": Case(
        lambda member: member.queue(PATH).get, _put, _makes_room, given_up=_has_the_element
    ),
    "queue.put": Case(lambda member: lambda: member.queue(PATH, 1).put(b"1"), _full, _makes_room),
    "lock_queue.get": Case(lambda member: member.lock_queue(PATH).get, _put, _can_lock),
    "lock_queue.consume": Case(_consume, _put, _nobody_holds),
    "counter": Case(
        lambda member: member.counter(PATH).increment,
        lambda alice: [alice.counter(PATH).increment(), alice.counter(PATH).increment][1],
        _counts,
    ),
    "follow": Case(_follow, _changes),
    "join": Case(_name, lambda alice: _name(alice)().leave, lambda carol: _name(carol)(0)),
    "watch_group": Case(_watch_group, lambda alice: _name(alice)().leave),
    "cache": Case(lambda member: member.tree_cache("/recipes").start, _changes),
    "rendezvous": Case(_join, _comes(_join), _meets(_join)),
    "register": Case(
        _register, lambda alice: _register(alice)().leave, lambda carol: _register(carol)(0)
    ),
    "pick": Case(_pick, lambda alice: lambda: _register(alice)()),
    "partitioner": Case(_partitioner, _shares, _has_all),
    "publish": Case(_published, _publishes, _reads_a_whole),
    "commit": Case(lambda member: member.two_phase_commit(PATH).outcome, _commits, _knows),
    "commit.join": Case(lambda member: lambda: member.two_phase_commit(PATH).join("a"), _begins),
    "continued": Case(_pass, _comes(_pass), _meets(_pass)),
    "double_barrier": Case(_cross, _comes(_cross), _meets(_cross)),
}


class Strike:
    """What happens to a member when it has sent its n-th request: else it stands still."""

    def __init__(
        self, member: Member, nth: int, strike: Callable[[], object] | None = None
    ) -> None:
        self.is_reached = False
        self._left = nth
        self._strike = strike or member.freeze
        self._real = member.submit
        member.submit = self._submit  # type: ignore[method-assign]

    def is_over(self) -> None:
        """What comes now happens in peace."""
        self._left = 0

    def _submit(self, ask: Any, token: Any) -> None:
        self._real(ask, token)
        self._left -= 1
        if self._left == 0:
            self.is_reached = True
            self._strike()


def _give_up(stage: RecipeStage, bob: Member, outcome: Outcome) -> None:
    outcome.run.cancel()
    bob.thaw()


def _cut(stage: RecipeStage, bob: Member, outcome: Outcome) -> None:
    bob.cut()
    bob.thaw()
    bob.mend(COARSE_MS)


def _be_late(stage: RecipeStage, bob: Member, outcome: Outcome) -> None:
    bob.cut()
    bob.thaw()
    stage.pass_time(1_200, COARSE_MS)
    bob.mend(COARSE_MS)


def _close(stage: RecipeStage, bob: Member, outcome: Outcome) -> None:
    bob.core.close(bob.now())
    bob.thaw()


def _expire(stage: RecipeStage, bob: Member, outcome: Outcome) -> None:
    stage.pass_time(4_000, COARSE_MS)
    bob.thaw()
    stage.pass_time(100)


def _delete(stage: RecipeStage, bob: Member, outcome: Outcome) -> None:
    for path in list(ephemerals(stage, bob)):
        stage.members[-1].ask(Delete(path, -1))
    bob.thaw()


STRIKES: list[Callable[[RecipeStage, Member, Outcome], None]] = [
    _give_up,
    _cut,
    _be_late,
    _close,
    _expire,
    _delete,
]


def ephemerals(stage: RecipeStage, member: Member) -> list[str]:
    """The paths of those of its session."""
    tree = stage.servers.leader.server._context.state.tree
    return list(tree.ephemerals.get(member.core.session_id, ()))


def _struck(case: Case, strike: Callable[[RecipeStage, Member, Outcome], None], nth: int) -> bool:
    """Whether the operation had so many steps."""
    stage = RecipeStage()
    alice = stage.member()
    bob = stage.member(session_timeout_ms=3_000, request_timeout_ms=1_000)
    carol = stage.member()
    go_on = case.prepare(alice)
    blow = Strike(bob, nth)
    outcome = bob.begin(case.begin(bob))
    if blow.is_reached:
        strike(stage, bob, outcome)
    go_on()
    if blow.is_reached and bob._is_frozen:
        strike(stage, bob, outcome)
    stage.pass_time(200)
    is_given_up = not outcome.is_done or outcome.error is None
    outcome.run.cancel()  # its result is undone, or it still waits
    stage.rest()
    if bob._is_frozen:
        strike(stage, bob, outcome)
    stage.pass_time(6_000, COARSE_MS)
    assert outcome.error is None or isinstance(outcome.error, RayKeeperError)
    if strike is _cut:
        assert outcome.error is None or isinstance(outcome.error, LostError)
    assert ephemerals(stage, bob) == []
    assert bob.flows._waiting_tasks == {}
    assert watches(bob) == 0
    if strike is _give_up or (strike is _cut and is_given_up):
        case.given_up(carol)
    case.check(carol)
    assert stage.reported == []
    return blow.is_reached


@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("name", CASES)
def test_a_fault_at_any_step_leaves_nothing_behind(
    name: str, strike: Callable[[RecipeStage, Member, Outcome], None]
) -> None:
    nth = 1
    while _struck(CASES[name], strike, nth):
        nth += 1
        assert nth < STEPS_MAX
    assert nth > 1
