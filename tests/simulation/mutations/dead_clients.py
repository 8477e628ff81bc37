"""A session ends before its timeout only with the process that has it at present."""

from typing import Any

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.dead_clients import DeadClients
from raykeeper.server.leader_session_tracker import LeaderSessionTracker
from tests.simulation.mutations.mutation import Mutation, instead


def _without_owner_check(self: LeaderSessionTracker, sessions: Any) -> None:
    for touch in sessions:
        if self.prep.owner_zxid_of(touch.session_id) is not None:
            self._expire(touch.session_id, server_trace_events.SESSION_PROCESS_DIED)


def _all_disconnected(right: Any) -> Any:
    def on_process_died(self: DeadClients, number: int) -> None:
        for each in list(self._by_number):
            right(self, each)

    return on_process_died


def _disconnected_is_dead(right: Any) -> Any:
    def on_disconnect(self: ClientRequests, number: int) -> None:
        right(self, number)
        self.dead_clients.on_process_died(number)

    return on_disconnect


MUTATIONS = [
    Mutation(
        "dead clients",
        "the owner number of a dead process is not compared with the session's",
        [(LeaderSessionTracker, "end_dead_sessions", instead(_without_owner_check))],
        500,
    ),
    Mutation(
        "dead clients",
        "the death of one process counts for all disconnected clients",
        [(DeadClients, "on_process_died", _all_disconnected)],
        300,
    ),
    Mutation(
        "dead clients",
        "the end of a link counts as the death of the process",
        [(ClientRequests, "on_disconnect", _disconnected_is_dead)],
    ),
]
