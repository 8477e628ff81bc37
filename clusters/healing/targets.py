"""Choose the node to which a server moves.

If a live node has the disk on which the server's vote rests, the server starts there. Otherwise it
gets an empty folder, and only if every live node could tell what it has: one that could not may
have that disk (rule D2). The node that a server with a vote leaves need not tell: it has that disk,
and Ray runs no task on a node that it is about to lose.
"""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from raykeeper.clusters.healing.vocabulary import NodeSurvey, ServerLocation, Survey
from raykeeper.zab.ids import ServerId

CLOCK_BEHIND_MAX_S: Final = 60
"""How far behind the middle clock of all nodes a target's clock may be."""


class Target(Struct, frozen=True):
    """A node for a server; or None, and why there is none."""

    node: NodeSurvey | None
    problem: str = ""


def choose_target(
    server: ServerId,
    survey: Survey,
    locations: Mapping[ServerId, ServerLocation],
    staying: Collection[str],
    old_enough: Collection[str],
    leaves: str | None = None,
) -> Target:
    """Choose a node for a server.

    Args:
        server: The server that moves.
        survey: What the live nodes have.
        locations: Where the servers were seen last.
        staying: The nodes that are alive and will stay.
        old_enough: Those of them that have been alive for long enough.
        leaves: The node on which the server runs with its vote, if it is to leave a live one.
    """
    named = survey.voting_disks.get(server)
    nodes = sorted(survey.nodes, key=lambda node: node.node_id)
    for node in nodes:
        if named is not None and node.disks.get(server) == named and node.node_id in staying:
            return Target(node)
    if unread := [told for node, told in sorted(survey.unread.items()) if node != leaves]:
        return Target(None, f"not all could tell what they have: {'; '.join(unread)}")
    data = max((node.data_bytes for node in survey.nodes), default=0)
    clocks = sorted(node.wall_s for node in survey.nodes)
    earliest = clocks[len(clocks) // 2] - CLOCK_BEHIND_MAX_S if clocks else 0
    problems = []
    for node in nodes:
        others = [i for i, at in locations.items() if i != server and at.node_id == node.node_id]
        if others:
            problem = f"has server {', '.join(str(i) for i in sorted(others))}"
        elif server not in node.fits:
            problem = "is not the one to which the server is pinned"
        elif node.node_id not in old_enough:
            problem = "is too new, or will go"
        elif node.free_bytes < 2 * data:
            problem = f"has {node.free_bytes} bytes free, of {2 * data} that are needed"
        elif node.wall_s < earliest:
            problem = "has a clock that is behind"
        else:
            return Target(node)
        problems.append(f"{node.name} {problem}")
    return Target(None, "; ".join(problems) or "there is no other node")
