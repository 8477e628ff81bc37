"""What happened to the servers between two looks at their load, in sentences."""

from collections.abc import Iterator

from raykeeper.clusters.admin import DOWN, LoadTable
from raykeeper.zab.ids import ServerId


def observe_changes(before: LoadTable, after: LoadTable) -> list[str]:
    """Return the sentences, the leader's first; none if nothing changed."""
    return [*_leader_changes(before, after), *_server_changes(before, after)]


def _leader_changes(before: LoadTable, after: LoadTable) -> Iterator[str]:
    if after.leader is None:
        if before.leader is not None:
            yield "there is no leader"
        return
    epoch = after.loads[after.leader].stats.epoch
    had = None if before.leader is None else before.loads[before.leader].stats.epoch
    if (before.leader, had) != (after.leader, epoch):
        yield f"server {after.leader} leads, epoch {epoch}"


def _server_changes(before: LoadTable, after: LoadTable) -> Iterator[str]:
    states = {state.server_id: state for state in before.servers}
    for state in after.servers:
        was = states.get(state.server_id)
        if was is None:
            yield f"server {state.server_id} is new: {state.role}"
        elif state.role == DOWN:
            if was.role != DOWN:
                yield f"server {state.server_id} is down: {state.problem}"
        elif was.role == DOWN:
            yield f"server {state.server_id} is back: {state.role}"
        elif _is_restarted(before, after, state.server_id):
            yield f"server {state.server_id} was started again: {state.role}"
        elif was.role != state.role and state.server_id != after.leader:
            yield f"server {state.server_id}, {was.role} before, is {state.role}"
    for gone in states.keys() - {state.server_id for state in after.servers}:
        yield f"server {gone} is no member any more"


def _is_restarted(before: LoadTable, after: LoadTable, server: ServerId) -> bool:
    old, new = before.loads.get(server), after.loads.get(server)
    if old is None or new is None:
        return False
    return new.stats.uptime_ms < old.stats.uptime_ms
