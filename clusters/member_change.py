"""Change the members of a running ensemble: plan, write the plan down, act until it is done.

`next_act` decides (member_steps/); this file looks, acts and waits. The plan stands in the tree
from before the first act to after the last, and one caller at a time holds the lock beside it. A
caller that dies leaves both: the lock goes with its session, and the next one resumes the plan, or
undoes it.

Invariant: each step of the list carries the version of the list on which it was decided, so a
caller that only seemed dead, or another change, makes it fail. An act whose outcome is unknown is
not repeated but looked at.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import ray
import ray.exceptions
from msgspec.structs import replace

from raykeeper.actors.replica_status import REMOVED, ReconfigOutcome, ReplicaStatus
from raykeeper.actors.sidecars import first_line
from raykeeper.client import Client
from raykeeper.client.errors import RayUnavailableError
from raykeeper.client.ray_lookups import ask_ray, find_actor
from raykeeper.client.recipes.acquirable import Held
from raykeeper.clusters.actor_calls import call_actors, find_replicas
from raykeeper.clusters.change_loop import POLL_S, ChangeLoop, NotYetError, Tell
from raykeeper.clusters.config import EnsembleConfig, make_config, warning_of_even
from raykeeper.clusters.feature_level import feature_level_of, why_members_stay
from raykeeper.clusters.keeper_journal import Journal as KeeperJournal
from raykeeper.clusters.member_journal import MemberJournal
from raykeeper.clusters.member_steps.planning import (
    Known,
    Request,
    left_for_good,
    plan_change,
    undone,
)
from raykeeper.clusters.member_steps.vocabulary import (
    Act,
    Done,
    End,
    HandOver,
    MemberChangeError,
    Plan,
    Start,
    Step,
    Wait,
    how_to_go_on,
)
from raykeeper.clusters.members_lock import SESSION_TIMEOUT_S, identify_process, members_lock
from raykeeper.clusters.members_view import MembersView, look
from raykeeper.clusters.newcomers import (
    check_newcomers,
    is_nowhere,
    mark_as_left,
    start_newcomer,
)
from raykeeper.clusters.node_discovery import discover_nodes, find_live_node
from raykeeper.clusters.placement import PlacementError
from raykeeper.clusters.running_servers import ask_statuses, described_by, find_actors, find_running
from raykeeper.clusters.running_settings import adopt_settings
from raykeeper.clusters.starting import FormatTimeoutError
from raykeeper.links.ray_internals import actor_id, draining_nodes
from raykeeper.links.ray_names import snapshotter_name, tracker_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId, format_zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig

_STEP_S: Final = 30.0
"""How long the leader may take to say a list twice, before its outcome counts as unknown."""
_END_S: Final = 5.0
"""How long a server has to end by itself once it is no member."""
_LOST_EVERY_S: Final = 5.0
"""How often the nodes are asked for the folder of a server that does not answer."""
RequestOf = Callable[[Known], Request]


class EnsembleHandle(Protocol):
    """What a change needs of an `Ensemble`."""

    name: str

    def connect(self, session_timeout_s: float = ...) -> Client:
        """Open a session."""

    def transfer_leadership(self, to: int) -> ServerId:
        """Have that server lead."""


class MemberChange:
    """One caller at a change, while it holds the lock."""

    def __init__(
        self, ensemble: EnsembleHandle, client: Client, held: Held[Any], tell: Tell, wait_s: float
    ) -> None:
        """`wait_s` bounds each act with all that it waits for."""
        self._ensemble = ensemble
        self._journal = MemberJournal(client)
        self._keeper = KeeperJournal(client)
        self._held = held
        self._tell = tell
        self._wait_s = wait_s
        self._lost: dict[ServerId, tuple[float, bool]] = {}
        self._config = running_config(ensemble.name)

    def begin(self, request_of: RequestOf, node: str | None = None) -> None:
        """Plan a change, write the plan down, and bring it about.

        Args:
            request_of: Returns what is asked for, from what is known.
            node: The beginning of the id of the Ray node that newcomers must run on; None: any
                that the settings allow.

        Raises:
            MemberChangeError: it makes no sense, another change has not ended, or it cannot go on.
        """
        open_plan = self._journal.read_plan()
        if open_plan is not None:
            raise MemberChangeError(f"another change has not ended: {self._told(open_plan)}")
        known = self.know()
        plan = plan_change(request_of(known), known, identify_process())
        if plan is None:
            self._tell(f"the members are so already: {known.members}")
            return
        if node is not None:
            node, problem = find_live_node(node)
            if problem:
                raise MemberChangeError(problem)
            plan = replace(plan, nodes=dict.fromkeys(plan.newcomers, node))
        try:
            coming = [server for server in plan.newcomers if server in plan.target.servers]
            check_newcomers(self._config, coming, plan.nodes, self._leaving())
        except (PlacementError, RayUnavailableError, ray.exceptions.RayError) as error:
            raise MemberChangeError(f"nothing was changed: {first_line(error)}") from error
        with self._told_if_interrupted(plan):
            self._journal.begin(self._held, plan)
            if even := warning_of_even(len(plan.target.voters)):
                self._tell(f"warning: {even}")
            self._tell(f"{plan.text}: from {plan.before} to {plan.target}")
            self._run(plan)

    def resume(self) -> None:
        """Go on with the change that has not ended, forward or back as it was.

        Raises:
            MemberChangeError: there is none, or it cannot go on.
        """
        plan = self._open_plan()
        self._tell(f"going on: {plan}")
        with self._told_if_interrupted(plan):
            self._run(plan)

    def undo(self) -> None:
        """Go back from the change that has not ended.

        Raises:
            MemberChangeError: there is none, or it cannot go on.
        """
        plan = self._open_plan()
        members = self._loop().until_leader().view.members
        if not plan.is_undone:
            plan = undone(plan, members)
            self._journal.change(self._held, plan)
        self._tell(f"going back to {plan.target}")
        left = left_for_good(plan, members)
        if gone := [server for server in left if server not in plan.replaced.values()]:
            listed = ", ".join(map(str, gone))
            self._tell(f"server {listed} has left already and does not come back: add another one")
        with self._told_if_interrupted(plan):
            self._run(plan)

    def know(self) -> Known:
        """Return what is known before a change is planned.

        Raises:
            MemberChangeError: there is no leader.
        """
        seen = self._loop().until_leader()
        nodes = discover_nodes(self._config.data_dir, self._config.name)
        described = described_by(find_running(self._config.name))
        ids = {*seen.handles}
        ids |= {server for each in described for server in each.founding_voters}
        ids |= {server for each in described for server in each.founding_observers}
        ids |= {folder.server_id for node in nodes for folder in node.folders}
        ids |= {folder.server_id for node in nodes for folder in node.unreadable}
        view = seen.view
        working = tuple(server for server, each in view.servers.items() if not each.problem)
        level = feature_level_of(ask_statuses(self._ensemble.name), view.leader)
        return Known(
            members=view.members,
            leader=view.leader,
            working=working,
            running=tuple(seen.handles),
            taken_ids=frozenset(ids),
            level_problem=why_members_stay(level),
        )

    def _open_plan(self) -> Plan:
        plan = self._journal.read_plan()
        if plan is None:
            raise MemberChangeError(f"no change of ensemble {self._ensemble.name!r} is open")
        return plan

    # Acts.

    def _run(self, plan: Plan) -> None:
        """Act until the plan is done, then remove it.

        Raises:
            MemberChangeError: an act cannot be done, or not in time; the plan stays.
        """
        try:
            seen = self._loop(plan).run(plan)
            self._journal.end(self._held)
        except RayKeeperError as error:
            raise MemberChangeError(
                f"{first_line(error)}. The change has not ended: {self._told(plan)}"
            ) from error
        self._tell(f"done: {seen.view.members}")

    @contextmanager
    def _told_if_interrupted(self, plan: Plan) -> Iterator[None]:
        """Tell how to go on with a change, or back, when the user ends this process."""
        try:
            yield
        except KeyboardInterrupt:
            self._tell(f"interrupted. The change has not ended: {self._told(plan)}")
            raise

    def _told(self, plan: Plan) -> str:
        return how_to_go_on(self._ensemble.name, plan)

    def _loop(self, plan: Plan | None = None) -> ChangeLoop:
        newcomers = () if plan is None else plan.newcomers

        def act(act: Act, seen: MembersView) -> None:
            assert plan is not None, act
            self._act(act, seen, plan)

        return ChangeLoop(lambda: self._look(newcomers), act, self._tell, self._wait_s)

    def _act(self, act: Act, seen: MembersView, plan: Plan) -> None:
        """Do an act, if the lock is still held.

        Raises:
            NotYetError: it was refused, or its outcome is unknown.
            RayKeeperError: it cannot be done.
        """
        self._held.lost.check()
        match act:
            case Start():
                self._start(act, seen)
            case Step():
                self._step(act, seen)
            case HandOver():
                self._hand_over(act)
            case End():
                self._end(act.server, seen, plan)
            case Wait() | Done():
                raise AssertionError(act)

    def _start(self, act: Start, seen: MembersView) -> None:
        if act.is_again:
            self._kill(act.server, seen.handles[act.server])
        self._lost.pop(act.server, None)  # else the new one counts as lost while it starts
        try:
            node = start_newcomer(self._config, act.server, act.node, self._leaving())
        except FormatTimeoutError as error:
            raise NotYetError(first_line(error)) from None
        where = f" on {node}" if node else ""
        self._tell(f"started server {act.server}{where}")

    def _leaving(self) -> set[str]:
        """Return the nodes on which no newcomer starts unless the operator has named it."""
        return {*ask_ray("the nodes that it loses", draining_nodes), *self._keeper.read_drains()}

    def _step(self, step: Step, seen: MembersView) -> None:
        leader = seen.view.leader
        assert leader is not None, seen
        op = Reconfig(step.joining, step.leaving, step.as_observer, seen.version)
        (outcome,) = call_actors([seen.handles[leader]], "reconfig", given=(op,), timeout_s=_STEP_S)
        if not isinstance(outcome, ReconfigOutcome):
            raise NotYetError(f"server {leader}: {outcome}")
        if outcome.code == Code.OK:
            self._tell(f"{step} (version {format_zxid(outcome.version)})")
        elif outcome.code == Code.UNIMPLEMENTED:
            raise MemberChangeError(outcome.reason)
        else:
            raise NotYetError(outcome.reason)

    def _hand_over(self, act: HandOver) -> None:
        try:
            self._ensemble.transfer_leadership(act.to)
        except RayKeeperError as error:
            raise NotYetError(first_line(error)) from None
        self._tell(f"server {act.to} leads, after server {act.leader}")

    def _end(self, server: ServerId, seen: MembersView, plan: Plan) -> None:
        """End a server that is no member, and note in its folder why."""
        handle = seen.handles[server]
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            (answer,) = call_actors([handle], "status")
            if not isinstance(answer, ReplicaStatus) or answer.role == REMOVED:
                break
            time.sleep(POLL_S)
        else:
            ray.wait([handle.stop.remote()], timeout=_END_S)
        self._kill(server, handle)
        why = f"is no member by the list of version {format_zxid(seen.version)}"
        if plan.is_undone and server in plan.newcomers:
            why = "was not added, because the change was undone"
        with suppress(RayKeeperError, ray.exceptions.RayError):  # a launch knows by the list
            mark_as_left(self._config, server, seen.listed, why)
        self._tell(f"ended server {server}")

    def _kill(self, server: ServerId, replica: Any) -> None:
        """End these actors for good, and wait until Ray has the server no longer."""
        name = self._ensemble.name
        sidecars = [find_actor(of(name, server)) for of in (tracker_name, snapshotter_name)]
        self._held.lost.check()
        for handle in (replica, *sidecars):
            if handle is not None:
                ray.kill(handle, no_restart=True)
        deadline = time.monotonic() + _STEP_S
        while (known := find_actors(name).get(server)) and actor_id(known) == actor_id(replica):
            if time.monotonic() > deadline:
                raise NotYetError(f"server {server} does not end")
            time.sleep(POLL_S)

    def _look(self, newcomers: Collection[ServerId]) -> MembersView:
        handles = find_replicas(self._ensemble.name)
        return look(handles, lambda server: server in newcomers and self._is_lost(server))

    def _is_lost(self, server: ServerId) -> bool:
        """Return whether no node has the folder of a server; asks the nodes now and then."""
        asked_at, is_lost = self._lost.get(server, (0.0, False))
        if time.monotonic() - asked_at > _LOST_EVERY_S:
            is_lost = is_nowhere(self._config, server)
            self._lost[server] = (time.monotonic(), is_lost)
        return is_lost


@contextmanager
def member_change(ensemble: EnsembleHandle, tell: Tell, wait_s: float) -> Iterator[MemberChange]:
    """Hold the lock of changes of the members, and a session for it.

    Another caller who holds it is waited for, `wait_s` at most, and no longer than a dead one can
    hold it (members_lock.py): so a change can be resumed right after its caller was killed.

    Raises:
        MemberChangeError: another caller holds it; says who.
    """

    def refusal(holder: str | None) -> MemberChangeError:
        return MemberChangeError(
            f"{holder or 'another one'} is changing the members of ensemble {ensemble.name!r} now, "
            "or restarts its servers"
        )

    with (
        ensemble.connect(SESSION_TIMEOUT_S) as client,
        members_lock(client, wait_s, refusal) as held,
    ):
        yield MemberChange(ensemble, client, held, tell, wait_s)


def running_config(name: str) -> EnsembleConfig:
    """Return the settings with which the servers of an ensemble run.

    Raises:
        MemberChangeError: none of them tells.
    """
    described = described_by(find_running(name))
    if not described:
        raise MemberChangeError(f"no server of ensemble {name!r} answers")
    return adopt_settings(make_config({"name": name}), (), described)[0]
