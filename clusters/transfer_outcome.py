"""What a leader that was asked to hand over has answered, as a result or as an error."""

from raykeeper.actors.replica_status import TransferOutcome
from raykeeper.clusters.actor_calls import CANNOT_DO_THAT
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId


class LeadershipTransferError(RayKeeperError):
    """Raised when the lead was not transferred; the ensemble works as before.

    The message says why. The caller should choose another server, or try again.
    """


class CannotTransferError(LeadershipTransferError):
    """Raised when the program of the leader is of a version that knows no transfer.

    The caller should end the leader without one: the others elect another.
    """


def leader_after(asked: ServerId, answer: TransferOutcome | str) -> ServerId:
    """Return who leads now; `asked` has led, and a text says why it gave no answer.

    Raises:
        CannotTransferError: its program knows no transfer.
        LeadershipTransferError: it did not hand over; tells why.
    """
    if isinstance(answer, TransferOutcome) and answer.is_done and answer.leader is not None:
        return answer.leader
    why = f"server {asked}: {answer}" if isinstance(answer, str) else answer.reason
    kind = CannotTransferError if answer == CANNOT_DO_THAT else LeadershipTransferError
    raise kind(f"the lead was not transferred: {why}")
