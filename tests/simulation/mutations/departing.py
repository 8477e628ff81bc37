"""When a session may end before its timeout: only with the process that has it at present."""

from typing import Any

from raykeeper.server import server_notes as notes
from raykeeper.server.connections import Connections
from raykeeper.server.departures import Departures
from raykeeper.server.leading import Leading
from tests.simulation.mutations.mutation import Mutation, instead


def _whoever_has_it_now(self: Leading, sessions: Any) -> None:
    for touch in sessions:
        if self.preparation.owner_of(touch.session_id) is not None:
            self._expire(touch.session_id, notes.SESSION_DEPARTED)


def _one_for_all(right: Any) -> Any:
    def process_gone(self: Departures, number: int) -> None:
        for each in list(self._by_number):
            right(self, each)

    return process_gone


def _gone_is_dead(right: Any) -> Any:
    def gone(self: Connections, number: int) -> None:
        right(self, number)
        self.departures.process_gone(number)

    return gone


MUTATIONS = [
    Mutation(
        "departures",
        "the owner number of a dead process is not compared with the session's",
        [(Leading, "processes_gone", instead(_whoever_has_it_now))],
        500,
    ),
    Mutation(
        "departures",
        "the death of one process is taken for that of all whose links are gone",
        [(Departures, "process_gone", _one_for_all)],
        300,
    ),
    Mutation(
        "departures",
        "the end of a link is taken for the death of the process",
        [(Connections, "gone", _gone_is_dead)],
    ),
]
