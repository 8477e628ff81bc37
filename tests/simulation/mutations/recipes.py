"""Recipes: wrong reads, missing releases, and wrong assumptions."""

from typing import Any

from msgspec import structs

from raykeeper.client import fencing
from raykeeper.client.core.flows import Flow, Gather
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.scheduler import Task
from raykeeper.client.recipes import (
    barrier,
    election,
    lease,
    lock,
    read_write_lock,
    rendezvous,
    semaphore,
    two_phase_commit,
)
from raykeeper.client.recipes.acquirable import LostEvent
from raykeeper.client.recipes.background_recipe import FlowMutex
from raykeeper.client.recipes.compare_and_set import ObservedValue
from raykeeper.client.recipes.double_barrier import DoubleBarrier
from raykeeper.client.recipes.election import Election
from raykeeper.client.recipes.group import EphemeralMember
from raykeeper.client.recipes.leader_latch import LeaderLatch
from raykeeper.client.recipes.lock_queue import HeldElement
from raykeeper.client.recipes.multi_lock import MultiLock
from raykeeper.client.recipes.partitioner import Partitioner
from raykeeper.client.recipes.primitives import delete, get_or_none
from raykeeper.client.recipes.publication import Published
from raykeeper.client.recipes.queue import Element, QueueConsumer
from raykeeper.client.recipes.subtree_follower import SubtreeFollower
from raykeeper.zab.ids import Millis
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import Compare, CompareField, Relation
from raykeeper.znodes.stat import Stat
from tests.simulation.mutations.mutation import Mutation, instead


def _nothing(*_arguments: Any) -> Flow[None]:
    yield Gather([])


def _true(*_arguments: Any) -> Flow[bool]:
    yield Gather([])
    return True


def _one_too_far(names: list[str], own: str) -> list[str]:
    queue = lock.sort_queue(names, own[:-10])
    place = queue.index(own)
    return [queue[place - 2]] if place > 1 else []


def _numbered(right: Any) -> Any:
    def take_place(*arguments: Any) -> Flow[Any]:
        place = yield from right(*arguments)
        place.token = 1 + lock.sequence_number(place.path)
        return place

    return take_place


def _writers_alone(names: list[str], own: str) -> list[str]:
    return read_write_lock.predecessors_of_reader(names, own)


def _as_given(right: Any) -> Any:
    def init(self: Any, client: Any, locks: Any) -> None:
        listed = list(locks)
        right(self, client, listed)
        self._locks.sort(key=lambda each: listed.index(each.path))
        self.paths = [each.path for each in self._locks]

    return init


def _one_more(self: Any, names: list[str], own: str) -> list[str]:
    queue = lock.sort_queue(names, semaphore.PREFIX)
    before = queue[: queue.index(own)]
    return before[-self.permits - 1 :] if len(before) > self.permits else []


def _from_the_answer_on(right: Any) -> Any:
    def take_znode(*arguments: Any) -> Flow[Any]:
        asked_at, stat = yield from right(*arguments)
        return Millis(asked_at + 2_000), stat

    return take_znode


def _by_itself(self: Any, token: int, *, shared: bool = False) -> Flow[None]:
    yield from ()
    self._seen = self._seen.merge(self._seen.admit(token, shared, self.path))


def _whatever_holds(right: Any) -> Any:
    def transact(ops: Any, compares: Any = (), otherwise: Any = ()) -> Flow[Any]:
        return (yield from right(ops, [], otherwise))

    return transact


def _under_the_first_condition(right: Any) -> Any:
    def transact(ops: Any, compares: Any = (), otherwise: Any = ()) -> Flow[Any]:
        return (yield from right(ops, compares[:1], otherwise))

    return transact


def _without_sync(self: Any) -> Flow[Any]:
    return (yield from election._read_leader(self.path))


def _anybody_s(right: Any) -> Any:
    def write(path: str, generation: Any, mzxid: Any, there: Any = None) -> Flow[None]:
        yield from right(path, generation, mzxid, None)

    return write


def _of_its_server(kind: Any, path: str, watcher: Any = None, linearizable: bool = False) -> Query:
    return Query(kind, path, watcher)


def _at_once(right: Any) -> Any:
    def look_at_round(self: Any, entered: Any) -> Flow[Stat]:
        stat = yield from right(self, entered)
        return structs.replace(stat, version=1)

    return look_at_round


def _that_it_is_there(self: ObservedValue, path: str) -> Compare:
    return Compare(path, CompareField.EXISTS, Relation.EQUAL, 0 if self.stat is None else 1)


def _read_then_delete(self: Any, name: str, parent: Any) -> Flow[Any]:
    path = join(self._elements, name)
    found = yield from get_or_none(path)
    if found is None:
        return None
    yield from delete(path)
    return Element(found[0], path, parent)


def _all_but_the_last(right: Any) -> Any:
    def written(self: Any, events: Any, reads: Any, *, is_whole: bool) -> Any:
        return right(self, events[:-1], reads, is_whole=is_whole)

    return written


def _left_there(self: Any) -> Flow[None]:
    yield from self._release_or_raise()


