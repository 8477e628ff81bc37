"""Orderly faults beside the signals: each is carried out by an operator, watched by a thread.

Several kinds may be under way at the same time, but one of a kind. Most of those that exclude each
other wait for their turn here; the others are refused by the ensemble. A refusal is a result: the
ensemble, or another fault, was in the way. An operator that is killed is replaced by another one,
which goes on.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import ray

from raykeeper.chaos.checks.faults import FaultRecord
from raykeeper.chaos.client_pool import ChaosError
from raykeeper.chaos.fault_plan import EXCLUSIVE_KINDS, IMPATIENT_SHARE, Fault, OrderlyKind
from raykeeper.chaos.operator_process import start_operator
from raykeeper.clusters.ensemble import Ensemble

ORDERLY_S = 300.0
"""An orderly fault must end within this time, however many others there are."""


class OrderlyFaults:
    """Begins orderly faults, and collects their records."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._records: list[FaultRecord] = []
        self._failures: list[str] = []
        self._threads: dict[OrderlyKind, threading.Thread] = {}
        self._operators: dict[OrderlyKind, int] = {}
        self._turn = threading.Lock()

    def begin(self, fault: Fault) -> bool:
        """Begin a fault; return False if one of its kind is under way."""
        assert isinstance(fault.kind, OrderlyKind), fault
        thread = self._threads.get(fault.kind)
        if thread is not None and thread.is_alive():
            return False
        thread = threading.Thread(target=self._watch, args=[fault.kind, fault.pick], daemon=True)
        self._threads[fault.kind] = thread
        thread.start()
        return True

    def operator_pids(self) -> Sequence[int]:
        """Return the processes of the operators that are at work."""
        return list(self._operators.values())

    def under_way(self) -> list[str]:
        """Return the kinds that are under way."""
        return [kind for kind, thread in self._threads.items() if thread.is_alive()]

    def finish(self, voters: int) -> list[FaultRecord]:
        """Wait until all faults have ended; what is left of them is settled, with so many voters.

        Returns:
            The records of all faults.

        Raises:
            ChaosError: one of them failed, or did not end in time, though nothing is in the way any
                more.
        """
        for thread in self._threads.values():
            thread.join()
        if not self._failures:
            operator: Any = start_operator(self._ensemble.name)
            settling = operator.settle.remote(list(self._threads), voters)
            if problem := ray.get(settling, timeout=ORDERLY_S):
                self._failures.append(f"an orderly fault does not come to its end: {problem}")
        if self._failures:
            raise ChaosError("; ".join(self._failures))
        return self._records

    def _watch(self, kind: OrderlyKind, pick: int) -> None:
        waits = kind in EXCLUSIVE_KINDS and pick % IMPATIENT_SHARE
        with self._turn if waits else nullcontext():
            self._have_it_done(kind, pick)

    def _have_it_done(self, kind: OrderlyKind, pick: int) -> None:
        began, since_s = time.monotonic_ns(), int(time.time())
        deadline = time.monotonic() + ORDERLY_S
        is_cut_off = False
        try:
            while True:
                name = "go_on" if is_cut_off else "carry_out"
                refusal = self._operate(name, kind, pick, since_s, deadline)
                if refusal is not None:
                    break
                is_cut_off = True
        except ray.exceptions.GetTimeoutError:
            self._failures.append(f"{kind} has not ended after {ORDERLY_S:g} s")
            return
        except ray.exceptions.RayError as error:
            self._failures.append(f"{kind} failed: {error}")
            return
        ended = time.monotonic_ns()
        self._records.append(FaultRecord(kind, began, ended, refusal, is_cut_off))

    def _operate(
        self, name: str, kind: OrderlyKind, pick: int, since_s: int, deadline: float
    ) -> str | None:
        """Have an operator do it; return the refusal, or None if the operator was killed.

        Raises:
            RayError: it fails, or does not end before `deadline`.
        """
        operator: Any = start_operator(self._ensemble.name)
        try:
            self._operators[kind] = ray.get(operator.pid.remote(), timeout=_left(deadline))
            doing = getattr(operator, name).remote(kind, pick, since_s)
            refusal: str = ray.get(doing, timeout=_left(deadline))
            return refusal
        except ray.exceptions.RayActorError:
            return None
        finally:
            self._operators.pop(kind, None)


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
