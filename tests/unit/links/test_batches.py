"""Batches: what one takes along, and that order is put back."""

import itertools

from raykeeper.links.batches import IncomingBatches, OutgoingFrames
from raykeeper.links.limits import (
    BATCH_BYTES_MAX,
    BATCH_FRAMES_MAX,
    BATCH_INLINE_BYTES,
    FRAME_BYTES_MAX,
)

BOUND = 64 << 20


def outgoing(*sizes: int, bound: int = BOUND) -> OutgoingFrames:
    frames = OutgoingFrames(bound)
    for size in sizes:
        assert frames.add(bytes(size))
    return frames


def drained(frames: OutgoingFrames) -> list[list[int]]:
    """The sizes in each batch until nothing waits; the numbers are checked on the way."""
    batches = []
    for expected in itertools.count():
        if not frames:
            return batches
        number, batch = frames.take()
        assert number == expected
        batches.append([len(frame) for frame in batch])
    raise AssertionError


def test_what_waits_leaves_in_one_batch() -> None:
    assert drained(outgoing(1, 2, 3)) == [[1, 2, 3]]


def test_a_call_slightly_too_large_for_the_message_is_cut_in_two() -> None:
    third = BATCH_INLINE_BYTES // 3
    assert drained(outgoing(*[third] * 5)) == [[third] * 3, [third] * 2]


def test_what_needs_the_object_store_anyway_goes_at_once() -> None:
    sizes = [BATCH_INLINE_BYTES] * 4
    assert drained(outgoing(*sizes)) == [sizes]


def test_a_batch_is_bounded_in_bytes_and_in_frames() -> None:
    half = BATCH_BYTES_MAX // 2
    assert drained(outgoing(half, half, half)) == [[half, half], [half]]
    ones = [1] * BATCH_FRAMES_MAX
    assert drained(outgoing(*ones, 1)) == [ones, [1]]


def test_a_frame_larger_than_a_batch_travels_alone() -> None:
    large = BATCH_BYTES_MAX + 1
    assert drained(outgoing(1, large, 1)) == [[1], [large], [1]]


def test_what_waits_is_bounded() -> None:
    frames = outgoing(6, 4, bound=10)
    assert not frames.add(b"x")
    frames.take()
    assert frames.add(bytes(10))
    assert not OutgoingFrames(FRAME_BYTES_MAX * 2).add(bytes(FRAME_BYTES_MAX + 1))


def test_clear_forgets_what_waits() -> None:
    frames = outgoing(10, bound=10)
    frames.clear()
    assert not frames
    assert frames.add(bytes(10))


def test_every_order_of_arrival_gives_the_order_of_sending() -> None:
    for arrival in itertools.permutations(range(4)):
        incoming = IncomingBatches()
        received: list[bytes] = []
        for number in arrival:
            ready = incoming.put(number, [b"%d" % number])
            assert ready is not None
            received += ready
        assert received == [b"0", b"1", b"2", b"3"]
        assert incoming.next == 4


def test_a_number_that_came_before_is_refused() -> None:
    incoming = IncomingBatches()
    assert incoming.put(0, [b"a"]) == [b"a"]
    assert incoming.put(2, [b"c"]) == []
    assert incoming.put(0, [b"a"]) is None
    assert incoming.put(2, [b"c"]) is None
    assert incoming.put(1, [b"b"]) == [b"b", b"c"]