MUTATIONS = [
    Mutation(
        "flows",
        "a result not taken by its caller is not released",
        [(Task, "_release_result", instead(lambda self: None))],
        recipe="lock",
    ),
    Mutation(
        "flows",
        "a caller is told of its timeout before what it made is given back",
        [(Task, "when_given_back", instead(lambda self, call: call(True)))],
        recipe="lock",
    ),
    Mutation(
        "holders",
        "only the watch reports the loss",
        [(LostEvent, "is_set", instead(lambda self: self._is_set))],
        100,
        recipe="lock",
    ),
    Mutation(
        "lock",
        "a waiter watches the predecessor of its predecessor",
        [(lock, "predecessors", instead(_one_too_far))],
        recipe="lock",
    ),
    Mutation(
        "lock",
        "the lock is granted without reading the queue",
        [(lock, "wait_for_predecessor", instead(_nothing))],
        recipe="lock",
    ),
    Mutation(
        "lock",
        "a cancelled contender leaves its znode",
        [(lock, "best_effort_cleanup", instead(_nothing))],
        recipe="lock",
    ),
    Mutation(
        "lock",
        "the token is the sequence number of the contender",
        [(lock, "enqueue", _numbered)],
        recipe="lock",
    ),
    Mutation(
        "read/write lock",
        "a writer waits for writers only",
        [(read_write_lock, "predecessors_of_writer", instead(_writers_alone))],
        recipe="read_write_lock",
    ),
    Mutation(
        "read/write lock",
        "a reader never waits",
        [(read_write_lock, "predecessors_of_reader", instead(lambda names, own: []))],
        recipe="read_write_lock",
    ),
    Mutation(
        "multi-lock",
        "locks are taken in the order given",
        [(MultiLock, "__init__", _as_given)],
        recipe="multi_lock",
    ),
    Mutation(
        "semaphore",
        "one more client holds than there are permits",
        [(semaphore.Semaphore, "_predecessors", instead(_one_more))],
        recipe="semaphore",
    ),
    Mutation(
        "semaphore",
        "the number of permits is set although others have joined",
        [(semaphore, "transact", _under_the_first_condition)],
        100,
        recipe="semaphore",
    ),
    Mutation(
        "lease",
        "a holder counts its time from the reply and not from the request",
        [(lease, "create_when_free", _from_the_answer_on)],
        recipe="lease",
    ),
    Mutation(
        "fencing",
        "a guard does not read the token that an earlier guard accepted",
        [(fencing.DurableFencedResource.check, "_function", instead(_by_itself))],
        recipe="fencing",
    ),
    Mutation(
        "election",
        "a new leader does not read the last epoch",
        [(election, "_parse_record", instead(lambda path, value: election._NO_LEADER))],
        recipe="election",
    ),
    Mutation(
        "election",
        "the leader is read from a server that may lag behind",
        [(Election.leader, "_function", instead(_without_sync))],
        100,
        recipe="election",
    ),
    Mutation(
        "leader latch",
        "a latch leads until its watch fires",
        [(LeaderLatch, "leadership", instead(property(lambda self: self._leadership)))],
        100,
        recipe="leader_latch",
    ),
    Mutation(
        "group",
        "a leaving member stays",
        [(EphemeralMember, "_remove", instead(_true))],
        recipe="group",
    ),
    Mutation(
        "rendezvous",
        "a generation is written although a participant has left",
        [(rendezvous, "_write_generation", _anybody_s)],
        200,
        recipe="rendezvous",
    ),
    Mutation(
        "partitioner",
        "a released partition keeps its owner",
        [(Partitioner, "_delete_released", instead(_nothing))],
        recipe="partitioner",
    ),
    Mutation(
        "barrier",
        "the first read is not linearizable",
        [(barrier, "Query", instead(_of_its_server))],
        100,
        recipe="barrier",
    ),
    Mutation(
        "double barrier",
        "an entering process does not wait for the others",
        [(DoubleBarrier, "_read_round", _at_once)],
        recipe="double_barrier",
    ),
    Mutation(
        "double barrier",
        "a process enters again before its entry that was given up is withdrawn",
        [(FlowMutex, "hold", instead(lambda self, flow: flow))],
        recipe="double_barrier",
    ),
    Mutation(
        "counter",
        "a changed value is replaced",
        [(ObservedValue, "unchanged_compare", instead(_that_it_is_there))],
        recipe="counter",
    ),
    Mutation(
        "configuration",
        "a changed value is replaced, as in the counter",
        [(ObservedValue, "unchanged_compare", instead(_that_it_is_there))],
        recipe="configuration",
    ),
    Mutation(
        "published",
        "an older publication may replace a newer one",
        [(Published, "_version_number", instead(lambda self, seen: 0))],
        recipe="published",
    ),
    Mutation(
        "caches",
        "the newest received event is skipped",
        [(SubtreeFollower, "_written", _all_but_the_last)],
        recipe="tree_cache",
    ),
    Mutation(
        "queue",
        "an element is read, and then deleted",
        [(QueueConsumer, "_take", instead(_read_then_delete))],
        recipe="queue",
    ),
    Mutation(
        "queue",
        "an element of a cancelled get is not put back",
        [(Element, "_release", instead(_nothing))],
        100,
        recipe="queue",
    ),
    Mutation(
        "lock queue",
        "a consumed element is put back",
        [(HeldElement.consume, "_function", instead(_left_there))],
        recipe="lock_queue",
    ),
    Mutation(
        "two-phase commit",
        "votes and decisions do not exclude each other",
        [(two_phase_commit, "transact", _whatever_holds)],
        recipe="two_phase_commit",
    ),
]
