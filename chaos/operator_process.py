"""The process of an operator: a Ray actor that carries out one orderly fault, and ends.

It is a process of its own because its death is a fault too: another operator goes on then.
"""

import os
from typing import Any

import ray

from raykeeper.chaos.fault_plan import OrderlyKind
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.zab.errors import RayKeeperError

RESTART_WAIT_S = 60.0
"""How long a rolling restart waits for one server, beyond any freeze."""


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
                    servers = self._ensemble.status().servers
                    self._ensemble.transfer_leadership(servers[pick % len(servers)].server_id)
                case OrderlyKind.ROLLING_RESTART:
                    self._ensemble.rolling_restart(since_s=since_s, wait_s=RESTART_WAIT_S)
        except RayKeeperError as error:
            return str(error)
        return ""

    def go_on(self, kind: OrderlyKind, pick: int, since_s: int) -> str:
        """Go on in place of an operator that was killed; see `carry_out`."""
        match kind:
            case OrderlyKind.TRANSFER:
                return ""  # the leader does it alone, or goes on leading
            case OrderlyKind.ROLLING_RESTART:
                return self.carry_out(kind, pick, since_s)


def start_operator(ensemble: str) -> Any:
    """Create an operator, which ends when its handle is dropped."""
    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": "DEFAULT"}
    return ray.remote(**options)(Operator).remote(ensemble)
