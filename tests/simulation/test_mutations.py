"""The simulator finds every deliberate fault of the core, so the checks can fail."""

from itertools import count, islice

import pytest

from tests.simulation.mutations.catalogue import all_mutations, failure_at, seeds_found
from tests.simulation.mutations.mutation import Mutation

FOUND = seeds_found()


@pytest.mark.parametrize("mutation", all_mutations(), ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    first = FOUND.get(mutation.name, 1)
    seeds = islice(count(first), mutation.within)
    assert any(failure_at(mutation, seed) for seed in seeds), (
        f"{mutation.name}: not found by {mutation.within} seeds from {first} on"
    )


def test_names_are_unique() -> None:
    names = [mutation.name for mutation in all_mutations()]
    assert len(names) == len(set(names))


def test_what_is_changed_is_there() -> None:
    for mutation in all_mutations():
        with mutation.applied():
            pass
