"""The transactions that write a version: how it is divided. What they do: tests/recipes."""

import pytest

from raykeeper.client.recipes.publication import _transactions

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], [0]),
        ([1] * 199, [199]),  # and the parent
        ([1] * 200, [199, 1]),
        ([1] * 500, [199, 200, 101]),
        ([MIB], [1]),
        ([512 * KIB, 512 * KIB, 1], [2, 1]),
        ([1, MIB, 1, 1], [1, 1, 2]),
        ([2 * MIB, 1, 2 * MIB], [0, 1, 1, 1]),  # larger than a transaction may be: alone
    ],
)
def test_a_version_is_divided_into_transactions(sizes: list[int], parts: list[int]) -> None:
    values = {f"v{place}": bytes(size) for place, size in enumerate(sizes)}
    made = list(_transactions("/x", values))
    assert [len(part) for part in made] == [1 + parts[0], *parts[1:]]
    assert [each.path for part in made for each in part] == ["/x", *(f"/x/{n}" for n in values)]
