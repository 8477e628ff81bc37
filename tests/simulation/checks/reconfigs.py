"""Steps of the member list that operators ask a server for: each is answered once, and truly."""

from collections import Counter
from typing import TYPE_CHECKING

from raykeeper.server.effects import ReconfigAnswered
from raykeeper.server.events import ReconfigRequested
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig

if TYPE_CHECKING:
    from tests.simulation.node import Node


class Reconfigs:
    """The requests to one process, and its answers."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._asked: dict[int, Reconfig] = {}
        self._answered: dict[int, None] = {}

    def asks(self, op: Reconfig) -> ReconfigRequested:
        """Return the event of another request."""
        number = len(self._asked) + 1
        self._asked[number] = op
        return ReconfigRequested(number, op)

    def answered(self, node: "Node", effect: ReconfigAnswered) -> None:
        """Check and record an answer."""
        result = effect.result
        assert effect.request in self._asked, f"Membership: nobody asked for {effect}"
        assert effect.request not in self._answered, f"Membership: answered twice: {effect}"
        self._answered[effect.request] = None
        assert bool(result.version) is (result.code == 0), f"Membership: {effect}"
        assert bool(result.reason) is (result.code != 0), f"Membership: {effect}"
        if result.code == Code.OK:
            assert node.server is not None
            said = node.server.state.members_said
            assert said >= result.version, f"Membership: {effect}, and {said:x} was said again"
        self._counts["reconfig.done" if result.code == 0 else "reconfig.not_done"] += 1

    def all_answered(self, server_id: ServerId) -> None:
        """Check at rest that no request waits for an answer."""
        open_ = self._asked.keys() - self._answered.keys()
        assert not open_, f"Membership: server {server_id} does not answer {sorted(open_)}"
