"""The turn to restart servers, or to change the members, which one process has at a time.

It is the lock that changes of the members hold, too (members_lock.py).
Counterexample for none: two operators restart the servers, each of them one after the other. Both
see a majority in step, stop a different server at the same moment, and nobody can write.

A change of the members that was left has nobody who holds the lock; so whoever has the turn reads
the plan, and refuses. Counterexample: a server that joins is stopped to get new settings, and
started again by nobody, because it is no member yet.

The keeper takes no turn. It moves no server away from a live node while somebody has the lock: it
reads that after its decision stands in the tree. Whoever has the lock awaits the end of a move that
was decided before. Of the two writes one is the first, and the reader of the other one sees it.

docs/OPERATIONS.md has the table of all acts that may meet.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from raykeeper.client import Client
from raykeeper.client.errors import LostError
from raykeeper.clusters.healing.vocabulary import Cause, open_move_of
from raykeeper.clusters.member_journal import MemberJournal
from raykeeper.clusters.member_steps.vocabulary import how_to_go_on
from raykeeper.clusters.members_lock import SESSION_TIMEOUT_S, members_lock
from raykeeper.clusters.rolling_restart import RollingRestartError

_CONNECT_S: Final = 30.0
_POLL_S: Final = 0.2


class ConnectedEnsemble(Protocol):
    """What a turn needs of `Ensemble`."""

    name: str

    def connect(self, session_timeout_s: float = ..., timeout_s: float = ...) -> Client:
        """Open a session."""


@contextmanager
def rolling_turn(ensemble: ConnectedEnsemble, wait_s: float) -> Iterator[Callable[[], None]]:
    """Have the turn; what is yielded raises an error when it may be over.

    Another process is waited for, `wait_s` at most, and no longer than a dead one can have it. So
    is a move by the keeper, `wait_s` at most.

    Raises:
        RollingRestartError: another process has the turn, or this one may have lost it; a change
            of the members has not ended; or the keeper moves a server.
        KeeperError: the ensemble takes no session, or has no leader.
    """
    with (
        ensemble.connect(SESSION_TIMEOUT_S, _CONNECT_S) as client,
        take_turn(client, ensemble.name, wait_s) as check,
    ):
        yield check


@contextmanager
def take_turn(client: Client, name: str, wait_s: float) -> Iterator[Callable[[], None]]:
    """Have the turn in the session of a client; see `rolling_turn`."""

    def refusal(holder: str | None) -> RollingRestartError:
        return RollingRestartError(
            f"another process restarts servers of ensemble {name!r} now, or changes its members: "
            f"{holder or 'it has just ended; try again'}"
        )

    with members_lock(client, wait_s, refusal) as held:
        if (plan := MemberJournal(client).read_plan()) is not None:
            raise RollingRestartError(
                f"a change of the members has not ended: {how_to_go_on(name, plan)}"
            )
        _await_keeper(client, name, wait_s)

        def check() -> None:
            try:
                held.lost.check()
            except LostError as error:
                raise RollingRestartError(
                    f"another process may restart the servers of ensemble {name!r} now, for the "
                    f"session of this one is lost: {error}"
                ) from None

        yield check


def _await_keeper(client: Client, name: str, wait_s: float) -> None:
    """Wait until no server is being moved away from a live node.

    Raises:
        RollingRestartError: one still is after `wait_s`.
    """
    from raykeeper.clusters.keeper_journal import Journal  # whoever asks for a status needs none

    deadline = time.monotonic() + wait_s
    while (move := open_move_of(Journal(client).read_entries())) and move.cause is not Cause.LOST:
        if time.monotonic() > deadline:
            raise RollingRestartError(
                f"the keeper of ensemble {name!r} is moving server {move.server} to "
                f"{move.target_name}: wait for it (`raykeeper events {name}`), or start the keeper "
                "with `raykeeper up` if `raykeeper doctor` misses it"
            )
        time.sleep(_POLL_S)
