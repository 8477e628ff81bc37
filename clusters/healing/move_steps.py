"""A move of a server, its undoing, and the setting aside of old folders, step by step.

The functions are generators that yield steps and are sent their answers; the shell in
clusters/keeper.py does the steps, and so does the simulator. Between two steps anything may happen:
the keeper may stand still for long, and another one act. So each step can be done twice, and names
what it acts on as the keeper saw it before it checked that it leads: an actor by its id, which no
actor has that another keeper has started since; a folder by the last incarnation that was started
from it. Only Ray itself starts an actor again under its id, when the node of a pinned one returns:
if that one is ended late, the next keeper finds no actor and starts the server again. A server that
is asked to stop refuses if it knows of a newer leadership. It starts with an empty folder only
while a leader with a majority is known. Independently of the keepers, a disk that the member list
does not name has no vote (rule D3).
"""

from collections.abc import Callable, Collection, Generator
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Cause,
    Decision,
    KeeperStep,
    Kill,
    NodeSurvey,
    Observe,
    Pause,
    RemoveStaleFolders,
    SetFolderAside,
    Start,
    Stop,
    Survey,
    View,
)
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import DiskId, ServerId

T = TypeVar("T")
KeeperSteps = Generator[KeeperStep, Any, T]

_POLL_MS: Final = 100
_POLLS: Final = 150
_SURVEYS: Final = 5


class MoveError(RayKeeperError):
    """Raised when a step of a move cannot be done. The keeper gives the move up."""


def move(decision: Decision, view: View) -> KeeperSteps[None]:
    """End what is left of the server on its old node, and start it on the new one.

    Does nothing if another actor of it was started since the decision, or runs on another node.
    `view` is the one that shows that the server is lost, or can be spared; with a newer one that
    would have to be judged again.

    Raises:
        MoveError: it could not be started; the text tells why.
    """
    server = decision.server
    is_return = decision.source == decision.target
    location, actor = view.running.get(server), view.actors.get(server)
    if location is not None and (location.node_id != decision.source or is_return):
        return
    if actor is not None and actor != decision.actor:
        return  # it may not answer yet
    yield from _end(server, view)
    survey = yield from _survey(server)
    if decision.cause is not Cause.LOST:
        # The server ran there with its vote, and Ray may be about to lose the node and ask it no
        # more.
        told = {node: text for node, text in survey.unread.items() if node != decision.source}
        survey = replace(survey, unread=told)
    yield from _start(server, survey, decision.target, "" if is_return else decision.source)


def undo(decision: Decision) -> KeeperSteps[None]:
    """Stop the server on the new node, and start it where its vote rests, if that is at hand.

    Its folder on the new node is set aside, unless the vote rests there now.

    Raises:
        MoveError: it could not be done; the text tells why.
    """
    server = decision.server
    view = yield from _observe_until(lambda _view: "")
    location = view.running.get(server)
    if location is not None and location.node_id != decision.target:
        return
    yield from _end(server, view)
    # As long as the leader hears the server, it may give the vote to the disk there.
    yield from _observe_until(
        lambda view: f"the leader still hears server {server}" * (server in view.linked)
    )
    survey = yield from _survey(server)
    named = _voting_disk(survey, server)
    for node in survey.nodes:
        if node.node_id == decision.target:
            yield from _set_aside(node, server, named)
    yield from _start(server, survey, None)


def set_folders_aside(
    voters: Collection[ServerId], older_than_s: int
) -> KeeperSteps[tuple[list[str], bool]]:
    """Set aside the folders of voters whose vote rests on another disk, where they run and vote.

    Also remove those that were set aside earlier than `older_than_s` ago. Returns a line for each,
    and whether every folder of a voter could be judged: a node or server may not have answered, or
    something was started from the folder since.

    Raises:
        MoveError: a folder could not be renamed or removed; the text tells why.
    """
    survey: Survey = yield AskNodes()
    view: View = yield Observe()
    lines, are_all_judged = [], not survey.unread
    for node in survey.nodes:
        for server in sorted(set(node.disks).intersection(voters)):
            named = survey.voting_disks.get(server) if server in view.voting else None
            if node.disks[server] == named:
                continue
            stale = None if named is None else (yield from _set_aside(node, server, named))
            if stale is None:
                are_all_judged = False
            else:
                lines.append(
                    f"server {server} votes elsewhere: its folder on {node.name} is now {stale}"
                )
        removed = yield RemoveStaleFolders(node.node_id, older_than_s)
        lines += [f"removed {path} on {node.name}" for path in removed]
    return lines, are_all_judged


def _end(server: ServerId, view: View) -> KeeperSteps[None]:
    """End the actor of a server. A pinned one waits for its node, and holds the name."""
    actor = view.actors.get(server)
    if actor is not None:
        yield Stop(server, actor)
        yield Kill(server, actor)


def _observe_until(objection: Callable[[View], str]) -> KeeperSteps[View]:
    """Observe until a leader with a majority is known and there is no objection; return that view.

    Raises:
        MoveError: the objection was not removed in time.
    """
    why = ""
    for _ in range(_POLLS):
        view: View = yield Observe()
        why = view.doubt or objection(view)
        if not why:
            return view
        yield Pause(_POLL_MS)
    raise MoveError(why)


def _survey(server: ServerId) -> KeeperSteps[Survey]:
    """Ask the nodes when it is known on which disk the server's vote rests.

    The server that was ended may have been the leader, so there may be an election now.
    """
    for _ in range(_SURVEYS):
        yield from _observe_until(lambda _view: "")
        survey: Survey = yield AskNodes()
        if server in survey.voting_disks:
            break
        yield Pause(_POLL_MS)
    return survey


def _set_aside(node: NodeSurvey, server: ServerId, named: DiskId) -> KeeperSteps[str | None]:
    if node.disks.get(server, named) == named:
        return None
    path: str | None = yield SetFolderAside(node.node_id, server, named, node.incarnations[server])
    return path


def _start(
    server: ServerId, survey: Survey, target: str | None, left: str = ""
) -> KeeperSteps[None]:
    """Start a server where the disk with its vote is, or else with an empty folder on `target`.

    Without a target it is not started anywhere else. The node `left` does not count.
    """
    named = _voting_disk(survey, server)
    nodes = [node for node in survey.nodes if node.node_id != left]
    holders = tuple(node.node_id for node in nodes if node.disks.get(server) == named)
    if holders:
        yield Start(server, holders, True, left)
    elif target is not None:
        if survey.unread:
            unread = "; ".join(survey.unread.values())
            raise MoveError(f"not all could tell what they have: {unread}")
        if target not in [node.node_id for node in nodes]:
            raise MoveError("the new node is gone")
        yield Start(server, (target,), False, left)


def _voting_disk(survey: Survey, server: ServerId) -> DiskId:
    """Return the disk on which the vote of a server rests.

    Raises:
        MoveError: that is not certain now.
    """
    named = survey.voting_disks.get(server)
    if named is None:
        raise MoveError(survey.doubt or f"the vote of server {server} is moving")
    return named
