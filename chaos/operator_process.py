"""The process of an operator: a Ray actor that carries out one orderly fault, and ends.

It is a process of its own because its death is a fault too: another operator goes on then.
"""

import os
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

import ray

from raykeeper.chaos.fault_plan import MEMBER_KINDS, OrderlyKind
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.rolling_settings import apply_settings
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

WAIT_S: Final = 60.0
"""How long an operator waits for one server, beyond any freeze."""
DRAINED_S: Final = 2.0
"""How long a drained server stays without clients."""
SIZES: Final = (1, 3, 5, 3)
"""The numbers of voters that the ensemble has in turn."""
SNAPSHOTS: Final = (1_000, 700, 1_300)
"""The values of `snapshot_every_txns` among which an upgrade draws."""
_POLL_S = 0.2


class Operator:
    """The actor. Call `pid`, then `carry_out` or `go_on`."""

    def __init__(self, ensemble: str) -> None:
        self._ensemble = Ensemble(ensemble)

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def carry_out(self, kind: OrderlyKind, pick: int, since_s: int) -> str:
        """Do what an operator does, and return why it was refused, or "".

        Args:
            kind: The fault.
            pick: Chooses a server.
            since_s: The second of Unix time in which it begins.
        """
        try:
            match kind:
                case OrderlyKind.TRANSFER:
                    self._ensemble.transfer_leadership(self._choose(pick))
                case OrderlyKind.ROLLING_RESTART:
                    self._ensemble.rolling_restart(since_s=since_s, wait_s=WAIT_S)
                case OrderlyKind.DRAIN:
                    return self._drain(self._choose(pick))
                case OrderlyKind.SWAP:
                    voters = self._ensemble.members().voters
                    return self._swap(voters[pick % len(voters)])
                case OrderlyKind.GROW_AND_SHRINK:
                    return self._grow_and_shrink()
                case OrderlyKind.UPGRADE:
                    return self._upgrade(pick)
        except RayKeeperError as error:
            return str(error)
        return ""

    def go_on(self, kind: OrderlyKind, pick: int, since_s: int) -> str:
        """Go on in place of an operator that was killed; see `carry_out`.

        The ensemble may take that one for alive until its session has ended.
        """
        deadline = time.monotonic() + WAIT_S
        while refusal := self._try_to_go_on(kind, pick, since_s):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        return refusal

    def _try_to_go_on(self, kind: OrderlyKind, pick: int, since_s: int) -> str:
        match kind:
            case OrderlyKind.TRANSFER:
                return ""  # the leader does it alone, or goes on leading
            case OrderlyKind.ROLLING_RESTART | OrderlyKind.UPGRADE:
                return self.carry_out(kind, pick, since_s)
            case OrderlyKind.DRAIN:
                return self._end_drains()
            case OrderlyKind.SWAP | OrderlyKind.GROW_AND_SHRINK:
                return self._end_open_change(goes_on=bool(pick % 2))

    def settle(self, kinds: Collection[OrderlyKind], voters: int) -> str:
        """Bring what these faults began to its end, with so many voters and no other server.

        Returns:
            Why that is not possible, or "".
        """
        deadline = time.monotonic() + WAIT_S
        while problem := self._unsettled(kinds, voters):
            if time.monotonic() > deadline:
                return problem
            time.sleep(_POLL_S)
        return ""

    def _unsettled(self, kinds: Collection[OrderlyKind], voters: int) -> str:
        """Settle what can be settled now, and return what is left."""
        if OrderlyKind.UPGRADE in kinds and (refusal := self.carry_out(OrderlyKind.UPGRADE, 0, 0)):
            return refusal
        if not MEMBER_KINDS & set(kinds):
            return ""
        try:
            members = self._ensemble.members()
            if members.plan is not None:
                self._ensemble.resume_change(wait_s=WAIT_S)
            elif not members.doubt:
                if len(members.voters) == voters == len(members.servers):
                    return ""
                self._ensemble.change_members(voters, observers=0, wait_s=WAIT_S)
        except RayKeeperError as error:
            return str(error)
        return members.doubt or f"the members were {members.servers}"

    def _choose(self, pick: int) -> ServerId:
        servers = self._ensemble.status().servers
        return servers[pick % len(servers)].server_id

    def _drain(self, server: ServerId) -> str:
        """Drain a server for a while; return why it was refused."""
        refusal = ""
        try:
            self._ensemble.drain(server, timeout_s=WAIT_S)
            time.sleep(DRAINED_S)
        except RayKeeperError as error:
            refusal = str(error)  # it may have begun all the same
        return self._end_drains(server) or refusal

    def _upgrade(self, pick: int) -> str:
        """Change a setting that `pick` draws, and let the level rise; return why it does not."""
        apply_settings(
            name=self._ensemble.name,
            wait_s=WAIT_S,
            feature_level_max="auto",
            snapshot_every_txns=SNAPSHOTS[pick % len(SNAPSHOTS)],
        )
        deadline = time.monotonic() + WAIT_S
        while (level := self._ensemble.status().feature_level) is None or level.waits_for:
            if time.monotonic() > deadline:
                return f"the feature level is not raised: {level}"
            time.sleep(_POLL_S)
        return ""

    def _swap(self, server: ServerId) -> str:
        return self._change(lambda: self._ensemble.replace_server(server, wait_s=WAIT_S))

    def _grow_and_shrink(self) -> str:
        for voters in SIZES:
            change = partial(self._ensemble.change_members, voters, wait_s=WAIT_S)
            if refusal := self._change(change):
                return refusal
        return ""

    def _change(self, change: Callable[[], object]) -> str:
        """Change the members; return why that was refused. A change that was begun is ended."""
        try:
            change()
        except RayKeeperError as error:
            self._end_open_change(goes_on=True)
            return str(error)
        return ""

    def _end_open_change(self, *, goes_on: bool) -> str:
        """Go on with the change that is open, or undo it; return why that was refused.

        There may be none: an operator that was killed had not begun, or was done.
        """
        act = self._ensemble.resume_change if goes_on else self._ensemble.undo_change
        try:
            members = self._ensemble.members()
            if members.plan is None and not members.doubt:
                return ""
            act(wait_s=WAIT_S)
        except RayKeeperError as error:
            return str(error)
        return ""

    def _end_drains(self, drained: ServerId | None = None) -> str:
        """Have a server, or all of them, take clients, once it answers or is gone."""
        deadline = time.monotonic() + WAIT_S
        while waiting := self._still_drained(drained):
            if time.monotonic() > deadline:
                return waiting
            time.sleep(_POLL_S)
        return ""

    def _still_drained(self, drained: ServerId | None) -> str:
        """End these drains, and return which servers did not answer."""
        silent = []
        for server in [status.server_id for status in self._ensemble.status().servers]:
            try:
                if drained in (server, None):
                    self._ensemble.end_drain(server)
            except RayKeeperError as error:
                silent.append(str(error))
        return "; ".join(silent)


def start_operator(ensemble: str) -> Any:
    """Create an operator, which ends when its handle is dropped."""
    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": "DEFAULT"}
    return ray.remote(**options)(Operator).remote(ensemble)
