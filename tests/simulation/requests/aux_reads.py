"""Reads of several znodes at once, and of data that is not in one znode."""

from random import Random

from raykeeper.client.core.outstanding import NewRequest
from raykeeper.znodes.requests import (
    CountDescendants,
    GetAcls,
    GetEphemerals,
    MultiRead,
    ReadChildren,
    ReadData,
    ReadStat,
    WhoAmI,
)
from tests.simulation.requests.acls import GUARDED
from tests.simulation.requests.transactions import PLACES


class AuxReads:
    """The auxiliary reads of one session."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def next(self) -> NewRequest:
        """Return the next request."""
        random = self._random
        kind = random.random()
        if kind < 0.4:
            reads = [ReadData, ReadStat, ReadChildren]
            paths = random.choices([*PLACES, *GUARDED, "/"], k=random.randint(1, 4))
            return MultiRead(0, [random.choice(reads)(path) for path in paths])
        if kind < 0.6:
            return GetEphemerals(0, random.choice(["", "/", "/n0", "/n1/s-"]))
        if kind < 0.75:
            return CountDescendants(0, random.choice(["/n0", "/n1", "/zookeeper"]))
        return random.choice([GetAcls(0, random.choice(["/", *PLACES])), WhoAmI(0)])
