"""Compare and set: who has not seen a value does not replace it."""

import pytest

from raykeeper.client.recipes.replacing import MISSING, Seen, change, put, replace, see
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import NoAuthError
from raykeeper.znodes.requests import Delete, SetAcls, SetData
from tests.recipes.stage import Stage

PATH = "/deep/down/x"


def test_only_what_was_seen_is_replaced(stage: Stage) -> None:
    alice, bob = stage.member(), stage.member()
    assert alice.do(see(PATH)) is MISSING
    is_done, now = alice.do(replace(PATH, b"1", MISSING))
    assert (is_done, now) == (False, MISSING)  # the parents were missing, and are made now
    is_done, first = alice.do(replace(PATH, b"1", MISSING))
    assert is_done
    assert first == bob.do(see(PATH))
    is_done, now = bob.do(replace(PATH, b"2", MISSING))
    assert (is_done, now) == (False, first)
    is_done, second = bob.do(replace(PATH, b"1", first))
    assert is_done
    assert second.is_other(first)
    assert alice.do(replace(PATH, b"3", first)) == (False, second)
    bob.ask(Delete(PATH, -1))
    assert alice.do(replace(PATH, b"3", second)) == (False, MISSING)


def test_a_znode_made_anew_is_another_one(stage: Stage) -> None:
    alice, bob = stage.member(), stage.member()
    first = alice.do(put(PATH, b"1"))
    bob.ask(Delete(PATH, -1))
    again = bob.do(put(PATH, b"1"))
    assert (first.stat.version, first.value) == (again.stat.version, again.value)
    assert alice.do(replace(PATH, b"2", first)) == (False, again)
    assert not again.is_other(alice.do(see(PATH, linearizable=True)))
    assert first.is_other(MISSING)
    assert MISSING.is_other(first)
    assert not MISSING.is_other(Seen())


def test_a_change_is_made_of_what_is_there(stage: Stage) -> None:
    alice, bob = stage.member(), stage.member()
    stale = alice.do(put(PATH, b"1"))
    bob.ask(SetData(PATH, b"2", -1))
    made_of: list[bytes | None] = []

    def doubled(seen: Seen) -> bytes:
        made_of.append(seen.value)
        return (seen.value or b"") * 2

    assert alice.do(change(PATH, doubled, stale)).value == b"22"
    assert made_of == [b"1", b"2"]


def test_what_is_refused_is_told(stage: Stage) -> None:
    alice, bob = stage.member(), stage.member()
    seen = alice.do(put(PATH, b"1"))
    bob.ask(SetAcls(PATH, [Acl(Permission.READ, "world", "anyone")], -1))
    for flow in (put(PATH, b"2"), replace(PATH, b"2", seen), change(PATH, lambda _: b"2", seen)):
        with pytest.raises(NoAuthError):
            alice.do(flow)
    assert alice.do(see(PATH)).value == b"1"
