"""Pure servers that answer operators, as the actors of an ensemble do."""

import pickle
from collections.abc import Sequence

from raykeeper.server.admin_queries import AdminAnswer, AdminQuery
from raykeeper.zab.ids import ServerId
from tests.harness.pure_servers import PureServer, PureServers


def answer_of(host: PureServer, query: AdminQuery, *, steps_max: int = 10_000) -> AdminAnswer:
    """Return a server's answer, which it gives within `steps_max` steps."""
    steps = host.server.answer(query)
    for _ in range(steps_max):
        try:
            next(steps)
        except StopIteration as end:
            assert isinstance(end.value, AdminAnswer)
            return end.value
    raise AssertionError(f"no answer within {steps_max} steps")


class AdminServers:
    """The servers of an ensemble; those in `silent` do not answer, for the reason there."""

    def __init__(self, servers: PureServers, silent: dict[int, str] | None = None) -> None:
        self.hosts = dict(servers.hosts)
        self.silent = silent or {}
        self.asked: list[tuple[list[ServerId], AdminQuery]] = []

    def ids(self) -> list[ServerId]:
        return [ServerId(each) for each in sorted({*self.hosts, *self.silent})]

    def ask(self, servers: Sequence[ServerId], query: AdminQuery) -> list[AdminAnswer | str]:
        self.asked.append((list(servers), query))
        # As between processes.
        told = pickle.dumps([self._answer(each, pickle.dumps(query)) for each in servers])
        answers: list[AdminAnswer | str] = pickle.loads(told)
        return answers

    def _answer(self, server: ServerId, query: bytes) -> AdminAnswer | str:
        return self.silent.get(server) or answer_of(self.hosts[server], pickle.loads(query))
