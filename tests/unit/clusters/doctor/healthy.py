"""The facts of an ensemble to which nothing is wrong; tests change one of them."""

from typing import Any

from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.facts import (
    DiskFacts,
    EnsembleFacts,
    FolderFacts,
    KeeperFacts,
    NodeFacts,
    ServerFacts,
    TlsFileFacts,
)
from raykeeper.clusters.doctor.rules.findings import Rule
from raykeeper.zab.ids import DiskId, Epoch, ServerId, make_zxid

MIB = 1 << 20
AT = make_zxid(Epoch(2), 7)
VERSIONS = {"raykeeper": "1.0", "Ray": "2.60.0"}
SETTINGS = {"heal_after_s": 300, "stale_folder_days": 7}


def server(number: int) -> ServerFacts:
    return ServerFacts(
        server_id=ServerId(number),
        role="leader" if number == 3 else "follower",
        is_active=True,
        leader=ServerId(3),
        epoch=Epoch(2),
        zxid=AT,
        digest=0xABC,
        votes=True,
        node_id=f"node{number}",
        folder="~/data/coord",
        links={ServerId(peer): "linked" for peer in (1, 2, 3) if peer != number},
        clients=10,
        clients_max=100,
        sessions=20,
        sessions_max=100,
        niceness=15,
        priority_problem="it needs root",
        versions=VERSIONS,
        clock_ahead_ms=100 * number,
        settings=SETTINGS,
    )


def folder(number: int) -> FolderFacts:
    return FolderFacts(
        server_id=ServerId(number),
        path=f"/data/coord/{number}",
        disk=DiskId(f"disk-{number}"),
        snapshot_bytes=100 * MIB,
        segment_bytes=64 * MIB,
        device=7,
    )


def node(number: int) -> NodeFacts:
    return NodeFacts(
        node_id=f"node{number}",
        name=f"host{number}",
        versions=VERSIONS,
        load_percent=80,
        memory_percent=60,
        memory_kill_percent=95,
        gcs_storage="redis" if number == 1 else "",
        folders=(folder(number),),
        disk=DiskFacts(device=7, free_bytes=500 * MIB, force_us=900),
        tls_files=(TlsFileFacts(used_for="Ray", path="/tls.pem", expires_in_s=90 * 86_400),),
    )


HEALTHY = EnsembleFacts(
    name="coord",
    voters=(ServerId(1), ServerId(2), ServerId(3)),
    servers=(server(1), server(2), server(3)),
    leader=ServerId(3),
    voting_disks={ServerId(number): DiskId(f"disk-{number}") for number in (1, 2, 3)},
    nodes=(node(1), node(2), node(3)),
    keeper=KeeperFacts(True),
    settings=SETTINGS,
)


def with_server(number: int, facts: EnsembleFacts = HEALTHY, **changes: Any) -> EnsembleFacts:
    """Return the facts with a server that is different."""
    servers = [
        replace(each, **changes) if each.server_id == number else each for each in facts.servers
    ]
    return replace(facts, servers=tuple(servers))


def with_node(number: int, facts: EnsembleFacts = HEALTHY, **changes: Any) -> EnsembleFacts:
    """Return the facts with a node that is different."""
    nodes = [
        replace(each, **changes) if each.node_id == f"node{number}" else each
        for each in facts.nodes
    ]
    return replace(facts, nodes=tuple(nodes))


def with_folder(number: int, **changes: Any) -> EnsembleFacts:
    """Return the facts with a folder that is different."""
    return with_node(number, folders=(replace(folder(number), **changes),))


def found_by(rules: tuple[Rule, ...], name: str, facts: EnsembleFacts) -> list[tuple[str, str]]:
    """Return what the rule of that name finds: about what, and the text."""
    (rule,) = (each for each in rules if each.name == name)
    return [(finding.about, finding.text) for finding in rule.findings(facts)]


Planted = dict[str, list[tuple[EnsembleFacts, list[tuple[str, str]]]]]
"""By rule: facts, and what it finds there."""


def cases(planted: Planted) -> list[tuple[str, EnsembleFacts, list[tuple[str, str]]]]:
    """Return each case by itself."""
    return [(name, *case) for name, found in planted.items() for case in found]
