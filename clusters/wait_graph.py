"""Who waits for whom in the queues of locks, and which sessions wait for each other.

A contender waits for those before it in its queue that must leave first. Of these only the nearest
are named: the last writer before a reader; before a writer the readers back to the writer before
them, or that writer alone. The others follow from theirs. A permit of a semaphore may come from any
of its holders, so nobody in particular is waited for.

Sessions that wait for each other in a circle are a deadlock if each of them has one thread. A
session with several may go on by another one, so it is for the reader to judge.
"""

from collections.abc import Iterable, Sequence

from raykeeper.server.admin_queries import ContenderRow, LockRow
from raykeeper.znodes.requests import SessionId

_READ, _PERMIT = "read", "permit"


def waits_of(lock: LockRow) -> list[list[str]]:
    """Return for each contender in the row the names of those it waits for; of a holder none."""
    waits: list[list[str]] = []
    writer: str | None = None
    readers: list[str] = []  # since that writer
    for each in lock.contenders:
        last_writer = [] if writer is None else [writer]
        if each.holds or each.mode == _PERMIT:
            waits.append([])
        elif each.mode == _READ:
            waits.append(last_writer)
        else:
            waits.append(readers or last_writer)
        if each.mode == _READ:
            readers = [*readers, each.name]
        else:
            writer, readers = each.name, []
    return waits


def find_cycles(locks: Iterable[LockRow]) -> list[list[SessionId]]:
    """Return the groups of sessions that wait for each other, as far as the rows show it.

    Each group is one strongly connected component of the graph, in the order of its ids.
    """
    graph: dict[SessionId, set[SessionId]] = {}
    for lock in locks:
        by_name = {each.name: each for each in lock.contenders}
        for each, names in zip(lock.contenders, waits_of(lock), strict=True):
            _add_edges(graph, each, [by_name[name] for name in names])
    return [sorted(group) for group in _components(graph) if len(group) > 1]


def _add_edges(
    graph: dict[SessionId, set[SessionId]], waiter: ContenderRow, others: Sequence[ContenderRow]
) -> None:
    """A lease has no session, and a session that waits for itself has several threads."""
    for other in others:
        if waiter.session_id and other.session_id and waiter.session_id != other.session_id:
            graph.setdefault(waiter.session_id, set()).add(other.session_id)
            graph.setdefault(other.session_id, set())


def _components(graph: dict[SessionId, set[SessionId]]) -> list[list[SessionId]]:
    """Return the strongly connected components (Tarjan), without recursion: chains are long."""
    index: dict[SessionId, int] = {}
    low: dict[SessionId, int] = {}
    stack: list[SessionId] = []
    on_stack: set[SessionId] = set()
    components: list[list[SessionId]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            successor = next(successors, None)
            if successor is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    components.append(component)
            elif successor not in index:
                index[successor] = low[successor] = len(index)
                stack.append(successor)
                on_stack.add(successor)
                work.append((successor, iter(sorted(graph[successor]))))
            elif successor in on_stack:
                low[node] = min(low[node], index[successor])
    return components
