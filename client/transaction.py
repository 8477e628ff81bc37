"""Transactions: several operations as one, all or nothing, at one zxid.

    with client.transaction() as t:
        t.check("/config", version=3)
        t.set("/config", b"v4")
        t.create("/log/entry-", b"v4", sequence=True)
    print(t.results)                    # [None, Stat(...), "/log/entry-0000000007"]

With conditions, the server performs one of two branches, reads included:

    with client.transaction() as t:
        t.when("/leader", "value", "==", b"me")     # all of them must hold
        t.set("/config", b"v4")
        t.otherwise.get("/leader")
    print(t.succeeded, t.results)       # False, [(b"you", Stat(...))]

With `when_held` a transaction writes only while the lock is held, even if its holder stood still
and does not know that it has lost the lock:

    with client.lock("/locks/config") as held, client.transaction() as t:
        t.when_held(held)
        t.set("/config", b"v5")
    assert t.succeeded

With `consume` it takes an element from a lock queue, together with all else that it does
(client/recipes/lock_queue.py).

An operation that fails undoes everything: `commit`, and so the end of the `with` block, raises its
error (kazoo returns a list with the exceptions, which is easily overlooked). The error has
`failed`, the index of the operation, and `results`, kazoo's list. A block that is left by an
exception sends nothing. Each operation has the same result as alone; a `check` has None.

With an `AsyncClient` it is `async with`, and `await t.commit()`.

kazoo: `TransactionRequest`. Conditions with two branches: etcd's `Txn`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Literal, Protocol, Self, Unpack

from raykeeper.client import arguments
from raykeeper.client.call_forms import AwaitedForm, BlockingForm
from raykeeper.client.core.compound_operations import map_request
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Flow, with_cleanup
from raykeeper.client.core.results import op_result_of
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.request_builder import CreateOptions, RequestBuilder
from raykeeper.client.session_objects import SessionObject
from raykeeper.client.unexpected_names import suggest_name
from raykeeper.zab.ids import Zxid
from raykeeper.znodes import requests
from raykeeper.znodes.errors import Code, error_for
from raykeeper.znodes.limits import VALUE_BYTES_CEILING
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Check,
    Compare,
    CompareField,
    Create,
    Delete,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)

Field = Literal["version", "mzxid", "czxid", "value", "exists", "num_children"]
Sign = Literal["==", "!=", "<", ">"]
Results = list[Any]

_FIELDS: Final = {field.name.lower(): field for field in CompareField}
_RELATIONS: Final = {
    "==": Relation.EQUAL,
    "!=": Relation.NOT_EQUAL,
    "<": Relation.LESS,
    ">": Relation.GREATER,
}


class FencedHold(Protocol):
    """A hold on a znode whose czxid is the fencing token: client/recipes/acquirable.py."""

    @property
    def path(self) -> str:
        """The path of the znode."""

    @property
    def token(self) -> Zxid:
        """The czxid of the znode."""


class Consumable(FencedHold, Protocol):
    """A hold on something that a transaction can remove: client/recipes/lock_queue.py.

    Its guard must tell the removal from a loss, so it is told of the transactions of its client.
    """

    _client: Any

    def _consumption(self) -> tuple[list[Compare], list[Delete]]:
        """Return while what holds it may be removed, and what removes it.

        Raises:
            LostError: it is lost.
            RecipeError: it was released or removed before.
        """

    def _transaction_begins(self) -> None:
        """A transaction that removes it is being sent."""

    def _transaction_ends(self, *, is_consumed: bool) -> None:
        """That transaction has an outcome, or none in time."""


class Branch(SessionObject):
    """Operations in order. Each sees the effects of those before it.

    Every method raises BadArgumentsError if an argument is malformed or the transaction was sent.
    """

    _instead = "make one there, of a client of that process"

    def __init__(self, builder: RequestBuilder) -> None:
        """Use `Transaction`."""
        self.ops: list[TxnOp] = []
        self._requests = builder
        self._is_sent = False

    def _repr_parts(self) -> tuple[str, ...]:
        return f"{len(self.ops)} operations", "sent" if self._is_sent else "not sent"

    def create(self, path: str, value: bytes = b"", **options: Unpack[CreateOptions]) -> None:
        """Create a znode; the result is its path. See `Client.create`."""
        try:
            self._add(self._requests.creation(path, value, **options))
        except TypeError as error:
            suggest_name(error, "create", RequestBuilder.creation)
            raise

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> None:
        """Replace the value; its result is the Stat. See `Client.set`."""
        self._add(self._requests.setting(path, value, version))

    def set_data(self, path: str, value: bytes, version: int = ANY_VERSION) -> None:
        """Replace the value: kazoo's name of `set`."""
        self.set(path, value, version)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode without children; its result is None. See `Client.delete`."""
        self._add(arguments.deletion(path, version))

    def check(self, path: str, version: int = ANY_VERSION) -> None:
        """Fail unless the znode exists, at this version or at any (-1); its result is None."""
        self._add(Check(arguments.checked_path(path), arguments.checked_version(path, version)))

    def get(self, path: str) -> None:
        """Read value and Stat."""
        self._add(ReadData(arguments.checked_path(path)))

    def exists(self, path: str) -> None:
        """Read the Stat, None when there is no such znode."""
        self._add(ReadStat(arguments.checked_path(path)))

    def get_children(self, path: str) -> None:
        """Read the names of the children."""
        self._add(ReadChildren(arguments.checked_path(path)))

    def _add(self, op: Any) -> None:
        self._check_open()
        self.ops.append(op)

    def _check_open(self) -> None:
        if self._is_sent:
            raise BadArgumentsError("", "the transaction has been committed")


class Transaction(Branch):
    """The transaction of either client."""

    def __init__(self, client: object, builder: RequestBuilder) -> None:
        """Use `Client.transaction` or `AsyncClient.transaction`."""
        super().__init__(builder)
        self._client = client
        self.otherwise = Branch(builder)
        """The branch for the case that a condition does not hold."""
        self.succeeded: bool | None = None
        """Whether all conditions held; None before the reply."""
        self.results: Results | None = None
        """The results of the branch that was performed; None before the reply, and if it failed."""
        self._compares: list[Compare] = []
        self._consumed: list[Consumable] = []

    def _repr_parts(self) -> tuple[str, ...]:
        conditions = f"{len(self._compares)} conditions" if self._compares else ""
        size, sent = super()._repr_parts()
        if self.succeeded is not None:
            sent = "its conditions held" if self.succeeded else "a condition did not hold"
        return conditions, size, sent

    def when(self, path: str, field: Field, relation: Sign, operand: int | bytes | bool) -> None:
        """Add a condition: the first branch is performed only if all conditions hold.

        A missing znode meets only `exists == False`.

        Args:
            path: The path of the znode.
            field: The field to compare; "czxid" tells two znodes of one path apart, and
                "num_children" bounds the children, however many clients create at once.
            relation: "==", "!=", "<" or ">".
            operand: bytes for "value", a bool for "exists", else a number.

        Raises:
            BadArgumentsError: an argument is malformed, or the transaction was sent.
        """
        self._check_open()
        arguments.checked_path(path)
        if field not in _FIELDS or relation not in _RELATIONS:
            raise BadArgumentsError(path, f"no such condition: {field!r} {relation!r}")
        wanted = {"value": bytes, "exists": bool}.get(field, int)
        if type(operand) is not wanted:
            raise BadArgumentsError(
                path, f"{field} is compared with {wanted.__name__}, not {operand!r}"
            )
        number = operand if isinstance(operand, bytes) else int(operand)
        if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
            raise BadArgumentsError(path, f"{number} has more than 64 bits")
        self._compares.append(Compare(path, _FIELDS[field], _RELATIONS[relation], number))

    def when_held(self, *holds: FencedHold) -> None:
        """Add the condition that these are still held, whatever their holder believes.

        Check `succeeded` afterwards: if one was lost, the other branch is performed, if any.

        Args:
            holds: The objects that a lock, an election, a permit or a lease returned; of a
                multi-lock its `parts`.
        """
        for held in holds:
            self.when(held.path, "czxid", "==", held.token)

    def consume(self, *elements: Consumable) -> None:
        """Remove elements of a lock queue, on the condition that they are still held.

        So what is done for an element and its removal are one. Check `succeeded` afterwards: if an
        element was lost, the other branch is performed, if any. Each element adds two deletions,
        with the result None.

        Args:
            elements: The objects that `LockQueue.get` returned, of this client.

        Raises:
            BadArgumentsError: an element is of another client or named twice, or the transaction
                was sent.
            LostError: an element is lost.
            RecipeError: an element was released or consumed before.
        """
        for element in elements:
            if element._client is not self._client:
                raise BadArgumentsError(element.path, "the element is of another client")
            if element in self._consumed:
                raise BadArgumentsError(element.path, "the element is named twice")
            conditions, removal = element._consumption()
            self._compares += conditions
            self.ops += removal
            self._consumed.append(element)

    def _flow(self) -> Flow[Results]:
        """Return the request, once.

        Raises:
            BadArgumentsError: the transaction was sent before, or is too large.
        """
        self._check_open()
        size = sum(len(op.path) + _value_size(op) for op in (*self.ops, *self.otherwise.ops))
        if size > VALUE_BYTES_CEILING:
            raise BadArgumentsError("", f"{size} bytes, at most {VALUE_BYTES_CEILING} are allowed")
        self._is_sent = self.otherwise._is_sent = True
        request = requests.Multi(self._compares, self.ops, self.otherwise.ops)
        sending = map_request(request, partial(self._answered, request))
        return self._consume_by(sending) if self._consumed else sending

    def _consume_by(self, sending: Flow[Results]) -> Flow[Results]:
        """Tell the elements that are consumed of the transaction."""

        def end(has_failed: bool) -> Flow[None]:
            yield from ()
            for element in self._consumed:
                element._transaction_ends(is_consumed=not has_failed and bool(self.succeeded))

        for element in self._consumed:
            element._transaction_begins()
        return (yield from with_cleanup(sending, end))

    def _answered(self, request: requests.Multi, answer: SuccessReply) -> Results:
        assert isinstance(answer, WriteReply) and answer.results is not None, answer
        self.succeeded = answer.results.is_then
        _, results = results_decoder(request)(answer)
        self.results = results
        return results


def results_decoder(
    request: requests.Multi,
) -> Callable[[SuccessReply], tuple[bool, Results]]:
    """Return a function that turns the reply into whether the conditions held, and the results.

    The function raises the KeeperError of a failed operation, with `results` and `failed`.
    """

    def shape(answer: SuccessReply) -> tuple[bool, Results]:
        assert isinstance(answer, WriteReply) and answer.results is not None, answer
        is_then = answer.results.is_then
        ops = request.then if is_then else request.otherwise
        pairs = zip(ops, answer.results.results, strict=True)
        results = [op_result_of(result, op.path) for op, result in pairs]
        if answer.code == Code.OK:
            return is_then, results
        failed = next(i for i, each in enumerate(results) if each is not None)
        error = error_for(answer.code, ops[failed].path)
        error.results, error.failed = results, failed
        raise error

    return shape


class BlockingTransaction(BlockingForm, Transaction):
    """A transaction of a `Client`, committed at the end of a `with` block."""

    def __init__(
        self,
        client: object,
        builder: RequestBuilder,
        start: Callable[[Flow[Results]], Future[Results]],
        wait: Callable[[Future[Results]], Results],
    ) -> None:
        """Use `Client.transaction`."""
        super().__init__(client, builder)
        self._start = start
        self._wait = wait

    def commit(self) -> Results:
        """Send the transaction, once, and return the results. Needed only without `with`.

        Raises:
            BadArgumentsError: the transaction was sent before, or is too large; nothing was sent.
            KeeperError: an operation failed, that of the index `failed`; nothing was changed.
        """
        refuse_running_loop("commit")
        return self._wait(self.commit_async())

    def commit_async(self) -> Future[Results]:
        """`commit` without waiting."""
        return self._start(self._flow())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._is_sent:
            self.commit()


class AsyncTransaction(AwaitedForm, Transaction):
    """A transaction of an `AsyncClient`, committed at the end of an `async with` block."""

    def __init__(
        self,
        client: object,
        builder: RequestBuilder,
        start: Callable[[Flow[Results]], asyncio.Future[Results]],
    ) -> None:
        """Use `AsyncClient.transaction`."""
        super().__init__(client, builder)
        self._start = start

    def commit(self) -> asyncio.Future[Results]:
        """Send the transaction, once; a future of the results. See `BlockingTransaction.commit`."""
        return self._start(self._flow())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._is_sent:
            await self.commit()


def _value_size(op: TxnOp) -> int:
    return len(op.value or b"") if isinstance(op, Create | SetData) else 0
