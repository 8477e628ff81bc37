"""The rolling restart: which server comes next, when it waits, and when it stops."""

import pytest

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.rolling_restart import (
    Done,
    HandOver,
    Refuse,
    Restart,
    RollingRestart,
    RollingRestartError,
    Step,
    View,
    Wait,
    began_before,
    next_step,
)
from raykeeper.clusters.transfer_outcome import CannotTransferError, LeadershipTransferError
from raykeeper.zab.ids import ServerId

S1, S2, S3, S4 = (ServerId(number) for number in range(1, 5))
VOTERS = (S1, S2, S3)
SINCE = 1_000


def said(server: int, role: str = "follower", began: int = 900, **more: object) -> ReplicaStatus:
    fields: dict[str, object] = {"is_active": True, "votes": role != "observer", **more}
    return ReplicaStatus(
        server_id=ServerId(server),
        role=role,
        pid=1,
        node_id="n",
        incarnation=began,
        **fields,  # type: ignore[arg-type]
    )


LEADER, NEW_LEADER = said(3, "leader"), said(3, "leader", 1_001)
OLD = {S1: said(1), S2: said(2), S3: LEADER}
NEW = {S1: said(1, began=1_001), S2: said(2, began=1_001), S3: LEADER}
OBSERVED = {**OLD, S4: said(4, "observer")}


@pytest.mark.parametrize(
    ("answers", "restarted", "step"),
    [
        # Observers first, then followers, then the leader, which hands over before.
        (OBSERVED, [], Restart(S4)),
        (OLD, [], Restart(S1)),
        (OLD, [S1], Restart(S2)),
        ({**OLD, S1: NEW[S1]}, [], Restart(S2)),
        (NEW, [], HandOver(S3)),
        ({**NEW, S1: said(1, "leader", 1_001), S3: said(3)}, [], Restart(S3)),
        ({**NEW, S3: NEW_LEADER}, [], Done()),
        (OLD, [S1, S2, S3], Done()),
        # The one that was restarted must be in step before the next.
        ({**OLD, S1: "no answer"}, [S1], Wait("server 1 does not answer: no answer")),
        (
            {**OLD, S1: said(1, "looking", is_active=False)},
            [S1],
            Wait("server 1 follows no leader yet (looking)"),
        ),
        ({**OLD, S1: said(1, votes=False)}, [S1], Wait("server 1 waits for its vote")),
        ({**OLD, S1: said(1, has_disk_space=False)}, [S1], Wait("server 1 has a full disk")),
        ({**NEW, S3: "gone"}, [S1, S2, S3], Wait("server 3 does not answer: gone")),
        (
            {S1: NEW[S1], S2: said(2, began=1_001), S3: said(3, "leader", 1_001, votes=False)},
            [],
            Wait("server 3 waits for its vote"),
        ),
        # A majority must be in step without the next one.
        (
            {**OLD, S2: "gone"},
            [],
            Wait(
                "without server 1 there would be 1 of 3 voters in step, and 2 are needed: "
                "server 2 does not answer: gone"
            ),
        ),
        # An observer is in nobody's way, and nobody in the observer's.
        ({**OBSERVED, S2: "gone"}, [], Restart(S4)),
        ({**OBSERVED, S4: "gone"}, [], Restart(S4)),
        # Without a leader nothing is in step.
        (
            {S1: said(1), S2: said(2), S3: "gone"},
            [],
            Wait("there is no leader: server 3 does not answer: gone"),
        ),
    ],
)
def test_the_next_step(
    answers: dict[ServerId, ReplicaStatus | str], restarted: list[ServerId], step: Step
) -> None:
    view = View(VOTERS, answers, began_before(answers, SINCE))
    assert next_step(view, restarted) == step


