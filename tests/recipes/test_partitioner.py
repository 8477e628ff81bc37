"""The partitioner: at most one owner, even shares, few moves, nothing lost when members go."""

from random import Random

import pytest

from raykeeper.client.errors import ClosedError, RecipeError, SessionExpiredError, WaitTimeoutError
from raykeeper.client.recipes.partitioner import PARTITIONS_MAX, Partition, Partitioner
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.znodes.errors import BadArgumentsError, KeeperError, NoNodeError
from raykeeper.znodes.requests import Create, Delete
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.freezing import freeze_at

PATH = "/shards"


class Ledger:
    """Sees all members from outside: nobody may get what somebody else has."""

    def __init__(self, stage: RecipeStage, names: str = "abcdef") -> None:
        self.stage = stage
        self.names = list(names)
        self.owners: dict[str, tuple[Member, Partition[Blocking]]] = {}
        self.tokens: dict[str, int] = {}
        self.moves: list[str] = []

    def join(self, member: Member) -> Partitioner[Blocking]:
        def acquired(partition: Partition[Blocking]) -> None:
            if partition.lost.is_set():
                return
            before = self.owners.get(partition.name)
            assert before is None or before[1].lost.is_set(), partition.name
            assert partition.token > self.tokens.get(partition.name, 0)
            self.tokens[partition.name] = partition.token
            self.owners[partition.name] = member, partition
            self.moves.append(f"+{partition.name}")

        def released(partition: Partition[Blocking]) -> None:
            if self.owners.get(partition.name, (None, None))[1] is partition:
                del self.owners[partition.name]
            self.moves.append(f"-{partition.name}")

        made = member.partitioner(PATH, self.names, b"", acquired, released)
        made.start()
        return made

    def take_moves(self) -> list[str]:
        moves, self.moves = self.moves, []
        return moves


def shares(*partitioners: Partitioner[Blocking]) -> list[str]:
    return ["".join(each.name for each in one.owned) for one in partitioners]


def test_partitions_are_divided_with_few_moves(stage: RecipeStage) -> None:
    ledger = Ledger(stage)
    alice, bob, carol = (stage.member() for _ in range(3))
    one = ledger.join(alice)
    assert shares(one) == ["abcdef"]
    assert len(ledger.take_moves()) == 6
    other = ledger.join(bob)
    assert shares(one, other) == ["abc", "def"]
    assert sorted(ledger.take_moves()) == ["+d", "+e", "+f", "-d", "-e", "-f"]
    third = ledger.join(carol)
    assert shares(one, other, third) == ["ab", "de", "cf"]
    assert len(ledger.take_moves()) == 4
    other.close()
    assert other.owned == []
    assert [len(each) for each in shares(one, third)] == [3, 3]
    assert len(ledger.take_moves()) == 4
    assert {each[0] for each in ledger.owners.values()} == {alice, carol}
    one.close()
    third.close()
    assert ledger.owners == {}
    for part in ("members", "owners"):
        assert alice.do(get_children(f"{PATH}/{part}")) == []


def test_members_beyond_the_number_of_partitions_own_none(stage: RecipeStage) -> None:
    ledger = Ledger(stage, "ab")
    parts = [ledger.join(stage.member()) for _ in range(4)]
    assert sorted(shares(*parts)) == ["", "", "a", "b"]
    parts[[bool(each) for each in shares(*parts)].index(True)].close()
    assert len(ledger.owners) == 2


