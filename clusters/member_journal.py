"""What changes of the members have written into the tree, under `/zookeeper/members`.

    lock        whoever is at a change holds it
    plan        the change that has not ended; none: there is none

Every write has the condition that the lock is still held: of two callers, one that only seems dead
changes nothing any more. It is written as a recipe, as the keeper's journal is.
"""

from typing import Any, Final

import msgspec

from raykeeper.client.core.compound_operations import create_if_missing
from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import InvalidValueError, LostError
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.lock import PREFIX, list_contenders
from raykeeper.client.recipes.primitives import get_or_none, transact
from raykeeper.client.recipes.recipe import K, Recipe, operation
from raykeeper.clusters.member_steps.vocabulary import Plan, decode_plan
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from raykeeper.znodes.requests import ANY_VERSION, Create, Delete, SetData, TxnOp

ROOT: Final = "/zookeeper/members"
LOCK: Final = f"{ROOT}/lock"


class MemberJournal(Recipe[K]):
    """The part of the tree that belongs to changes of the members, through one client."""

    @operation
    def create_paths(self) -> Flow[None]:
        """Create what is missing of it."""
        for path in (ROOT, LOCK):
            yield from create_if_missing(Create(path, b"", 0))

    @operation
    def read_plan(self) -> Flow[Plan | None]:
        """Return the plan of the change that has not ended; None if there is none.

        Raises:
            InvalidValueError: the value of the znode is no plan.
        """
        found = yield from get_or_none(MEMBER_PLAN_PATH)
        plan = None if found is None else decode_plan(found[0])
        if found is not None and plan is None:
            raise InvalidValueError(f"the value of {MEMBER_PLAN_PATH} is no plan of a change")
        return plan

    @operation
    def read_holder(self) -> Flow[str]:
        """Return the process that has the lock; empty if none does."""
        holders = yield from list_contenders(LOCK, PREFIX)
        return next((each.identifier.decode(errors="replace") for each in holders), "")

    @operation
    def begin(self, held: Held[Any], plan: Plan) -> Flow[None]:
        """Write the plan of a change that begins.

        Raises:
            LostError: another caller may be at it; nothing was written.
            NodeExistsError: another change has not ended; nothing was written.
            KeeperError: it is unknown whether it was written.
        """
        yield from _commit(held, [Create(MEMBER_PLAN_PATH, msgspec.json.encode(plan), 0)])

    @operation
    def change(self, held: Held[Any], plan: Plan) -> Flow[None]:
        """Replace the plan of the change that has not ended.

        Raises:
            LostError: another caller may be at it; nothing was written.
            NoNodeError: no change is open.
            KeeperError: it is unknown whether it was written.
        """
        value = msgspec.json.encode(plan)
        yield from _commit(held, [SetData(MEMBER_PLAN_PATH, value, ANY_VERSION)])

    @operation
    def end(self, held: Held[Any]) -> Flow[None]:
        """Remove the plan of a change that has ended.

        Raises:
            LostError: another caller may be at it; nothing was removed.
            NoNodeError: no change is open.
            KeeperError: it is unknown whether it was removed.
        """
        yield from _commit(held, [Delete(MEMBER_PLAN_PATH, ANY_VERSION)])


def _commit(held: Held[Any], ops: list[TxnOp]) -> Flow[None]:
    """Write under the token of a lock."""
    is_held, _ = yield from transact(ops, [held._still_held_compare()])
    if not is_held:
        raise LostError("another caller may be changing the members")
