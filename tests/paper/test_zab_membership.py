"""Zab's properties while members come and go, under random faults.

docs/MEMBERS.md. A failing seed is repeated by `python -m tests.paper.test_zab_membership N`.
"""

import sys
from collections.abc import Callable, Iterable
from random import Random

import pytest

from raykeeper.zab.ids import FOUNDING_DISK, ZERO, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.members import Members, Seat
from raykeeper.zab.messages import Commit, Proposals, UpToDate, ZabMessage
from raykeeper.zab.quorum import Quorum
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.membership_world import MembershipWorld, Rules
from tests.harness.zab_world import ZabServer
from tests.paper import test_zab_properties as properties

ENSEMBLES = [(1, 2), (1, 4), (2, 1), (3, 1), (3, 1), (3, 2), (3, 2), (4, 1), (5, 1)]
SEEDS = 200


def make_world(seed: int) -> MembershipWorld:
    random = Random(seed)
    voters, strangers = ENSEMBLES[seed % len(ENSEMBLES)]
    window = random.choice([RecentLogLimits(), RecentLogLimits(3, 1 << 20, 1 << 20)])
    world = MembershipWorld(random, voters, strangers, window)
    world.latency_ms = random.choice([0, 2, 20])
    world.disk_ms = random.choice([0, 3, 30])
    world.notice_ms = random.choice([0, 50, 500])
    return world


def disturb(world: MembershipWorld) -> None:
    """As without changes; but a disk is lost only while every list that may count bears it."""
    random = world.random
    if random.random() < 0.03:
        world.leave(random.choice(list(world.servers)))
        return
    if random.random() < 0.04:
        who = random.choice(list(world.servers))
        if world.may_wipe(who):
            world.wipe(who)
        return
    wiped, world.wiped = world.wiped, len(world.servers)  # no other loss
    properties.disturb(world)
    world.wiped = wiped


def run_safety(world: MembershipWorld) -> None:
    for server_id in world.servers:
        world.start(server_id)
    random = world.random
    calm = random.choice([60, 250, 800])
    share = random.choice([0.1, 0.3, 0.6])
    if random.random() < 0.6:
        properties.lie_in_wait(world, random.choice([0.02, 0.1, 0.25]))
    for _ in range(random.randint(10, 60)):
        for _ in range(random.randint(0, 4)):
            world.run_until(world.now + random.randint(0, calm))
            properties.work(world)
            for leader in world.leaders():
                if random.random() < share:
                    world.change(leader)
        disturb(world)


def run(seed: int) -> MembershipWorld:
    world = make_world(seed)
    run_safety(world)
    properties.run_liveness(world)
    return world


BATCH = 20


