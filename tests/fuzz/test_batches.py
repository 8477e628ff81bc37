"""Batches of frames that are lost, repeated, out of order, or not what was sent.

What was sent arrives as a prefix, or the link is given up. A batch that was altered may alter the
frames in it, which their own decoders meet; it never raises, and never waits without bound.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.links import batches
from raykeeper.links.batches import IncomingBatches, OutgoingBatches, Portion
from tests.fuzz.budget import bounded, examples

Batch = tuple[int, list[Portion]]


def sent(frames: list[bytes], per_batch: int, portions_max: int) -> list[Batch]:
    """The batches of `frames`, of which `per_batch` wait at a time."""
    outgoing = OutgoingBatches(1 << 20)
    found: list[Batch] = []
    for start in range(0, len(frames), per_batch):
        for frame in frames[start : start + per_batch]:
            assert outgoing.add(frame)
        while outgoing:
            found.append(outgoing.take(portions_max))
    return found


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a few bytes already span portions."""
    monkeypatch.setattr(batches, "PORTION_BYTES", 5)
    monkeypatch.setattr(batches, "BATCH_BYTES_MAX", 64)


sequences = st.builds(
    sent, st.lists(st.binary(max_size=20), max_size=12), st.integers(1, 5), st.integers(1, 3)
)


@examples(200)
@given(st.lists(st.binary(max_size=20), max_size=12), st.integers(1, 5), st.data())
def test_a_prefix_arrives_under_any_alteration(
    frames: list[bytes], per_batch: int, data: st.DataObject
) -> None:
    batch_list = sent(frames, per_batch, 2)
    arriving = data.draw(st.permutations(batch_list)) if batch_list else []
    arriving = arriving[: data.draw(st.integers(0, len(arriving)))]
    repeated = data.draw(st.booleans())
    incoming = IncomingBatches()
    got: list[bytes] = []
    for number, portions in arriving:
        ready = incoming.put(number, portions)
        assert ready is not None
        got += ready
        if repeated:
            assert incoming.put(number, portions) is None
    assert got == frames[: len(got)]
    if len(arriving) == len(batch_list):
        assert got == frames


@examples(200)
@given(sequences, st.randoms(use_true_random=False))
def test_altered_batches_are_refused_or_whole(batch_list: list[Batch], rng: Random) -> None:
    incoming = IncomingBatches()
    size = 0
    with bounded(10_000):
        for number, portions in batch_list:
            altered = list(portions)
            if rng.random() < 0.5:
                altered.append(rng.choice([([], True), ([b""], True), ([], False), ([b"x"], True)]))
            if rng.random() < 0.2:
                number = rng.choice([0, number + 1, -1, 1 << 63])
            size += sum(len(piece) for pieces, _ in altered for piece in pieces)
            ready = incoming.put(number, altered)
            if ready is None:
                return
            size -= sum(map(len, ready))
    assert size >= 0, "more came out than went in"


def test_early_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "EARLY_BYTES_MAX", 100)
    monkeypatch.setattr(batches, "EARLY_BATCHES_MAX", 10)
    large, many = IncomingBatches(), IncomingBatches()
    assert [large.put(number, [([bytes(40)], False)]) for number in (1, 2, 3)] == [[], [], None]
    answers = [many.put(number, [([], False)]) for number in range(1, 12)]
    assert answers == [[]] * 10 + [None]


def test_a_delivered_early_batch_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "EARLY_BYTES_MAX", 100)
    incoming = IncomingBatches()
    for number in range(0, 20, 2):
        assert incoming.put(number + 1, [([bytes(60)], False)]) == []
        assert incoming.put(number, [([b""], False)]) == [b"", bytes(60)]
