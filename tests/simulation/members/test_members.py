"""Members that change: a fixed set of seeds, and that a seed decides everything."""

from raykeeper.zab.effects import Append
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Millis, ServerId, Zxid
from raykeeper.znodes.requests import Reconfig, SessionId
from raykeeper.znodes.txns import ReplaceVoterTxn, Txn, encode_txn
from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.members.damage import SeatDamage
from tests.simulation.members.plans import MEMBERS, draw_members_plan
from tests.simulation.members.possible_lists import PossibleLists
from tests.simulation.members.world import MembersWorld

SEEDS = 40
OF_THREE = 1  # a seed with three servers


def test_members_pass_their_seeds() -> None:
    seen = run_seeds(MEMBERS, SEEDS)
    # Not all is refused.
    for name, least in (
        *(("steps", 400), ("lists", 100), ("acked", 400), ("joins_empty", 5), ("join_dies", 10)),
        ("in_a_row", 50),
        *(
            ("learned", 100),
            ("listed", 40),
            ("reconfig.done", 50),
            ("left", 20),
            ("steps_of_jute", 50),
        ),
        *(
            ("lose_folder", 2),
            ("triggered", 200),
            ("all_sizes", 0),
            ("majority_lost_in_a_step", 0),
        ),
    ):
        assert seen[name] > least, (name, seen)


def test_a_seed_decides_everything() -> None:
    assert_seed_decides(MEMBERS)


def test_a_disk_is_lost_only_while_every_list_that_may_count_bears_it() -> None:
    world = MembersWorld(draw_members_plan(OF_THREE))
    three = {ServerId(each): FOUNDING_DISK for each in (1, 2, 3)}
    lists = PossibleLists(world.checks.truth, world.nodes, three)
    damage = SeatDamage(world.nodes, lists)
    one, two, *_ = world.nodes
    assert damage.may_lose(one)
    one.disk.repair()
    assert damage.is_borne() and not damage.may_lose(two)
    # Without 3 one disk of two would be lost, and without 1 none.
    assert not damage.is_borne(Reconfig(0, 3, False, -1))
    assert damage.is_borne(Reconfig(0, 1, False, -1))
    # That the vote of 1 rests on its new disk counts beside the list before, until it is delivered.
    body = ReplaceVoterTxn(ServerId(1), one.disk.disk)
    data = encode_txn(Txn(SessionId(0), 0, 0, Millis(0), body))
    lists.appended(Append(Zxid(1), [data], ZERO))
    assert len(lists.logged()) == 2 and not damage.may_lose(two)