@pytest.mark.parametrize("batch", range(SEEDS // BATCH))
def test_properties_hold_while_members_change(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            run(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


# Deliberate faults, each with a seed that finds it.


def _count_by(lists: Callable[[Members], list[MemberList]]) -> Callable[[Members], None]:
    right = Members._update

    def update(self: Members) -> None:
        right(self)
        self._in_force = tuple(Quorum(each.voters.items()) for each in lists(self))

    return update


def _new_alone(self: Members) -> list[MemberList]:
    newer = [each for each in self._logged if each.version > self.newest.version]
    return [(newer or [self.newest])[-1]]


def _old_alone(self: Members) -> list[MemberList]:
    return [self.newest]


def _newest_logged_only(self: Members) -> list[MemberList]:
    return [self.newest, *_new_alone(self)]


def _removed_count_too(self: Members) -> None:
    before = getattr(self, "_in_force", ())
    removed = {seat for quorum in before for seat in quorum.voters}
    _RIGHT_UPDATE(self)
    for quorum in self._in_force:
        quorum.voters |= removed


_RIGHT_UPDATE = Members._update


def _any_disk(self: Members, seats: Iterable[Seat]) -> bool:
    return self.are_electors([server for server, _ in seats])


def _any_disk_value(self: Members, cursors: list[tuple[Seat, int]]) -> int:
    return Quorum(self.newest.voters).quorum_value([(seat[0], each) for seat, each in cursors])


Fault = list[tuple[type, str, object]]
FAULTS: dict[str, tuple[int, Fault]] = {}


def _fault(name: str, seed: int, *changes: tuple[type, str, object]) -> None:
    FAULTS[name] = seed, list(changes)


_new_alone_counts = (Members, "_update", _count_by(_new_alone))
_fault("the new list counts alone when it is logged", 2, _new_alone_counts)
_old_alone_counts = (Members, "_update", _count_by(_old_alone))
_fault("the new list counts only when it is delivered", 1, _old_alone_counts)
_one_of_two = (Members, "_update", _count_by(_newest_logged_only))
_fault(
    "two changes are open, and only the newest counts", 11, (Rules, "one_open", False), _one_of_two
)
_fault("a removed server counts", 2, (Members, "_update", _removed_count_too))
_deaf = (Members, "learn_delivered", lambda _self, _members: False)
_fault("a list that others have delivered is not used", 7, _deaf)
_values_on_any_disk = (Members, "quorum_value", _any_disk_value)
_fault("a server counts on any disk", 1, (Members, "is_quorum", _any_disk), _values_on_any_disk)
_kept = (Members, "forget_logged_lists", lambda _self: None)
_fault("a logged list is kept after its role", 578, _kept)


def settled(voters: int, strangers: int) -> MembershipWorld:
    """An ensemble whose last voter leads, and which has committed something."""
    world = MembershipWorld(Random(1), voters, strangers)
    for server_id in world.servers:
        world.start(server_id)
    world.run_until(world.now + 3_000)
    assert world.leaders() == [voters]
    world.propose(ServerId(voters), 1)
    world.run_until(world.now + 1_000)
    return world


def change(world: MembershipWorld, leader: int, *voters: int) -> None:
    world.change_to(ServerId(leader), dict.fromkeys(map(ServerId, voters), FOUNDING_DISK))


def part(world: MembershipWorld, *side: int) -> None:
    """Cut these servers off from all others."""
    for one in map(ServerId, side):
        for other in world.servers:
            if other not in side:
                world.cut(one, other)
                world.cut(other, one)


def test_rafts_bug_of_single_server_changes_does_not_occur() -> None:
    """Two leaders with different changes of one list, each of which is logged by its own side.

    1. Leader 4 of four adds 5, and reaches only 5: three of the five do not have it.
    2. The others elect 3, which removes 1: that is committed by 2 and 3, and by 1.
    3. 1, 4 and 5 are three of five servers by the list of 4. In Raft they would go on with it.
    4. Here 4 needs three of the four before, too, so nobody leads. All together go on with the list
       of 3.
    """
    world = settled(4, 1)
    part(world, 4, 5)
    change(world, 4, 1, 2, 3, 4, 5)
    world.run_until(world.now + 6_000)
    assert world.leaders() == [3]
    change(world, 3, 2, 3, 4)
    world.run_until(world.now + 1_000)
    assert world.newest.voters.keys() == {2, 3, 4}
    world.heal()
    part(world, 2, 3)
    world.run_until(world.now + 100)
    for server_id in (2, 3):
        world.crash(ServerId(server_id))
    world.run_until(world.now + 10_000)
    assert world.leaders() == []
    world.heal()
    for server_id in (2, 3):
        world.start(ServerId(server_id))
    properties.run_liveness(world)
    assert world.newest.voters.keys() == {2, 3, 4}


def test_zookeeper_1699_a_leader_steps_down_without_a_quorum_of_the_new_list() -> None:
    """The change is in flight, and too few of the servers of the new list are left.

    1. Three servers; the leader, 3, adds 4. Then 1 and 4 are lost.
    2. 2 and 3 are a majority of the list before, and none of the new one: nobody leads.
    3. When 4 is back, there is one again.
    """
    world = settled(3, 1)
    change(world, 3, 1, 2, 3, 4)
    for server_id in (1, 4):
        world.crash(ServerId(server_id))
    world.run_until(world.now + 10_000)
    assert world.leaders() == []
    world.start(ServerId(4))
    world.run_until(world.now + 10_000)
    assert len(world.leaders()) == 1


def test_zookeeper_2819_a_server_with_an_old_list_finds_the_leader() -> None:
    """It was down while servers were swapped, one after the other.

    1. Server 1 of three goes down; 2 is swapped for 4, 4 for 5, and 1 for 4.
    2. Server 2 is stopped for good, and 1 starts with the list of the founding.
    3. It finds the leader of 3, 4 and 5, and takes over everything.
    """
    world = settled(3, 2)
    world.crash(ServerId(1))
    for voters in ((1, 3, 4), (1, 3, 5), (3, 4, 5)):
        change(world, 3, *voters)
        world.run_until(world.now + 1_000)
    assert world.newest.voters.keys() == {3, 4, 5}
    world.crash(ServerId(2))
    world.gone[ServerId(2)] = None
    world.start(ServerId(1))
    properties.run_liveness(world)


def swapped(*, said_twice: bool) -> MembershipWorld:
    """Server 1 of three was swapped for 4, and all servers lost power when that was done."""
    world = settled(3, 1)
    world.rules.said_twice = said_twice
    change(world, 3, 2, 3, 4)
    world.run_until(world.now + 1_000)
    assert world.newest.voters.keys() == {2, 3, 4}
    for server_id in world.servers:
        world.crash(server_id)
    return world


@pytest.mark.parametrize("alive", [(2, 3), (2, 4), (3, 4)])
def test_any_majority_of_the_new_list_goes_on_once_it_was_said_twice(
    alive: tuple[ServerId, ...],
) -> None:
    world = swapped(said_twice=True)
    for server_id in alive:
        world.start(server_id)
    world.run_until(world.now + 20_000)
    assert len(world.leaders()) == 1


def test_said_once_a_list_may_need_the_server_that_has_left() -> None:
    """So that server must not stop before (M4). It comes back, and all is well."""
    world = swapped(said_twice=False)
    for server_id in (2, 4):
        world.start(ServerId(server_id))
    world.run_until(world.now + 20_000)
    assert world.leaders() == []
    world.start(ServerId(1))
    world.run_until(world.now + 20_000)
    assert len(world.leaders()) == 1


def test_what_the_new_list_committed_alone_is_not_cut_by_a_leader_that_does_not_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Server 4 takes the place of 2. Leader 3 commits that, and a write on 3 and 4, and is lost.

    1 has the step and not the write, 4 does not know that the step is committed, so 1 is elected.
    It goes on with 2 by the old list and with 4 by the new one, unless it minds what 4 has.
    """
    world = MembershipWorld(Random(1), 3, 1)
    for server_id in world.servers:
        world.start(server_id)
    world.run_until(world.now + 3_000)
    one, three, four = map(ServerId, (1, 3, 4))
    assert world.leaders() == [three]
    world.propose(three, 1)
    world.run_until(world.now + 1_000)
    deliver = world._send

    def lose_some(server: ZabServer, peer: ServerId, message: ZabMessage) -> None:
        is_late = isinstance(message, Proposals) and peer != four and bool(lost)
        if server.id == three and (is_late or isinstance(message, Commit)):
            lost.append(message)
        else:
            deliver(server, peer, message)

    lost: list[ZabMessage] = []
    monkeypatch.setattr(world, "_send", lose_some)
    world.servers[one].slow_until = world.now + 100  # its ack of the step comes last
    world.rules.said_twice = False
    world.change_to(three, dict.fromkeys((one, three, four), FOUNDING_DISK))
    lost.append(UpToDate(ZERO))  # from here on
    world.propose(three, 1)
    world.run_until(world.now + 200)
    committed = list(world.properties.committed)
    assert len(committed) == 3 and isinstance(lost[-1], Commit)
    world.crash(three)
    monkeypatch.setattr(world, "_send", deliver)
    world.run_until(world.now + 30_000)
    assert world.leaders() == []
    world.start(three)
    world.run_until(world.now + 30_000)
    (leader,) = world.leaders()
    assert leader in (three, four)
    assert world.properties.committed[:3] == committed


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, changes = FAULTS[name]
    for owner, attribute, wrong in changes:
        monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        run(seed)


if __name__ == "__main__":
    world = make_world(int(sys.argv[1]))
    world.trace = []
    try:
        run_safety(world)
        properties.run_liveness(world)
    finally:
        sys.stdout.write("\n".join(world.trace) + "\n")
