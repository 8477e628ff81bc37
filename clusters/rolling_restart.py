"""Restart the servers of an ensemble one after the other, the leader last, after a transfer.

A leader whose program knows no transfer is restarted without one: the others elect a leader, which
holds writes up for as long as the end of a leader does.

`next_step` decides, from what the servers tell; `RollingRestart` acts and waits. Nothing is kept
between two runs. Whether a server is left to be restarted is seen from it: from the second in which
its process began (`began_before`), or from the settings with which it runs (rolling_settings.py).
So a run that was interrupted is gone on with by another one.

Invariant: a voter is stopped only while a majority of the voters is in step without it.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.transfer_outcome import CannotTransferError
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

_POLL_S: Final = 0.2

Answers = Mapping[ServerId, ReplicaStatus | str]
"""What each server of the ensemble answered; a text says why it did not."""


class RollingRestartError(RayKeeperError):
    """Raised when a rolling restart cannot go on.

    The servers named in the message were restarted, all others run as before. The message says what
    is in the way, and how to go on once it is not.
    """


class Restart(Struct, frozen=True):
    """Restart this server."""

    server: ServerId


class HandOver(Struct, frozen=True):
    """Have another server lead in place of this one, which comes next."""

    leader: ServerId


class Wait(Struct, frozen=True):
    """Wait for what the text says is missing."""

    reason: str


class Refuse(Struct, frozen=True):
    """Restart none: it can never be done so that writes go on."""

    reason: str


class Done(Struct, frozen=True):
    """Every server was restarted, and is in step."""


Step = Restart | HandOver | Wait | Refuse | Done


class View(Struct, frozen=True):
    """What one look at the servers shows."""

    voters: Collection[ServerId]
    """The servers with a vote; all others in `answers` are observers."""
    answers: Answers
    left: Collection[ServerId]
    """The servers that are to be restarted, as far as can be seen from them."""


def next_step(view: View, restarted: Collection[ServerId]) -> Step:
    """Return what comes next: observers first, then followers, then the leader.

    `restarted` are servers that were restarted by this run, whatever can be seen from them.
    """
    voters, answers = view.voters, view.answers
    if not voters:
        return Wait("no server answers")
    majority = len(voters) // 2 + 1
    left = [server for server in view.left if server not in restarted]
    if len(voters) - 1 < majority and any(server in voters for server in left):
        return Refuse(
            f"of {len(voters)} voting servers none can be restarted while writes go on: run "
            "`raykeeper down`, then `raykeeper up`"
        )
    late = [server for server in sorted(answers) if _missing(server, answers, voters)]
    reasons = "; ".join(f"server {each} {_missing(each, answers, voters)}" for each in late)
    if any(server in restarted for server in late):
        return Wait(reasons)  # one at a time
    if not left:
        return Wait(reasons) if late else Done()
    leader = next((s for s in answers if _role(answers[s]) == "leader"), None)
    server = min(left, key=lambda each: (each == leader, each in voters, each))
    if leader is None:
        return Wait(f"there is no leader: {reasons}")
    others = [each for each in voters if each != server and each not in late]
    if server in voters and len(others) < majority:
        return Wait(
            f"without server {server} there would be {len(others)} of {len(voters)} voters in "
            f"step, and {majority} are needed{': ' * bool(reasons)}{reasons}"
        )
    return HandOver(server) if server == leader else Restart(server)


def _missing(server: ServerId, answers: Answers, voters: Collection[ServerId]) -> str:
    """Return what a server lacks to be in step; "" if nothing."""
    answer = answers[server]
    if isinstance(answer, str):
        return f"does not answer: {answer}"
    if not answer.is_active:
        return f"follows no leader yet ({answer.role})"
    if server in voters and not answer.votes:
        return "waits for its vote"
    return "" if answer.has_disk_space else "has a full disk"


def _role(answer: ReplicaStatus | str) -> str:
    return "" if isinstance(answer, str) or not answer.is_active else answer.role


def began_before(answers: Answers, since_s: int) -> list[ServerId]:
    """Return the servers whose process did not begin after this second of their clock.

    A server's incarnation is the second in which its process began, or more.
    """
    return [
        server
        for server, answer in answers.items()
        if isinstance(answer, str) or answer.incarnation <= since_s
    ]


class RollingRestart:
    """One rolling restart, by functions that look at the servers and act on them."""

    def __init__(
        self,
        look: Callable[[], View],
        restart: Callable[[ServerId], None],
        hand_over: Callable[[], ServerId],
        tell: Callable[[str], object],
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` gets the progress, as lines; `restart` tells of a leader that cannot hand over."""
        self._look = look
        self._restart = restart
        self._hand_over = hand_over
        self._tell = tell
        self._sleep = sleep
        self._clock = clock

    def run(self, wait_s: float, how_to_go_on: str) -> list[ServerId]:
        """Restart every server that is left; return them in order.

        Raises:
            RollingRestartError: a server did not come back, or a majority would be in danger, for
                `wait_s`; or there are too few voters. It says `how_to_go_on`.
        """
        restarted: list[ServerId] = []
        deadline = self._clock() + wait_s
        while True:
            view = self._look()
            step = next_step(view, restarted)
            if isinstance(step, Done):
                return restarted
            if isinstance(step, Refuse):
                raise RollingRestartError(step.reason)
            if isinstance(step, Wait):
                if self._clock() >= deadline:
                    done = ", ".join(map(str, restarted)) or "none"
                    raise RollingRestartError(
                        f"{step.reason}; restarted so far: {done}; {how_to_go_on}"
                    )
                self._sleep(_POLL_S)
                continue
            server = step.server if isinstance(step, Restart) else self._after_transfer(step.leader)
            if server is not None:
                number = len(restarted) + 1
                self._tell(f"restarting server {server} ({number} of {len(view.answers)})")
                self._restart(server)
                restarted.append(server)
            deadline = self._clock() + wait_s

    def _after_transfer(self, leader: ServerId) -> ServerId | None:
        """Have another server lead; return the leader if it knows no transfer, and restarts so."""
        try:
            self._tell(f"server {self._hand_over()} leads, after server {leader}")
        except CannotTransferError:
            return leader
        return None