def test_a_partition_moves_only_after_its_release_has_returned(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    seen: list[tuple[str, list[str]]] = []

    def released(partition: Partition[Blocking]) -> None:
        seen.append((partition.name, sorted(alice.do(get_children(f"{PATH}/owners")))))
        alice.freeze()  # it takes its time

    one = alice.partitioner(PATH, "ab", on_released=released)
    one.start()
    other = bob.partitioner(PATH, "ab", on_acquired=bob.called.append)
    other.start()
    assert seen == [("b", ["a", "b"])]
    assert (other.owned, bob.called) == ([], [])
    assert shares(one) == ["a"]
    alice.thaw()
    assert shares(one, other) == ["a", "b"]
    assert len(bob.called) == 1


def test_wait_returns_when_the_share_is_complete(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    one = alice.partitioner(PATH, "ab", on_released=lambda _: alice.freeze())
    with pytest.raises(RecipeError, match="not started"):
        one.wait()
    one.start()
    assert [each.name for each in one.wait()] == ["a", "b"]
    other = bob.partitioner(PATH, "ab")
    other.start()
    waiting = bob.begin(other.wait)
    with pytest.raises(WaitTimeoutError, match="its share"):
        other.wait(timeout_s=0)
    alice.thaw()
    assert [each.name for each in waiting.value] == ["b"]
    with carol.partitioner(PATH, "ab") as third:
        assert third.wait() == []  # there are more members than partitions
    with pytest.raises(ClosedError, match="closed"):
        third.wait()


def test_a_callback_that_raises_counts_as_returned(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()

    def wrong(partition: Partition[Blocking]) -> None:
        raise ValueError(partition.name)

    one = alice.partitioner(PATH, "ab", on_acquired=wrong, on_released=wrong)
    other = bob.partitioner(PATH, "ab", on_acquired=wrong)
    one.start()
    other.start()
    assert shares(one, other) == ["a", "b"]


def test_partitions_of_a_dead_member_go_to_the_others(stage: RecipeStage) -> None:
    ledger = Ledger(stage)
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    one, other = ledger.join(alice), ledger.join(bob)
    alice.freeze()
    while shares(other) != ["abcdef"]:
        stage.pass_time(50)
        assert len(shares(other)[0]) == 3 or one.owned == []  # lost on time, by its own clock
    ledger.take_moves()
    alice.thaw()
    assert sorted(ledger.take_moves()) == ["-a", "-b", "-c"]  # told, though late
    assert not one.is_closed
    one.close()


def test_a_lost_connection_moves_nothing(stage: RecipeStage) -> None:
    ledger = Ledger(stage)
    alice, bob = stage.member(), stage.member()
    one, other = ledger.join(alice), ledger.join(bob)
    ledger.take_moves()
    alice.cut()
    alice.mend()
    assert (ledger.take_moves(), shares(one, other)) == ([], ["abc", "def"])
    alice.cut()
    other.close()
    alice.mend()
    assert shares(one) == ["abcdef"]


def test_deleted_owner_and_member_znodes_are_created_again(stage: RecipeStage) -> None:
    ledger = Ledger(stage)
    alice, bob, carol = (stage.member() for _ in range(3))
    one, other = ledger.join(alice), ledger.join(bob)
    lost = one.owned[0]
    ledger.take_moves()
    carol.ask(Delete(lost.path, -1))
    assert lost.lost.is_set()
    assert ledger.take_moves() == ["-a", "+a"]
    assert shares(one, other) == ["abc", "def"]
    for name in carol.do(get_children(f"{PATH}/members")):
        carol.ask(Delete(f"{PATH}/members/{name}", -1))
    assert len(carol.do(get_children(f"{PATH}/members"))) == 2
    assert shares(one, other) == ["abc", "def"]
    assert ledger.take_moves() == []


def test_a_partition_held_by_an_outsider_has_no_owner(stage: RecipeStage) -> None:
    carol = stage.member()
    for path in (PATH, f"{PATH}/owners", f"{PATH}/owners/a"):
        carol.ask(Create(path, b"", 0))
    ledger = Ledger(stage, "abc")
    one = ledger.join(stage.member())
    assert shares(one) == ["bc"]
    carol.ask(Delete(f"{PATH}/owners/a", -1))
    assert shares(one) == ["abc"]


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    ledger = Ledger(stage)
    alice, bob, carol = (stage.member() for _ in range(3))
    ledger.join(alice)
    ledger.join(bob)
    alice.asked.clear()
    bob.asked.clear()
    third = ledger.join(carol)
    assert dict(alice.asked) == dict(bob.asked) == {"Multi": 1}  # one to let go of
    assert carol.asked["Create"] == 3
    alice.asked.clear()
    third.close()
    assert dict(alice.asked) == {"Create": 1}


@pytest.mark.parametrize("point", range(1, 14))
def test_a_close_at_any_step_leaves_nothing_behind(stage: RecipeStage, point: int) -> None:
    ledger = Ledger(stage, "ab")
    alice, bob = stage.member(), stage.member()
    freeze_at(alice, point)
    one = ledger.join(alice)
    other = ledger.join(bob)
    closing = alice.begin(one.close)
    alice.thaw()
    assert closing.value is None
    assert shares(one, other) == ["", "ab"]
    assert len(bob.do(get_children(f"{PATH}/members"))) == 1
    other.close()
    assert ledger.owners == {}


def test_close_waits_for_the_releases(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    one = alice.partitioner(PATH, "ab", on_released=lambda _: alice.freeze())
    one.start()
    other = bob.partitioner(PATH, "ab")
    with pytest.raises(WaitTimeoutError, match="not closed yet"):
        one.close(timeout_s=0)
    other.start()
    assert other.owned == []
    alice.thaw()
    one.close()
    assert shares(other) == ["ab"]
    with pytest.raises(ClosedError):
        one.start()


def test_the_end_of_the_session_releases_everything(stage: RecipeStage) -> None:
    ledger = Ledger(stage, "ab")
    alice = stage.member(session_timeout_ms=2_000)
    one = ledger.join(alice)
    with alice.partitioner("/other", "x") as other:
        assert shares(one, other) == ["ab", "x"]
        alice.cut()
        stage.pass_time(3_000)
        assert shares(one, other) == ["", ""]
    assert ledger.owners == {}
    with pytest.raises(SessionExpiredError):
        alice.partitioner(PATH, "ab").start()


def test_a_permanent_error_is_reported_once(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.ask(Create("/x", b"", 0))
    one = alice.partitioner("/x/y", "ab")
    alice.ask(Create("/x/y", b"", 1))  # an ephemeral has no children
    one.start()
    (error,) = stage.reported
    assert isinstance(error, KeeperError)
    stage.reported.clear()
    one.close()


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    for partitions in ([], ["a", "a"], ["a/b"], [""], [7]):
        with pytest.raises(BadArgumentsError):
            alice.partitioner(PATH, partitions)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError):
        alice.partitioner(PATH, map(str, range(PARTITIONS_MAX + 1)))
    with pytest.raises(BadArgumentsError):
        alice.partitioner("/", "ab")
    with pytest.raises(BadArgumentsError, match="identifier"):
        alice.partitioner(PATH, "ab", "me")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_each_partition_has_at_most_one_owner_and_finally_exactly_one(
    stage: RecipeStage, seed: int
) -> None:
    rng = Random(seed)
    ledger = Ledger(stage, "abcdefg"[: rng.randint(1, 7)])
    live: list[tuple[Member, Partitioner[Blocking]]] = []
    frozen: list[Member] = []
    outsider = stage.member()
    for _ in range(50):
        what = rng.choice(["join", "join", "close", "die", "freeze", "thaw", "cut", "time", "rm"])
        if what == "join":
            member = stage.member(session_timeout_ms=2_000)
            if rng.random() < 0.3:
                freeze_at(member, rng.randint(1, 10))
                frozen.append(member)
            live.append((member, ledger.join(member)))
        elif what == "time":
            stage.pass_time(500)
        elif what == "thaw" and frozen:
            frozen.pop(rng.randrange(len(frozen))).thaw()
        elif what == "rm":
            part = rng.choice(["members", "owners"])
            for name in outsider.do(get_children(f"{PATH}/{part}"))[:1]:
                try:
                    outsider.ask(Delete(f"{PATH}/{part}/{name}", -1))
                except NoNodeError:
                    raise AssertionError(name) from None
        elif live:
            member, one = live.pop(rng.randrange(len(live)))
            if what == "close":
                member.begin(one.close)
            elif what == "die":
                member.die()
            else:
                live.append((member, one))
                if what == "freeze":
                    member.freeze()
                    frozen.append(member)
                else:
                    member.cut()
                    member._is_cut = False
    for member in frozen:
        member.thaw()
    stage.pass_time(6_000)
    live = [(member, one) for member, one in live if not member._is_lost()]
    live.append((outsider, ledger.join(outsider)))
    owned = shares(*(one for _, one in live))
    assert sorted("".join(owned)) == ledger.names
    assert max(map(len, owned)) - min(map(len, owned)) <= 1
