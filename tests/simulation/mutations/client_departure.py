"""When a session may end before its timeout: only with the process that has it at present."""

from typing import Any

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.dead_clients import DeadClients
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from tests.simulation.mutations.mutation import Mutation, instead


def _whoever_has_it_now(self: LeaderRequestProcessor, sessions: Any) -> None:
    for touch in sessions:
        if self.prep.owner_zxid_of(touch.session_id) is not None:
            self._expire(touch.session_id, server_trace_events.SESSION_PROCESS_DIED)


def _one_for_all(right: Any) -> Any:
    def process_gone(self: DeadClients, number: int) -> None:
        for each in list(self._by_number):
            right(self, each)

    return process_gone


def _gone_is_dead(right: Any) -> Any:
    def gone(self: ClientRequests, number: int) -> None:
        right(self, number)
        self.dead_clients.on_process_died(number)

    return gone


MUTATIONS = [
    Mutation(
        "departures",
        "the owner number of a dead process is not compared with the session's",
        [(LeaderRequestProcessor, "end_dead_sessions", instead(_whoever_has_it_now))],
        500,
    ),
    Mutation(
        "departures",
        "the death of one process is taken for that of all whose links are gone",
        [(DeadClients, "on_process_died", _one_for_all)],
        300,
    ),
    Mutation(
        "departures",
        "the end of a link is taken for the death of the process",
        [(ClientRequests, "on_disconnect", _gone_is_dead)],
    ),
]
