"""Draining a server: when it is refused, which leader comes before, and what is waited for."""

import inspect

import pytest

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters import Ensemble
from raykeeper.clusters.actor_calls import CANNOT_DO_THAT
from raykeeper.clusters.rolling_settings import apply_settings
from raykeeper.clusters.server_draining import (
    RATE_MAX,
    Answers,
    DrainPace,
    ServerDrainError,
    check_drain,
    drain_before_stop,
    drain_server,
)
from raykeeper.clusters.transfer_outcome import leader_after
from raykeeper.commands.declarations import lifecycle
from raykeeper.zab.ids import ServerId

S1, S2, S3 = (ServerId(number) for number in range(1, 4))


def said(server: ServerId, role: str = "follower", **more: object) -> ReplicaStatus:
    fields: dict[str, object] = {"is_active": True, "votes": True, **more}
    return ReplicaStatus(server_id=server, role=role, pid=1, node_id="n", **fields)  # type: ignore[arg-type]


LEADER = said(S3, "leader")
ALL: Answers = {S1: said(S1), S2: said(S2), S3: LEADER}


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({S1: said(S1), S3: LEADER}, "there is no server 2; the members are 1, 3"),
        ({**ALL, S2: "its process is gone"}, "server 2 cannot be drained: its process is gone"),
        ({S2: said(S2)}, "no other server would take the clients of server 2: there is none"),
        (
            {**ALL, S1: "late", S3: said(S3, clients_to_move=1)},
            "no other server would take the clients of server 2: server 1 does not answer: late; "
            "server 3 is drained",
        ),
        (
            {S1: said(S1, "looking", is_active=False), S2: said(S2)},
            "no other server would take the clients of server 2: server 1 follows no leader "
            "(looking)",
        ),
    ],
)
def test_a_server_whose_clients_have_nowhere_to_go_is_not_drained(
    answers: Answers, problem: str
) -> None:
    with pytest.raises(ServerDrainError) as caught:
        check_drain(S2, answers)
    assert str(caught.value) == problem


def test_one_that_has_another_beside_it_may_be_drained() -> None:
    assert check_drain(S2, {**ALL, S1: "late"}) == ALL[S2]
    # A drain that was begun may be asked for again.
    assert check_drain(S2, {**ALL, S2: said(S2, clients_to_move=4)}) == said(S2, clients_to_move=4)


@pytest.mark.parametrize("rate", [0, RATE_MAX + 1])
def test_a_rate_out_of_range_is_refused_before_anybody_is_asked(rate: int) -> None:
    with pytest.raises(ServerDrainError, match=f"clients_per_s is {rate}, expected 1 to"):
        drain_server(
            Ensemble("none"), S1, clients_per_s=rate, patience_s=1, timeout_s=1, tell=print
        )


def test_no_restart_begins_with_a_pace_out_of_range() -> None:
    """Else its servers would be stopped without a drain, as one that is refused is passed over."""
    with pytest.raises(ServerDrainError, match="clients_per_s is 0"):
        Ensemble("none").rolling_restart(clients_per_s=0)
    for patience_s in (-1, float("nan"), float("inf")):
        with pytest.raises(ServerDrainError, match="patience_s is"):
            apply_settings(name="none", patience_s=patience_s)


def test_the_command_has_the_defaults_of_the_call() -> None:
    by_call = inspect.signature(Ensemble.drain).parameters
    by_command = inspect.signature(lifecycle.drain_server).parameters
    for name in ("clients_per_s", "patience_s", "timeout_s"):
        assert by_call[name].default == by_command[name].default


class EarlierLeader:
    """An ensemble whose leader knows no transfer."""

    name = "earlier"
    drained: int | None = None

    def ask_all(self) -> tuple[tuple[ServerId, ...], dict[ServerId, ReplicaStatus | str]]:
        return (S1, S2, S3), {**ALL, S3: said(S3, "leader", clients_to_move=self.drained)}

    def transfer_leadership(self, to: int | None = None) -> ServerId:
        return leader_after(S3, CANNOT_DO_THAT)


def test_a_leader_that_knows_no_transfer_may_be_stopped_all_the_same() -> None:
    told: list[str] = []
    ensemble = EarlierLeader()
    ensemble.drained = 4
    drain_before_stop(ensemble, S3, DrainPace(), 1.0, told.append)
    assert told == [
        "server 3 is drained; it takes clients again once it has begun anew",
        "the lead was not transferred: server 3: its program is of an earlier version, which "
        "cannot do that; it is stopped all the same",
    ]
