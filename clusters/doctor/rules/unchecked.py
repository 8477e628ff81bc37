"""What the doctor did not look at, and why: no finding, but no word of health either."""

from collections.abc import Iterator

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.findings import servers_text


def find_unchecked(facts: EnsembleFacts) -> list[str]:
    """Return what is missing in the facts of servers and nodes that answer."""
    return [*_unread_files(facts), *_trees(facts), *_folders(facts)]


def _unread_files(facts: EnsembleFacts) -> Iterator[str]:
    for node in facts.reporting():
        for folder in node.folders:
            if folder.unread_files:
                which = f"{folder.unread_files} files of server {folder.server_id}"
                yield f"{which} on node {node.name}, which were not read within the time limit"


def _trees(facts: EnsembleFacts) -> Iterator[str]:
    active = [each for each in facts.answering() if each.is_active]
    young = [each.server_id for each in active if not each.digest]
    if young:
        yield f"the tree of {servers_text(young)}, started just now"
    zxids = [each.zxid for each in active if each.digest]
    alone = [
        each.server_id
        for each in active
        if each.digest and zxids.count(each.zxid) == 1 < len(zxids)
    ]
    if alone:
        yield f"the tree of {servers_text(alone)}: no other server had applied just as much"


def _folders(facts: EnsembleFacts) -> Iterator[str]:
    if not facts.settings:
        yield "disks and folders: no server tells where they are"
