"""Transfers of the lead: a leader that goes on, a nominee that lacks something, requests lost.

And drained servers that take clients, or keep those they have.
"""

from typing import Any

from raykeeper.server.client_drain import ClientDrain
from raykeeper.server.leadership_transfer import LeadershipTransfer
from raykeeper.zab import looking, peer
from raykeeper.zab.ids import Millis
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.leadership_transfer import Transfer
from raykeeper.zab.transitions import StepDown
from tests.simulation.mutations.mutation import Mutation, instead
from tests.simulation.transfers.plans import TRANSFER


def _without_end(right: Any) -> Any:
    def init(self: Transfer, nominee: Any, _until: Any, ping_number: Any) -> None:
        right(self, nominee, Millis(1 << 60), ping_number)

    return init


def _drop_first(right: Any) -> Any:
    def on_abandoned(self: LeadershipTransfer, reason: str) -> None:
        self._held.clear()
        right(self, reason)

    return on_abandoned


def _willing_with_a_disk(_server: Any, history: Any, _nominee: Any) -> bool:
    return bool(history.has_disk_space)


def _yield_to_all(right: Any) -> Any:
    def yield_to_better(self: peer.Peer, role: Any, sender: Any, message: Any) -> None:
        if message.own_vote.rank > self._own_vote().rank:
            role.transition = StepDown(f"server {sender} is the better leader")

    return yield_to_better


def _once(right: Any) -> Any:
    def move_due(self: ClientDrain) -> None:
        right(self)
        self.deadline = None

    return move_due


def _taking_clients(right: Any) -> Any:
    def begin(self: ClientDrain, event: Any) -> None:
        right(self, event)
        self.is_draining = False

    return begin


MUTATIONS = [
    Mutation(
        "drain",
        "a drained server takes clients",
        [(ClientDrain, "begin", _taking_clients)],
        50,
        TRANSFER,
    ),
    Mutation(
        "drain",
        "clients of ZooKeeper are never moved",
        [(ClientDrain, "_may_move", instead(lambda self, client: client.translator is None))],
        100,
        TRANSFER,
    ),
    Mutation(
        "drain",
        "those that are left are forgotten when one step has moved what it may",
        [(ClientDrain, "move_due", _once)],
        100,
        TRANSFER,
    ),
    Mutation(
        "transfer",
        "an unwilling leader proposes",
        [(LeaderBroadcast, "is_handing_over", instead(property(lambda self: False)))],
        50,
        TRANSFER,
    ),
    Mutation(
        "transfer",
        "the nominee lacks transactions",
        [(LeaderBroadcast, "_has_handed_over", instead(lambda self, nominee: True))],
        50,
        TRANSFER,
    ),
    Mutation(
        "transfer",
        "an abandoned one drops what it held",
        [(LeadershipTransfer, "on_abandoned", _drop_first)],
        100,
        TRANSFER,
    ),
    Mutation(
        "transfer",
        "the others want to lead as well",
        [(module, "is_willing", instead(_willing_with_a_disk)) for module in (looking, peer)],
        50,
        TRANSFER,
    ),
    Mutation(
        "transfer",
        "a follower that has not heard of the nominee unseats it",
        [(peer.Peer, "_yield_to_better", _yield_to_all)],
        100,
        TRANSFER,
    ),
    Mutation(
        "transfer",
        "it has no end",
        [(Transfer, "__init__", _without_end)],
        100,
        TRANSFER,
    ),
]
