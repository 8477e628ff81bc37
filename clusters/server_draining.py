"""Drain a server: it takes no clients and moves those it has, votes on, and keeps its data.

`draining.py` is something else: it has the keeper move servers away from a Ray node.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.actor_calls import call_actors, find_replicas
from raykeeper.clusters.transfer_outcome import CannotTransferError
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

CLIENTS_PER_S: Final = 200
"""A return takes a millisecond of processors, so this takes a fifth of one."""
PATIENCE_S: Final = 10.0
PATIENCE_MAX_S: Final = 86_400.0
TIMEOUT_S: Final = 600.0
RATE_MAX: Final = 100_000
_POLL_S: Final = 0.2
_BEGIN_S: Final = 2.0
"""How long the status may not tell of the drain that was asked for."""
_TELL_S: Final = 1.0

Answers = Mapping[ServerId, ReplicaStatus | str]


class DrainPace(Struct, frozen=True):
    """How the clients of a server are moved; see `Ensemble.drain`.

    Raises:
        ServerDrainError: a number is out of range.
    """

    clients_per_s: int = CLIENTS_PER_S
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Check both: a restart would pass over a drain that is refused."""
        if not 1 <= self.clients_per_s <= RATE_MAX:
            raise ServerDrainError(
                f"clients_per_s is {self.clients_per_s}, expected 1 to {RATE_MAX}"
            )
        if not 0 <= self.patience_s <= PATIENCE_MAX_S:
            raise ServerDrainError(
                f"patience_s is {self.patience_s:g}, expected 0 to {PATIENCE_MAX_S:g}"
            )


class DrainedEnsemble(Protocol):
    """What a drain needs of `Ensemble`."""

    name: str

    def ask_all(self) -> tuple[tuple[ServerId, ...], dict[ServerId, ReplicaStatus | str]]:
        """Return the voters, and what every server tells."""

    def transfer_leadership(self, to: int | None = None) -> ServerId:
        """Have another server lead; return which."""


class ServerDrainError(RayKeeperError):
    """Raised when a server cannot be drained, or has not moved all its clients in time.

    The text tells why, and whether the server goes on to move them.
    """


def check_drain(server: ServerId, answers: Answers) -> ReplicaStatus:
    """Return the status of a server that may be drained: another one takes its clients.

    Raises:
        ServerDrainError: it may not; tells why.
    """
    answer = answers.get(server)
    if answer is None:
        known = ", ".join(map(str, sorted(answers)))
        raise ServerDrainError(f"there is no server {server}; the members are {known}")
    if isinstance(answer, str):
        raise ServerDrainError(f"server {server} cannot be drained: {answer}")
    others = {each: why_no_clients(answers[each]) for each in sorted(answers) if each != server}
    if all(others.values()):
        told = "; ".join(f"server {each} {why}" for each, why in others.items()) or "there is none"
        raise ServerDrainError(f"no other server would take the clients of server {server}: {told}")
    return answer


def why_no_clients(answer: ReplicaStatus | str) -> str:
    """Return why a server takes no clients; "" if it takes them."""
    if isinstance(answer, str):
        return f"does not answer: {answer}"
    if not answer.is_active:
        return f"follows no leader ({answer.role})"
    return "" if answer.clients_to_move is None else "is drained"


def drain_server(
    ensemble: DrainedEnsemble,
    server: ServerId,
    *,
    clients_per_s: int,
    patience_s: float,
    timeout_s: float,
    tell: Callable[[str], object],
) -> int:
    """Drain a server, as `Ensemble.drain` does; return how many clients it had.

    Raises:
        ServerDrainError: it cannot be drained, or still has clients after `timeout_s`.
        LeadershipTransferError: it leads and cannot hand over. Nothing was changed.
        EnsembleNotFoundError: no server of the ensemble runs.
    """
    DrainPace(clients_per_s, patience_s)
    voters, answers = ensemble.ask_all()
    answer = check_drain(server, answers)
    _hand_over(ensemble, server, voters, answers, tell)
    handle = find_replicas(ensemble.name).get(server)
    if not hasattr(handle, "drain"):
        raise ServerDrainError(
            f"server {server} runs a version that cannot be drained; restart it to upgrade it"
        )
    begin = clients_per_s, round(patience_s * 1000)
    (refusal,) = call_actors([handle], "drain", given=begin)
    if refusal:
        raise ServerDrainError(f"server {server} was not drained: {refusal}")
    before = sum(answer.clients.values())
    _await_moves(ensemble, server, timeout_s, tell)
    return before


