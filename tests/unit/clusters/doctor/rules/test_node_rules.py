"""Each rule about the Ray nodes: facts with a fault, what it finds, and healthy ones."""

import pytest
from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts, TlsFileFacts
from raykeeper.clusters.doctor.rules.node_rules import EXPIRES_SOON_S, NODE_RULES
from tests.unit.clusters.doctor.healthy import (
    HEALTHY,
    VERSIONS,
    Planted,
    cases,
    found_by,
    node,
    with_node,
    with_server,
)

NEWER = {**VERSIONS, "raykeeper": "2.0"}


def with_certificate(**facts: object) -> EnsembleFacts:
    return with_node(2, tls_files=(TlsFileFacts(used_for="Ray", path="/tls.pem", **facts),))  # type: ignore[arg-type]


PLANTED: Planted = {
    "node.silent": [
        (with_node(2, problem="no answer within 9 s"), [("node host2", "no answer within 9 s")]),
        (
            with_node(3, with_node(2, problem="no raykeeper"), problem="no raykeeper"),
            [("2 nodes", "no raykeeper: host2, host3")],
        ),
        *(
            (
                replace(HEALTHY, nodes=tuple(replace(node(x), problem="late") for x in range(n))),
                [(f"{n} nodes", f"late: host0, host1, host2, host3, host4{more}")],
            )
            for n, more in ((5, ""), (6, " and 1 more"))
        ),
    ],
    "clock.apart": [
        (
            with_server(1, clock_ahead_ms=1_300),
            [("server 1 on node host1", "has a clock at least 1.0 s ahead of most others")],
        ),
        (
            with_server(1, clock_ahead_ms=-2_345),
            [("server 1 on node host1", "has a clock at least 2.5 s behind most others")],
        ),
        (with_server(1, clock_ahead_ms=1_299), []),
        (replace(HEALTHY, servers=()), []),
    ],
    "version.differs": [
        (
            with_node(2, versions=NEWER),
            [
                (
                    "the ensemble",
                    "has nodes with different versions of raykeeper: 1.0 on host1, host3; "
                    "2.0 on host2",
                )
            ],
        ),
        # A node with a version that does not tell as much.
        (with_node(2, versions={"Ray": "2.60.0"}), []),
    ],
    "version.not_loaded": [
        (
            with_node(2, versions=NEWER),
            [("server 2", "runs raykeeper 1.0; 2.0 is installed on its node")],
        ),
        (with_node(2, versions={}), []),
        (with_node(2, versions=NEWER, problem="late"), []),
    ],
    "tls.unusable": [
        (
            with_certificate(problem="/tls.pem: no such file"),
            [("node host2", "TLS for Ray: /tls.pem: no such file")],
        )
    ],
    "tls.expired": [
        (
            with_certificate(expires_in_s=-3 * 86_400),
            [("node host2", "/tls.pem, for Ray, expired 3 days ago")],
        ),
        (with_certificate(expires_in_s=0), []),
    ],
    "tls.expires_soon": [
        (
            with_certificate(expires_in_s=EXPIRES_SOON_S - 1),
            [("node host2", "/tls.pem, for Ray, expires in 29 days")],
        ),
        (
            with_certificate(expires_in_s=0),
            [("node host2", "/tls.pem, for Ray, expires in 0 days")],
        ),
        (with_certificate(expires_in_s=EXPIRES_SOON_S), []),
        (with_certificate(expires_in_s=-1), []),
        (with_certificate(expires_in_s=None), []),
    ],
    "gcs.in_memory": [
        (
            with_node(1, gcs_storage="memory"),
            [("node host1", "keeps the GCS in memory: when it restarts, Ray ends all actors")],
        ),
        # On a single node the servers end with it anyway; and nobody may have seen the GCS.
        (replace(HEALTHY, nodes=(replace(node(1), gcs_storage="memory"),)), []),
        (with_node(1, gcs_storage=""), []),
    ],
}


@pytest.mark.parametrize(("name", "facts", "found"), cases(PLANTED))
def test_finds(name: str, facts: EnsembleFacts, found: list[tuple[str, str]]) -> None:
    assert found_by(NODE_RULES, name, facts) == found


@pytest.mark.parametrize("name", [rule.name for rule in NODE_RULES])
def test_finds_a_planted_fault_and_nothing_else(name: str) -> None:
    assert any(found for _, found in PLANTED[name])
    assert found_by(NODE_RULES, name, HEALTHY) == []
