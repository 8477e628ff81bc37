"""A client whose root is a znode: its paths, and those that a server knows.

Every request goes through `inside`, and whatever holds a path comes back through `answer` or
`shown`; so beyond the client core nobody knows of the prefix.

ZooKeeper: `ZooKeeper.prependChroot`, `ClientCnxn.stripChroot`; there the user handles results.
"""

from typing import Final, TypeVar

from msgspec import Struct, structs

from raykeeper.client.core.effects import Answer
from raykeeper.client.core.outstanding import Ask
from raykeeper.znodes.replies import PathsRead, Written
from raykeeper.znodes.requests import (
    Create,
    CreateMode,
    GetEphemerals,
    MultiRead,
    Transaction,
    TxnOp,
)
from raykeeper.znodes.txns import OpDone, OpResult, Results

T = TypeVar("T", bound=Struct)


class Chroot:
    """The znode at `path`, "" for the root of the ensemble."""

    def __init__(self, path: str) -> None:
        self.path = path

    def inside(self, ask: Ask) -> Ask:
        """The request as the server gets it."""
        if isinstance(ask, Transaction):
            compares = [self._moved(each) for each in ask.compares]
            return Transaction(compares, self._all(ask.then), self._all(ask.otherwise))
        if isinstance(ask, MultiRead):
            return MultiRead(ask.xid, [self._moved(each) for each in ask.ops])
        if isinstance(ask, GetEphemerals):
            return GetEphemerals(ask.xid, self.path + ask.path)
        if isinstance(ask, Create):
            return self._created(ask)
        return self._moved(ask) if hasattr(ask, "path") else ask

    def answer(self, answer: Answer) -> Answer:
        """The answer as the user gets it."""
        if not self.path:
            return answer
        if isinstance(answer, Written):
            results = answer.results
            if results is not None:
                results = Results(results.is_then, [self._result(x) for x in results.results])
            return structs.replace(answer, path=self.shown(answer.path), results=results)
        if isinstance(answer, PathsRead):
            return structs.replace(answer, paths=[self.shown(path) for path in answer.paths])
        return answer

    def shown(self, path: str) -> str:
        """The path as the user knows it; "" stays "", which stands for none."""
        return path[len(self.path) :] or "/" if path else path

    def _all(self, ops: list[TxnOp]) -> list[TxnOp]:
        return [self._created(op) if isinstance(op, Create) else self._moved(op) for op in ops]

    def _created(self, op: Create) -> Create:
        if op.flags & CreateMode.SEQUENTIAL:  # "/" is a prefix then
            return structs.replace(op, path=self.path + op.path)
        return self._moved(op)

    def _moved(self, thing: T) -> T:
        path: str = thing.path  # type: ignore[attr-defined]
        return structs.replace(thing, path=self.path if path == "/" else self.path + path)

    def _result(self, result: OpResult) -> OpResult:
        if isinstance(result, OpDone):
            return OpDone(self.shown(result.path), result.stat)
        return result


ROOT: Final = Chroot("")
