"""Compare and set: who has not seen a value does not replace it."""

import pytest

from raykeeper.client.recipes.compare_and_set import (
    MISSING,
    ObservedValue,
    compare_and_set,
    read_current,
    read_modify_write,
    set_or_create,
)
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import NoAuthError
from raykeeper.znodes.requests import Delete, SetAcls, SetData
from tests.harness.recipe_stage import RecipeStage

PATH = "/deep/down/x"


def test_only_the_observed_value_is_replaced(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    assert alice.do(read_current(PATH)) is MISSING
    is_done, now = alice.do(compare_and_set(PATH, b"1", MISSING))
    assert (is_done, now) == (False, MISSING)  # the parents were missing, and are made now
    is_done, first = alice.do(compare_and_set(PATH, b"1", MISSING))
    assert is_done
    assert first == bob.do(read_current(PATH))
    is_done, now = bob.do(compare_and_set(PATH, b"2", MISSING))
    assert (is_done, now) == (False, first)
    is_done, second = bob.do(compare_and_set(PATH, b"1", first))
    assert is_done
    assert second.differs_from(first)
    assert alice.do(compare_and_set(PATH, b"3", first)) == (False, second)
    bob.ask(Delete(PATH, -1))
    assert alice.do(compare_and_set(PATH, b"3", second)) == (False, MISSING)


def test_a_recreated_znode_is_another_one(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    first = alice.do(set_or_create(PATH, b"1"))
    bob.ask(Delete(PATH, -1))
    again = bob.do(set_or_create(PATH, b"1"))
    assert (first.stat.version, first.value) == (again.stat.version, again.value)
    assert alice.do(compare_and_set(PATH, b"2", first)) == (False, again)
    assert not again.differs_from(alice.do(read_current(PATH, linearizable=True)))
    assert first.differs_from(MISSING)
    assert MISSING.differs_from(first)
    assert not MISSING.differs_from(ObservedValue())


def test_a_change_is_computed_from_the_current_value(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    stale = alice.do(set_or_create(PATH, b"1"))
    bob.ask(SetData(PATH, b"2", -1))
    made_of: list[bytes | None] = []

    def doubled(seen: ObservedValue) -> bytes:
        made_of.append(seen.value)
        return (seen.value or b"") * 2

    assert alice.do(read_modify_write(PATH, doubled, stale)).value == b"22"
    assert made_of == [b"1", b"2"]


def test_a_refused_write_raises(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    seen = alice.do(set_or_create(PATH, b"1"))
    bob.ask(SetAcls(PATH, [Acl(Permission.READ, "world", "anyone")], -1))
    for flow in (
        set_or_create(PATH, b"2"),
        compare_and_set(PATH, b"2", seen),
        read_modify_write(PATH, lambda _: b"2", seen),
    ):
        with pytest.raises(NoAuthError):
            alice.do(flow)
    assert alice.do(read_current(PATH)).value == b"1"
