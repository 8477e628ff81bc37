"""The loop of a change of the members: look, decide, act, and wait, until the plan is done.

Nothing is kept from one round to the next but for how long no act has succeeded. So the loop may
end between any two acts, and another process go on with the same plan.
"""

import re
import time
from collections.abc import Callable
from typing import Final

import ray.exceptions

from raykeeper.actors.sidecars import first_line
from raykeeper.client.errors import RayUnavailableError
from raykeeper.clusters.member_steps.next_act import next_act
from raykeeper.clusters.member_steps.vocabulary import Act, Done, MemberChangeError, Plan, Wait
from raykeeper.clusters.members_view import MembersView
from raykeeper.zab.errors import RayKeeperError

POLL_S: Final = 0.2
_TELL_EVERY_S: Final = 5.0
Tell = Callable[[str], object]


class NotYetError(RayKeeperError):
    """Raised when an act was refused for now, or its outcome is unknown. The caller looks again."""


class ChangeLoop:
    """One caller's work on a plan, by functions that look at the ensemble and act on it."""

    def __init__(
        self,
        look: Callable[[], MembersView],
        act: Callable[[Act, MembersView], None],
        tell: Tell,
        wait_s: float,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`act` raises NotYetError when it is to be tried again; `wait_s` bounds that."""
        self._look = look
        self._act = act
        self._tell = tell
        self._wait_s = wait_s
        self._sleep = sleep
        self._clock = clock
        self._told: tuple[str, float] = ("", 0.0)

    def until_leader(self) -> MembersView:
        """Return the first look that shows a leader with a majority behind it.

        Raises:
            MemberChangeError: there was none for as long as an act may take.
        """
        deadline = self._clock() + self._wait_s
        while (seen := self._look()).view.leader is None:
            if self._clock() > deadline:
                raise MemberChangeError(f"the ensemble has no leader: {seen.view.doubt}")
            self._tell_waiting(seen.view.doubt)
            self._sleep(POLL_S)
        return seen

    def run(self, plan: Plan) -> MembersView:
        """Act until the plan is done; return what is seen then.

        Raises:
            MemberChangeError: an act cannot be done, or not in time; the text tells why.
        """
        deadline = self._clock() + self._wait_s
        while True:
            try:
                seen = self._look()
                act = next_act(plan, seen.view)
                if isinstance(act, Done):
                    return seen
                if isinstance(act, Wait):
                    raise NotYetError(act.reason)
                self._act(act, seen)
            except (NotYetError, RayUnavailableError, ray.exceptions.RayError) as error:
                why = first_line(error)
                if self._clock() > deadline:
                    raise MemberChangeError(
                        f"no act succeeded for {self._wait_s:g} s: {why}"
                    ) from None
                self._tell_waiting(why)
                self._sleep(POLL_S)
            except RayKeeperError as error:
                raise MemberChangeError(first_line(error)) from error
            else:
                deadline = self._clock() + self._wait_s

    def _tell_waiting(self, why: str) -> None:
        """Tell why nothing happens: at once if the reason is another one, else now and then."""
        kind, told_at = re.sub(r"\d+", "#", why), self._told[1]
        if kind != self._told[0] or self._clock() - told_at >= _TELL_EVERY_S:
            self._told = (kind, self._clock())
            self._tell(f"waiting: {why}")
