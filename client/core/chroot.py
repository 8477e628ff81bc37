"""The chroot of a client: translates between the client's paths and the server's.

`prepend` translates every request; `strip_reply` and `strip` translate every path that comes back.
No code beyond the client core sees the prefix.

ZooKeeper: `ZooKeeper.prependChroot`, `ClientCnxn.stripChroot`; there the user handles results.
"""

from typing import Final, TypeVar

from msgspec import Struct, structs

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.znodes.replies import GetEphemeralsReply, WriteReply
from raykeeper.znodes.requests import Create, CreateMode, GetEphemerals, Multi, MultiRead, TxnOp
from raykeeper.znodes.txns import MultiResults, OpDone, OpResult

T = TypeVar("T", bound=Struct)


class Chroot:
    """The znode at `path` as the root of a client; "" stands for the root of the ensemble."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepend(self, request: NewRequest) -> NewRequest:
        """Return the request with the server's paths."""
        if isinstance(request, Multi):
            compares = [self._prepended(each) for each in request.compares]
            return Multi(
                compares, self._ops_prepended(request.then), self._ops_prepended(request.otherwise)
            )
        if isinstance(request, MultiRead):
            return MultiRead(request.xid, [self._prepended(each) for each in request.ops])
        if isinstance(request, GetEphemerals):
            return GetEphemerals(request.xid, self.path + request.path)
        if isinstance(request, Create):
            return self._create_prepended(request)
        if isinstance(request, Query) and request.ignores_chroot:
            return request
        return self._prepended(request) if hasattr(request, "path") else request

    def strip_reply(self, answer: SuccessReply) -> SuccessReply:
        """Return the reply with the user's paths."""
        if isinstance(answer, WriteReply):
            results = answer.results
            if results is not None:
                results = MultiResults(
                    results.is_then, [self._result_stripped(x) for x in results.results]
                )
            return structs.replace(answer, path=self.strip(answer.path), results=results)
        if isinstance(answer, GetEphemeralsReply):
            return structs.replace(answer, paths=[self.strip(path) for path in answer.paths])
        return answer

    def strip(self, path: str) -> str:
        """Return the user's path.

        What is not below the chroot stays as it is: "", which stands for none, /zookeeper/config,
        and the words of a reply.
        """
        if path == self.path:
            return "/" if path else path
        return path[len(self.path) :] if path.startswith(f"{self.path}/") else path

    def _ops_prepended(self, ops: list[TxnOp]) -> list[TxnOp]:
        return [
            self._create_prepended(op) if isinstance(op, Create) else self._prepended(op)
            for op in ops
        ]

    def _create_prepended(self, op: Create) -> Create:
        if op.flags & CreateMode.SEQUENTIAL:  # "/" is a prefix then
            return structs.replace(op, path=self.path + op.path)
        return self._prepended(op)

    def _prepended(self, thing: T) -> T:
        path: str = thing.path  # type: ignore[attr-defined]
        return structs.replace(thing, path=self.path if path == "/" else self.path + path)

    def _result_stripped(self, result: OpResult) -> OpResult:
        if isinstance(result, OpDone):
            return OpDone(self.strip(result.path), result.stat)
        return result


ROOT: Final = Chroot("")
