"""Programs of two versions change one configuration: what the older does not know stays."""

from typing import Any

import msgspec
import pytest

from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import InvalidValueError
from raykeeper.client.recipes.configuration import NO_VERSION
from raykeeper.client.recipes.value_types import Format
from raykeeper.znodes.requests import Delete, GetData
from tests.harness.recipe_stage import Member, RecipeStage

PATH, OTHER = "/app/limits", "/app/other"


class Old(msgspec.Struct):
    """What the older program knows."""

    rate: int = 100


class New(msgspec.Struct):
    """What the newer one does."""

    rate: int = 100
    burst: int = 0


def faster(now: Any) -> Any:
    now.rate += 1  # in its place
    return now


def written(member: Member, path: str = PATH) -> bytes:
    value: bytes = member.ask(Query(GetData, path))[0]
    return value


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_an_update_keeps_unknown_fields(stage: RecipeStage, form: Format) -> None:
    older = stage.member().configuration(PATH, Old, form=form)
    newer = stage.member().configuration(PATH, New, form=form)
    newer.set(New(7, 3))
    assert older.update(faster) == (Old(8), 1)
    assert newer.get() == (New(8, 3), 1)
    assert older.update(lambda now: now) == (Old(8), 2)
    assert newer.get() == (New(8, 3), 2)


def test_an_update_keeps_unknown_fields_written_meanwhile(stage: RecipeStage) -> None:
    alice = stage.member()
    older, newer = alice.configuration(PATH, Old), stage.member().configuration(PATH, New)
    newer.set(New(7, 3))
    bursts = [4, 5]

    def crossed(now: Old) -> Old:
        if bursts:
            newer.set(New(now.rate + 10, bursts.pop(0)))
        return faster(now)

    assert older.update(crossed).value == Old(28)
    assert newer.get().value == New(28, 5)


def test_without_a_znode_the_default_alone_is_written(stage: RecipeStage) -> None:
    alice = stage.member()
    older = alice.configuration(PATH, Old, Old(1))
    assert older.update(faster) == (Old(2), 0)  # made twice: a parent was missing
    assert written(alice) == b'{"rate":2}'
    alice.ask(Delete(PATH, -1))
    assert older.get() == (Old(1), NO_VERSION)


def test_set_replaces_the_whole_value(stage: RecipeStage) -> None:
    alice = stage.member()
    older, newer = alice.configuration(PATH, Old), alice.configuration(PATH, New)
    for version in (None, 2):
        newer.set(New(7, 3))
        older.set(Old(8), version=version)
        assert written(alice) == b'{"rate":8}'
    newer.set(New(7, 3))
    alice.configurations({PATH: Old}).set({PATH: Old(9)})
    assert written(alice) == b'{"rate":9}'


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_each_of_several_values_keeps_its_own_unknown_fields(
    stage: RecipeStage, form: Format
) -> None:
    alice = stage.member()
    older = alice.configurations({PATH: Old, OTHER: Old}, form=form)
    newer = stage.member().configurations({PATH: New, OTHER: New}, form=form)
    newer.set({PATH: New(1, 2), OTHER: New(3, 4)})
    bursts = [5, 6]

    def crossed(now: dict[str, Old]) -> dict[str, Old]:
        if bursts:
            newer.set({OTHER: New(now[OTHER].rate + 10, bursts.pop(0))})
        return {path: faster(value) for path, value in now.items()}

    older.update(crossed)
    assert {path: each.value for path, each in newer.get().items()} == {
        PATH: New(2, 2),
        OTHER: New(24, 6),
    }
    older.update(lambda now: {PATH: faster(now[PATH])})
    assert newer.get()[PATH].value == New(3, 2)


def test_an_older_program_that_refuses_unknown_fields_changes_nothing(stage: RecipeStage) -> None:
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        rate: int = 100

    alice = stage.member()
    newer = alice.configuration(PATH, New)
    newer.set(New(7, 3))
    with pytest.raises(InvalidValueError, match="unknown field `burst`"):
        alice.configuration(PATH, Strict).update(faster)
    assert newer.get() == (New(7, 3), 0)
