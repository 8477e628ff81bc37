"""What a leader answers that was asked to hand over: who leads, or why nothing has changed."""

import pytest

from raykeeper.actors.replica_status import TransferOutcome
from raykeeper.clusters.actor_calls import CANNOT_DO_THAT
from raykeeper.clusters.transfer_outcome import (
    CannotTransferError,
    LeadershipTransferError,
    leader_after,
)
from raykeeper.zab.ids import ServerId

S1, S3 = ServerId(1), ServerId(3)


def test_the_new_leader_is_told() -> None:
    assert leader_after(S3, TransferOutcome(S1, is_done=True)) == S1


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (TransferOutcome(S3, False, "server 1 lags"), LeadershipTransferError, "server 1 lags"),
        (TransferOutcome(None, True, "nobody leads"), LeadershipTransferError, "nobody leads"),
        ("its actor is dead", LeadershipTransferError, "server 3: its actor is dead"),
        (CANNOT_DO_THAT, CannotTransferError, f"server 3: {CANNOT_DO_THAT}"),
    ],
)
def test_it_is_told_why_it_was_not(
    answer: TransferOutcome | str, kind: type[LeadershipTransferError], why: str
) -> None:
    with pytest.raises(LeadershipTransferError) as caught:
        leader_after(S3, answer)
    assert type(caught.value) is kind
    assert str(caught.value) == f"the lead was not transferred: {why}"
