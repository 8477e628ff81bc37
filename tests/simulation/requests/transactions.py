"""Multis: plain ones, and ones with conditions and two branches."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from raykeeper.znodes.requests import (
    ANY_VERSION,
    Check,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Multi,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)

PLACES: Final = [f"/n{i}" for i in range(4)] + [f"/n{i}/c{j}" for i in range(2) for j in range(3)]
"""Where all clients meet, whatever they do."""
MOVED: Final = ("/n2/from", "/n2/to")


class Transactions:
    """The multis of one session. `versions` is what the session knows of znodes."""

    def __init__(
        self, random: Random, value: Callable[[], bytes], versions: Mapping[str, int]
    ) -> None:
        self._random = random
        self._value = value
        self._versions = versions

    def next(self) -> Multi:
        """Return the next multi."""
        draw: Callable[[], Multi] = self._random.choice(
            [self._mixed, self._moves, self._visits, self._compares, self._compares, self._joins]
        )
        return draw()

    def _mixed(self) -> Multi:
        """Draw any operations: most of these multis are aborted, and must leave no trace."""
        ops = [self._op() for _ in range(self._random.randint(1, 5))]
        return Multi([], ops, [])

    def _moves(self) -> Multi:
        """Move a znode, or create it at the first of the two places."""
        here, there = self._random.sample(MOVED, 2)
        compare = Compare(here, CompareField.EXISTS, Relation.EQUAL, 1)
        moved: list[TxnOp] = [Delete(here, ANY_VERSION), Create(there, self._value(), 0)]
        if self._random.random() < 0.5:
            moved.append(ReadChildren("/n2"))
        made: list[TxnOp] = [Create(MOVED[0], self._value(), 0), ReadStat(there)]
        return Multi([compare], moved, made)

    def _visits(self) -> Multi:
        """Create, change, read and delete a znode in one multi; its parent only counts it."""
        path = self._path()
        ops: list[TxnOp] = [
            Create(path, self._value(), self._random.choice([0, CreateMode.EPHEMERAL])),
            ReadStat(path),
            SetData(path, self._value(), 0),
            ReadData(path),
            Delete(path, self._random.choice([1, ANY_VERSION])),
            ReadStat(path),
        ]
        return Multi([], ops[: self._random.randint(3, 6)], [])

    def _compares(self) -> Multi:
        """Compare and set, or else read the present value."""
        random, path = self._random, self._path()
        known = self._versions.get(path, 0)
        relation = random.choice(list(Relation))
        compare = random.choice(
            [
                Compare(path, CompareField.VERSION, relation, known),
                Compare(path, CompareField.VALUE, Relation.NOT_EQUAL, b""),
                Compare(path, CompareField.EXISTS, Relation.EQUAL, random.randint(0, 1)),
                Compare(path, CompareField.MZXID, Relation.GREATER, 1 << 42),
                Compare(path, CompareField.CZXID, Relation.LESS, 1 << 42 | 40),
                Compare("/n1", CompareField.NUM_CHILDREN, relation, random.randint(0, 4)),
            ]
        )
        changes: list[TxnOp] = [SetData(path, self._value(), ANY_VERSION), ReadData(path)]
        reads: list[TxnOp] = [ReadStat(path), ReadChildren("/n1"), ReadData(path)]
        return Multi([compare], changes, reads[: random.randint(1, 3)])

    def _joins(self) -> Multi:
        """Create two queue entries at once, under the same conditions."""
        mode = CreateMode.SEQUENTIAL | self._random.choice([0, CreateMode.EPHEMERAL])
        ops: list[TxnOp] = [
            Check("/n1", ANY_VERSION),
            Create("/n1/s-", self._value(), mode),
            Create("/n1/s-", self._value(), mode),
            ReadChildren("/n1"),
        ]
        if self._random.random() < 0.3:
            ops.append(Check("/n1", self._versions.get("/n1", 0) + 1))
        return Multi([], ops, [])

    def _op(self) -> TxnOp:
        random, path = self._random, self._path()
        version = random.choice([ANY_VERSION, ANY_VERSION, self._versions.get(path, 0)])
        return random.choice(
            [
                Create(path, self._value(), random.choice([0, 0, CreateMode.EPHEMERAL])),
                SetData(path, self._value(), version),
                Delete(path, version),
                Check(path, version),
                ReadData(path),
                ReadStat(path),
                ReadChildren(random.choice(["/", "/n0", "/n1"])),
            ]
        )

    def _path(self) -> str:
        return self._random.choice(PLACES)