@pytest.mark.parametrize("voters", [(S3,), (S2, S3)])
def test_few_voters_have_no_majority_to_spare(voters: tuple[ServerId, ...]) -> None:
    answers = {server: OLD[server] for server in voters}
    assert next_step(View(voters, answers, voters), []) == Refuse(
        f"of {len(voters)} voting servers none can be restarted while writes go on: run "
        "`raykeeper down`, then `raykeeper up`"
    )
    # An observer among them can, and none that is not left need be.
    answers = {**answers, S4: said(4, "observer")}
    assert next_step(View(voters, answers, [S4]), []) == Restart(S4)
    assert next_step(View(voters, answers, []), []) == Done()


def test_without_an_answer_nothing_is_done() -> None:
    """No server tells who the voters are; until now that was taken for the end of the restart."""
    assert next_step(View((), {}, []), [S1]) == Wait("no server answers")


class Cluster:
    """Three servers whose restarts take two looks."""

    def __init__(self) -> None:
        self.answers: dict[ServerId, ReplicaStatus | str] = dict(OLD)
        self.told: list[str] = []
        self.now = 0.0
        self.returns = True
        self.is_earlier = False
        """Whether the leader knows no transfer."""
        self._starting: ServerId | None = None

    def look(self) -> View:
        found = dict(self.answers)
        if self._starting is not None and self.returns:
            self.answers[self._starting] = said(self._starting, began=2_000)
            self._starting = None
        return View(VOTERS, found, began_before(found, SINCE))

    def restart(self, server: ServerId) -> None:
        if self.answers[server] == LEADER:  # another one is elected
            self.answers[S2] = said(S2, "leader", 2_000)
        self.answers[server] = "its process is gone"
        self._starting = server

    def hand_over(self) -> ServerId:
        if self.is_earlier:
            raise CannotTransferError("an earlier version")
        self.answers |= {S1: said(1, "leader", 2_000), S3: said(3)}
        return S1

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self) -> list[ServerId]:
        acts = (self.look, self.restart, self.hand_over, self.told.append)
        return RollingRestart(*acts, self.sleep, lambda: self.now).run(5.0, "go on so")


def test_all_are_restarted_in_order() -> None:
    cluster = Cluster()
    assert cluster.run() == [S1, S2, S3]
    assert cluster.told == [
        "restarting server 1 (1 of 3)",
        "restarting server 2 (2 of 3)",
        "server 1 leads, after server 3",
        "restarting server 3 (3 of 3)",
    ]


def test_a_leader_that_knows_no_transfer_is_restarted_without_one() -> None:
    cluster = Cluster()
    cluster.is_earlier = True
    assert cluster.run() == [S1, S2, S3]
    assert cluster.told == [f"restarting server {number} ({number} of 3)" for number in (1, 2, 3)]


def test_a_leader_that_cannot_hand_over_now_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> ServerId:
        raise LeadershipTransferError("server 1 lags")

    cluster = Cluster()
    monkeypatch.setattr(cluster, "hand_over", refuse)
    with pytest.raises(LeadershipTransferError, match="server 1 lags"):
        cluster.run()
    assert cluster.answers[S3] == LEADER


def test_it_stops_when_a_server_does_not_come_back() -> None:
    cluster = Cluster()
    cluster.returns = False
    with pytest.raises(RollingRestartError) as caught:
        cluster.run()
    assert str(caught.value) == (
        "server 1 does not answer: its process is gone; restarted so far: 1; go on so"
    )
    assert 5 <= cluster.now < 6


def test_it_goes_on_where_it_stopped() -> None:
    cluster = Cluster()
    cluster.answers[S1] = said(1, began=1_001)
    assert cluster.run() == [S2, S3]


def test_it_begins_nothing_when_there_are_too_few_voters() -> None:
    def restart(server: ServerId) -> None:
        raise AssertionError(server)

    view = View((S3,), {S3: LEADER}, [S3])
    rolling = RollingRestart(lambda: view, restart, lambda: S3, lambda _: None)
    with pytest.raises(RollingRestartError, match="of 1 voting servers none can be restarted"):
        rolling.run(5.0, "")
