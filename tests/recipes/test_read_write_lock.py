"""The read/write lock: who waits for whom, who is woken, and the order of tokens."""

import pytest

from raykeeper.client.errors import LostError
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import Member, Outcome, RecipeStage

PATH = "/locks/x"


def begin(member: Member, kind: str) -> Outcome:
    lock = member.read_write_lock(PATH)
    return member.begin((lock.read if kind == "r" else lock.write).acquire)


def states(waits: list[Outcome]) -> str:
    return "".join("+" if wait.is_done else "." for wait in waits)


@pytest.mark.parametrize(
    ("queue", "holders"),
    [
        ("rrr", "+++"),  # readers share it
        ("www", "+.."),  # writers do not
        ("rrw", "++."),
        ("wrr", "+.."),
        ("rwr", "+.."),  # a reader does not pass a writer that waits
        ("rrwrw", "++..."),
    ],
)
def test_readers_hold_together_and_a_writer_alone(
    stage: RecipeStage, queue: str, holders: str
) -> None:
    assert states([begin(stage.member(), kind) for kind in queue]) == holders


def test_the_queue_is_served_in_order(stage: RecipeStage) -> None:
    waits = [begin(stage.member(), kind) for kind in "rrwrrww"]
    seen = [states(waits)]
    for release in (1, 0, 2, 4, 3, 5, 6):  # a later reader may go before an earlier one
        waits[release].value.release()
        seen.append(states(waits))
    assert seen == [
        *("++.....", "++.....", "+++....", "+++++..", "+++++.."),
        *("++++++.", "+++++++", "+++++++"),
    ]


def test_a_released_writer_wakes_all_next_readers_together(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(52)]
    writer = begin(members[0], "w")
    readers = [begin(member, "r") for member in members[1:51]]
    last = begin(members[51], "w")
    before = [member.events for member in members]
    writer.value.release()
    woken = [member.events - was for member, was in zip(members, before, strict=True)]
    assert woken[1:] == [1] * 50 + [0]
    assert states(readers) == "+" * 50
    assert not last.is_done
    # Readers wake no readers; the writer looks again when the one right before it has gone.
    before = [member.events for member in members]
    for reader in readers:
        assert not last.is_done
        reader.value.release()
    woken = [member.events - was for member, was in zip(members, before, strict=True)]
    assert woken[1:] == [1] * 51  # each of its own znode
    assert last.is_done


def test_tokens_are_larger_than_those_of_earlier_conflicting_holders(stage: RecipeStage) -> None:
    waits = [begin(stage.member(), kind) for kind in "wrrwr"]
    tokens = []
    for wait in waits:
        tokens.append(wait.value.token)
        wait.value.release()
    assert tokens == sorted(set(tokens))


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.read_write_lock(PATH).read.acquire().release()
    for kind in "rw":
        alice.asked.clear()
        held = begin(alice, kind).value
        assert dict(alice.asked) == {"Create": 1, "GetChildren": 1, "GetData": 1}
        held.release()
        assert alice.asked["Multi"] == 1


def test_a_dead_or_cancelled_writer_lets_the_readers_in(stage: RecipeStage) -> None:
    alice, bob, carol = stage.member(), stage.member(), stage.member(session_timeout_ms=2_000)
    reading = begin(alice, "r").value
    writing = begin(bob, "w")
    waiting = begin(alice, "r")
    assert not waiting.is_done
    writing.run.cancel()
    stage.rest()
    waiting.value.release()
    writing = begin(carol, "w")
    waiting = begin(alice, "r")
    carol.die()
    stage.pass_time(4_000)
    assert waiting.is_done
    assert not reading.lost.is_set()


def test_a_reader_whose_znode_is_deleted_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    begin(alice, "w")
    waiting = begin(bob, "r")
    listed = alice.read_write_lock(PATH).contenders()
    assert [each.name[:-10] for each in listed] == ["write-", "read-"]
    alice.ask(Delete(f"{PATH}/{listed[1].name}", -1))
    with pytest.raises(LostError):
        _ = waiting.value


def test_with_blocks_of_both_kinds_release(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    lock = alice.read_write_lock(PATH, b"alice")
    with lock.read as first, bob.read_write_lock(PATH).read as second:
        assert second.token > first.token
        assert lock.contenders()[0].identifier == b"alice"
        with pytest.raises(TimeoutError, match="the write lock /locks/x"):
            lock.write.acquire(timeout_s=0)
    with lock.write as third, pytest.raises(TimeoutError):
        bob.read_write_lock(PATH).read.acquire(timeout_s=0)
    assert third.token > second.token


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError):
        alice.read_write_lock("/")
    with pytest.raises(BadArgumentsError):
        alice.read_write_lock(PATH, "me")  # type: ignore[arg-type]