def drain_before_stop(
    ensemble: DrainedEnsemble,
    server: ServerId,
    pace: DrainPace,
    timeout_s: float,
    tell: Callable[[str], object],
) -> None:
    """Drain a server that is stopped next, as far as it goes: its clients can bear its stop, too.

    If the caller is interrupted, the server takes clients again. A leader whose program knows no
    transfer knows no drain either: `tell` gets that, and it may be stopped all the same.

    Raises:
        LeadershipTransferError: it leads and cannot hand over now.
    """
    answer = ensemble.ask_all()[1].get(server, "")
    if isinstance(answer, ReplicaStatus) and answer.clients_to_move is not None:
        tell(f"server {server} is drained; it takes clients again once it has begun anew")
    try:
        drain_server(
            ensemble,
            server,
            clients_per_s=pace.clients_per_s,
            patience_s=pace.patience_s,
            timeout_s=timeout_s,
            tell=tell,
        )
    except (ServerDrainError, CannotTransferError) as error:
        tell(f"{error}; it is stopped all the same")
    except BaseException:
        with suppress(RayKeeperError):
            end_drain(ensemble, server)
        raise


def end_drain(ensemble: DrainedEnsemble, server: ServerId) -> bool:
    """Have a server take clients again; return whether it was drained.

    Raises:
        ServerDrainError: there is no such server, or it does not answer.
        EnsembleNotFoundError: no server of the ensemble runs.
    """
    handles = find_replicas(ensemble.name)
    if server not in handles:
        known = ", ".join(map(str, sorted(handles)))
        raise ServerDrainError(f"server {server} does not run; those that run are {known}")
    if not hasattr(handles[server], "end_drain"):
        return False
    (answer,) = call_actors([handles[server]], "end_drain")
    if isinstance(answer, str):
        raise ServerDrainError(f"server {server}: {answer}")
    return bool(answer)


def _hand_over(
    ensemble: DrainedEnsemble,
    server: ServerId,
    voters: tuple[ServerId, ...],
    answers: Answers,
    tell: Callable[[str], object],
) -> None:
    """Have another server lead if this one does and there is another voter in step."""
    answer = answers[server]
    if isinstance(answer, str) or answer.role != "leader" or not answer.is_active:
        return
    nominees = [
        each
        for each in voters
        if each != server and isinstance(other := answers[each], ReplicaStatus) and other.votes
    ]
    if not nominees:
        return  # it leads on, and its clients go to observers
    free = [each for each in nominees if not why_no_clients(answers[each])]
    to = free[0] if len(free) < len(nominees) and free else None
    tell(f"server {ensemble.transfer_leadership(to)} leads, after server {server}")


def _await_moves(
    ensemble: DrainedEnsemble, server: ServerId, timeout_s: float, tell: Callable[[str], object]
) -> None:
    began = told_at = time.monotonic()
    has_begun = False
    left = -1
    while left:
        voters, answers = ensemble.ask_all()
        answer = answers.get(server, "it left the ensemble")
        now = time.monotonic()
        if isinstance(answer, str):
            raise ServerDrainError(f"server {server} has ended meanwhile: {answer}")
        if answer.clients_to_move is None:
            if has_begun or now - began > _BEGIN_S:
                raise ServerDrainError(
                    f"server {server} is drained no more: its process began anew, or another "
                    "command has ended the drain"
                )
        else:
            has_begun, left = True, answer.clients_to_move
            _hand_over(ensemble, server, voters, answers, tell)  # it may have been elected again
        if not left:
            return
        if has_begun and now - told_at >= _TELL_S:
            told_at = now
            tell(f"server {server} has {left} clients to move")
        if now - began > timeout_s:
            raise ServerDrainError(
                f"server {server} still has {left} clients after {timeout_s:g} s, and goes on to "
                f"move them; `raykeeper drain-server {server} {ensemble.name} --undo` ends that"
            )
        time.sleep(_POLL_S)
