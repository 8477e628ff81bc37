"""Picking: which instance comes next as instances come and go."""

from random import Random

from raykeeper.client.recipes.picking import Instance, RandomPick, RoundRobin, Sticky
from raykeeper.zab.ids import Zxid


def instances(tokens: str, service: str = "s") -> list[Instance]:
    return [Instance(service, each, "host", 1, None, Zxid(ord(each))) for each in tokens]


def test_round_robin_goes_on_as_instances_come_and_go() -> None:
    pick = RoundRobin()
    there = ["abc", "abc", "abc", "abc", "acd", "acd", "a", "ad", "ad", "b"]
    assert "".join(pick(instances(each)).name for each in there) == "abcacdadab"


def test_each_service_has_its_own_round_robin() -> None:
    pick = RoundRobin()
    order = [pick(instances("ab", service)).name for service in "xyxyx"]
    assert order == ["a", "a", "b", "b", "a"]


def test_the_given_random_source_decides() -> None:
    picks = [RandomPick(Random(7))(instances("abcdef")) for _ in range(2)]
    assert picks[0] == picks[1]
    pick = RandomPick(Random(7))
    assert {pick(instances("abc")).name for _ in range(100)} == set("abc")


def test_a_sticky_pick_stays_while_its_instance_exists() -> None:
    pick = Sticky(RoundRobin())
    there = ["ab", "ab", "abc", "bc", "abc", "c"]
    assert "".join(pick(instances(each)).name for each in there) == "aaabbc"
    assert pick(instances("ab", "other")).name == "a"
    assert pick(instances("c")).name == "c"
