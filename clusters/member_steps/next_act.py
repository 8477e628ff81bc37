"""The next act of a change of the members, from its plan and from what is seen now.

Nothing is remembered between two acts but the plan: what has been done is seen. So whoever goes on
after a crash does the same, and an act whose outcome is unknown is judged by what it has changed.

The order: newcomers one after the other, each started, added as an observer and promoted when it
has caught up; then those that lose their vote; then those that leave. So a change can be undone
until the first server has left, and the ensemble bears no fewer losses on the way than before or
after. A server ends only when it is no member, and no step is open that could make it one.

Invariants: no act while no leader with a majority is known, or while a step is open. A leader loses
its vote only after it has handed over. Servers that others have added are left as they are.
"""

from raykeeper.clusters.member_steps.planning import undone
from raykeeper.clusters.member_steps.vocabulary import (
    Act,
    Done,
    End,
    HandOver,
    Plan,
    Start,
    Step,
    View,
    Wait,
)
from raykeeper.zab.ids import ServerId


def next_act(plan: Plan, view: View) -> Act:
    """Return what comes next."""
    if view.leader is None:
        return Wait(view.doubt)
    if view.open_step:
        return Wait(f"a step is open: {view.open_step}")
    if plan.is_undone:
        # A step that was on its way when the change was given up may have come about since.
        plan = undone(plan, view.members)
    return _end(plan, view) or _join(plan, view) or _leave(plan, view) or Done()


def _end(plan: Plan, view: View) -> Act | None:
    """Return how the first server ends that runs and is no member."""
    known = {*plan.before.servers, *plan.newcomers}
    gone = known.difference(plan.target.servers, view.members.servers)
    return next((End(server) for server in sorted(gone.intersection(view.servers))), None)


def _join(plan: Plan, view: View) -> Act | None:
    """Return what the first server of the target lacks; None if all are there."""
    members, target = view.members, plan.target
    for server in target.servers:
        if server not in members.servers:
            return _start(server, plan, view) or Step(server, as_observer=True)
        if server in target.voters and server not in members.voters:
            # It has no vote, so it may begin again with an empty folder.
            return _start(server, plan, view) or _promote(server, plan, view)
    return None


def _start(server: ServerId, plan: Plan, view: View) -> Act | None:
    """Return what a server without a vote lacks before it follows; None if it does."""
    seen = view.servers.get(server)
    if seen is None or seen.is_lost:
        return Start(server, plan.nodes.get(server, ""), seen is not None)
    return Wait(f"server {server} {seen.problem}") if seen.problem else None


def _promote(server: ServerId, plan: Plan, view: View) -> Act:
    """Return the step by which a server gets its vote, if it can, in the place of another one."""
    old = plan.replaced.get(server)
    if old is None or old not in view.members.voters or not _is_to_leave(old, plan):
        return Step(server)
    if old == view.leader and not _heirs(old, plan, view):
        return Step(server)  # it is the heir
    return _unless_leading(old, Step(server, old), plan, view)


def _leave(plan: Plan, view: View) -> Act | None:
    """Return how the first server loses its vote, or leaves; None if none has to."""
    members = view.members
    for server in members.voters:
        if server in plan.target.observers:
            return _unless_leading(server, Step(server, as_observer=True), plan, view)
    leaving = [each for each in members.servers if _is_to_leave(each, plan)]
    # Observers first, and voters that do not work: the majority is safer without them.
    leaving.sort(key=lambda each: (each in members.voters, _works(each, view), each))
    for server in leaving:
        return _unless_leading(server, Step(leaving=server), plan, view)
    return None


def _unless_leading(server: ServerId, step: Step, plan: Plan, view: View) -> Act:
    """Return the step by which a server loses its vote; before that it hands over if it leads."""
    if server != view.leader:
        return step
    heirs = _heirs(server, plan, view)
    if heirs:
        return HandOver(server, heirs[0])
    return Wait(f"server {server} leads, and no other voter is there to take over")


def _heirs(leader: ServerId, plan: Plan, view: View) -> list[ServerId]:
    """Return the voters that may lead instead, those first that keep their vote."""
    others = [each for each in view.members.voters if each != leader and _works(each, view)]
    return sorted(others, key=lambda each: (each not in plan.target.voters, each))


def _works(server: ServerId, view: View) -> bool:
    seen = view.servers.get(server)
    return seen is not None and not seen.problem and not seen.is_lost


def _is_to_leave(server: ServerId, plan: Plan) -> bool:
    known = {*plan.before.servers, *plan.newcomers}
    return server in known and server not in plan.target.servers
