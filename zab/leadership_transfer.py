"""Who can take the lead over from an established leader, and the transfer that is under way.

Raft's dissertation, section 3.10, has the idea: a leader stops, brings one follower up to date, and
has it elected. Here the election stays as it is: the nominee has all of the leader's log, so no
voter has a better history, and among equals the others are not willing (`Vote.is_willing`). An
election without the nominee, which may have died meanwhile, elects another one.

Invariant: a leader steps down for a nominee only when the nominee has on disk all that the leader
ever logged, so a transfer loses no transaction, not even one that was never committed.
"""

from raykeeper.zab.history import History
from raykeeper.zab.ids import Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.learners import Learner, Learners, Stage
from raykeeper.zab.settings import Settings


class Transfer:
    """A transfer under way on a leader."""

    __slots__ = ("is_handing_over", "nominee", "ping_number", "until")

    def __init__(self, nominee: ServerId, until: Millis, ping_number: int) -> None:
        """Begin: the nominee and a quorum must answer that ping first."""
        self.nominee = nominee
        self.until = until
        self.ping_number = ping_number
        self.is_handing_over = False
        """Whether the leader prepares nothing more."""


def choose_successor(
    settings: Settings,
    history: History,
    learners: Learners,
    to: ServerId | None,
    lag_max: int,
) -> Learner | str:
    """Return the learner that takes over: `to`, or the one that lacks least of the log.

    A text says why there is none: of the one that was asked for, or of each voter.
    """
    voters = settings.members.voters
    if to is not None and to not in voters:
        return f"server {to} is no voter of this ensemble"
    others = [each for each in voters if each != settings.server_id]
    able: list[Learner] = []
    obstacles: list[str] = []
    for server in others if to is None else [to]:
        learner = learners.get(server)
        obstacle = obstacle_to_succession(server, learner, history)
        if obstacle or learner is None:
            obstacles.append(obstacle)
        elif (lag := lag_of(learner, history)) > lag_max:
            obstacles.append(f"server {server} lacks {lag} transactions, more than {lag_max}")
        else:
            able.append(learner)
    if able:
        return min(able, key=lambda learner: (-learner.acked, -learner.server_id))
    return "; ".join(obstacles) or "there is no other voter"


def obstacle_to_succession(server: ServerId, learner: Learner | None, history: History) -> str:
    """Return why a voter cannot take over, whatever it lacks of the log; "" if it can."""
    if learner is None:
        return f"server {server} does not follow"
    if not learner.has_vote:
        return f"server {server} waits for its vote, or is about to lose it"
    if learner.stage is not Stage.FOLLOWING:
        span = f"it had {format_zxid(learner.last_zxid)} of {format_zxid(history.logged)}"
        return f"server {server} is being synchronized: {span}"
    return "" if learner.is_logging else f"the disk of server {server} is full"


def lag_of(learner: Learner, history: History) -> int:
    """Return how many transactions of the leader's log a following learner has not on disk."""
    lacking = history.recent_log.between(learner.acked, Zxid(history.logged))
    return sum(len(run.txns) for run in lacking)
