"""Batches: how frames are packed, and that order and frames are restored."""

import itertools
from random import Random

import pytest

from raykeeper.links import batches
from raykeeper.links.batches import IncomingBatches, OutgoingBatches, Portion
from raykeeper.links.limits import BATCH_BYTES_MAX, FRAME_BYTES_MAX, FRAMES_MAX, PORTION_BYTES

BOUND = 64 << 20
P = PORTION_BYTES

Sizes = tuple[list[int], bool]


def outgoing(*sizes: int, bound: int = BOUND) -> OutgoingBatches:
    frames = OutgoingBatches(bound)
    for size in sizes:
        assert frames.add(bytes(size))
    return frames


def drained(frames: OutgoingBatches, portions_max: int) -> list[list[Sizes]]:
    """Return the frame sizes in each portion of each batch; check the batch numbers."""
    found = []
    for expected in itertools.count():
        if not frames:
            break
        number, portions = frames.take(portions_max)
        assert number == expected == frames.next_number - 1
        found.append([([len(frame) for frame in pieces], goes_on) for pieces, goes_on in portions])
    return found


@pytest.mark.parametrize(
    ("portions_max", "sizes", "expected"),
    [
        # What waits leaves in one batch.
        (1, [1, 2, 0, 3], [[([1, 2, 0, 3], False)]]),
        (8, [1, 2, 0, 3], [[([1, 2, 0, 3], False)]]),
        # A portion is full to the byte; a frame goes on in the next one.
        (8, [P, P], [[([P], False), ([P], False)]]),
        (8, [P - 1, 3], [[([P - 1, 1], True), ([2], False)]]),
        (8, [3 * P], [[([P], True), ([P], True), ([P], False)]]),
        # And in the next batch.
        (1, [P + 1], [[([P], True)], [([1], False)]]),
        (2, [3 * P], [[([P], True), ([P], True)], [([P], False)]]),
        # What needs the object store anyway goes at once, up to a bound.
        (1, [P, P], [[([P, P], False)]]),
        (2, [4 * P], [[([4 * P], False)]]),
        (
            1,
            [BATCH_BYTES_MAX, BATCH_BYTES_MAX],
            [[([BATCH_BYTES_MAX], False)], [([BATCH_BYTES_MAX], False)]],
        ),
        (1, [1, BATCH_BYTES_MAX], [[([1, BATCH_BYTES_MAX - 1], True)], [([1], False)]]),
        # A portion is bounded in frames.
        (2, [1] * (FRAMES_MAX + 1), [[([1] * FRAMES_MAX, False), ([1], False)]]),
    ],
)  # fmt: skip
def test_frames_are_packed_into_batches(
    portions_max: int, sizes: list[int], expected: list[list[Sizes]]
) -> None:
    assert drained(outgoing(*sizes), portions_max) == expected


def test_the_queue_is_bounded() -> None:
    frames = outgoing(6, 4, bound=10)
    assert not frames.add(b"x")
    frames.take(1)
    assert frames.add(bytes(10))
    assert not OutgoingBatches(FRAME_BYTES_MAX * 2).add(bytes(FRAME_BYTES_MAX + 1))


def test_the_callback_gets_the_bytes_of_each_batch() -> None:
    frames = outgoing(10, P, 5)
    left: list[int] = []
    frames.on_bytes_taken(left.append)
    frames.take(1)
    frames.take(1)
    assert left == [P, 15]


def test_clear_empties_the_queue() -> None:
    frames = outgoing(P + 1, bound=P + 1)
    frames.take(1)
    frames.clear()
    assert not frames
    assert frames.add(bytes(P + 1))
    assert frames.take(1) == (1, [([bytes(P)], True)])


def test_split_frames_are_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send random frames in small portions, with random swaps of neighbouring batches."""
    monkeypatch.setattr(batches, "PORTION_BYTES", 10)
    monkeypatch.setattr(batches, "BATCH_BYTES_MAX", 50)
    dice = Random(5)
    for _ in range(300):
        sent = [
            dice.randbytes(dice.choice((0, 1, 3, 9, 30, 120))) for _ in range(dice.randrange(9))
        ]
        out, incoming = OutgoingBatches(BOUND), IncomingBatches()
        waiting: list[tuple[int, list[Portion]]] = []
        received: list[bytes] = []
        queue = list(sent)
        while queue or out or waiting:
            for _ in range(dice.randrange(3)):
                if queue:
                    out.add(queue.pop(0))
            if out and len(waiting) < 2:
                waiting.append(out.take(dice.choice((1, 3))))
            if waiting and dice.random() < 0.5:
                ready = incoming.put(*waiting.pop(dice.randrange(len(waiting))))
                assert ready is not None
                received += ready
        assert received == sent


def test_every_order_of_arrival_gives_the_order_of_sending() -> None:
    for arrival in itertools.permutations(range(4)):
        incoming = IncomingBatches()
        received: list[bytes] = []
        for number in arrival:
            ready = incoming.put(number, [([b"%d" % number], False)])
            assert ready is not None
            received += ready
        assert received == [b"0", b"1", b"2", b"3"]
        assert incoming.expected == 4


def whole(frame: bytes) -> list[Portion]:
    return [([frame], False)]


def test_a_repeated_number_is_refused() -> None:
    incoming = IncomingBatches()
    assert incoming.put(0, whole(b"a")) == [b"a"]
    assert incoming.put(2, whole(b"c")) == []
    assert incoming.put(0, whole(b"a")) is None
    assert incoming.put(2, whole(b"c")) is None
    assert incoming.put(1, whole(b"b")) == [b"b", b"c"]


def test_a_frame_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "FRAME_BYTES_MAX", 10)
    incoming = IncomingBatches()
    assert incoming.put(0, [([bytes(10)], True)]) == []
    assert incoming.put(1, [([b"x"], True)]) is None
