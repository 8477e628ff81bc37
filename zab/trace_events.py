"""The names of trace events; the shell makes log lines and counters of them."""

from typing import Final


class TraceName(str):
    """The name of a trace event, and the names of the parts of its detail, a plain tuple."""

    fields: tuple[str, ...]

    def __new__(cls, name: str, *fields: str) -> "TraceName":
        """Name an event whose detail has these parts."""
        made = super().__new__(cls, name)
        made.fields = fields
        return made


ELECTION_STARTED: Final = TraceName("election.started", "round")
ELECTION_ROUND: Final = TraceName("election.round", "round")
ELECTION_DECIDED: Final = TraceName("election.decided", "round", "leader")
ROLE_LEFT: Final = TraceName("role.left", "role", "reason")
MESSAGE_STALE: Final = TraceName("message.stale", "peer", "message")
MESSAGE_ILLEGAL: Final = TraceName("message.illegal", "peer", "reason")
QUORUM_LOST: Final = TraceName("quorum.lost_disks", "voters_lost")
"""The voters that have kept their promises are no quorum."""
EPOCH_PROPOSED: Final = TraceName("epoch.proposed", "epoch")
HIGHER_EPOCH_PROMISED: Final = TraceName("epoch.outrun", "peer", "promised")
NEWER_HISTORY_FOUND: Final = TraceName("history.better", "peer", "epoch", "last")
LEARNER_JOINED: Final = TraceName("learner.joined", "peer", "votes")
LEARNER_LOST: Final = TraceName("learner.lost", "peer", "reason")
SYNC_DIFF: Final = TraceName("sync.diff", "peer", "last")
SYNC_TRUNC: Final = TraceName("sync.trunc", "peer", "last")
SYNC_SNAPSHOT: Final = TraceName("sync.snapshot", "peer", "last")
SYNC_READ_LOG: Final = TraceName("sync.read_log", "peer", "last")
LEVEL_REFUSED: Final = TraceName("level.refused", "peer", "reason")
"""A learner's program cannot read the log of this leader: it is too old."""
LEADER_ESTABLISHED: Final = TraceName("leader.established", "epoch", "last")
TRANSFER_BEGUN: Final = TraceName("transfer.begun", "nominee", "lag")
TRANSFER_HANDED_OVER: Final = TraceName("transfer.handed_over", "nominee", "logged")
TRANSFER_ABANDONED: Final = TraceName("transfer.abandoned", "nominee", "reason")
LEARNER_ACTIVATED: Final = TraceName("learner.activated", "leader", "delivered")
PROPOSAL_DUPLICATE: Final = TraceName("proposal.duplicate", "first")
COMMIT_DUPLICATE: Final = TraceName("commit.duplicate", "upto")
ACK_DUPLICATE: Final = TraceName("ack.duplicate", "upto")
LOG_PAUSED: Final = TraceName("log.paused", "logged")
LOG_UNCERTAIN: Final = TraceName("log.uncertain", "uncertain")
"""Too few of the servers that promised surely know all that was acknowledged; more must answer."""
VOTE_REPLACED: Final = TraceName("vote.replaced", "server", "disk")
MEMBERS_CHANGED: Final = TraceName("members.changed", "voters", "observers")
SNAPSHOT_DISCARDED: Final = TraceName("snapshot.discarded", "zxid")
