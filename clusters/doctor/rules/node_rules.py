"""Rules about the Ray nodes: whether they answer, their clocks, versions, certificates, settings.

All live nodes count, also those without a server: a server may move there, and an old folder lie.
"""

from collections.abc import Iterator
from typing import Final

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts, NodeFacts, TlsFileFacts
from raykeeper.clusters.doctor.rules.findings import (
    THE_ENSEMBLE,
    Fault,
    Rule,
    Severity,
    server_text,
)

CLOCK_MS: Final = 1_000
"""How far two clocks may be apart."""
EXPIRES_SOON_S: Final = 30 * 86_400
IN_MEMORY: Final = "memory"
NAMED_MAX: Final = 5
"""Nodes that a finding about many names."""


def node_silent(facts: EnsembleFacts) -> Iterator[Fault]:
    """A live node does not run a task. Many with the same problem are one finding."""
    silent: dict[str, list[str]] = {}
    for node in facts.nodes:
        if node.problem:
            silent.setdefault(node.problem, []).append(node.name)
    for problem, names in silent.items():
        if len(names) == 1:
            yield Fault(f"node {names[0]}", problem)
        else:
            more = len(names) - NAMED_MAX
            which = ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
            yield Fault(f"{len(names)} nodes", f"{problem}: {which}")


def clock_apart(facts: EnsembleFacts) -> Iterator[Fault]:
    """The clock of a node differs from that of another one."""
    ahead = {
        f"{server_text(each.server_id)} on node {facts.node_name(each.node_id)}": (
            each.clock_ahead_ms
        )
        for each in facts.answering()
    }
    if not ahead:
        return
    middle = sorted(ahead.values())[len(ahead) // 2]
    for about, ms in ahead.items():
        apart = ms - middle
        if abs(apart) >= CLOCK_MS:
            way = "ahead of" if apart > 0 else "behind"
            yield Fault(about, f"has a clock at least {_seconds(abs(apart))} s {way} most others")


def versions_differ(facts: EnsembleFacts) -> Iterator[Fault]:
    """The nodes do not have the same programs."""
    reporting = facts.reporting()
    for name in sorted({name for each in reporting for name in each.versions}):
        found: dict[str, list[str]] = {}
        for node in reporting:
            if name in node.versions:
                found.setdefault(node.versions[name], []).append(node.name)
        if len(found) > 1:
            each_told = "; ".join(f"{what} on {', '.join(at)}" for what, at in found.items())
            yield Fault(THE_ENSEMBLE, f"has nodes with different versions of {name}: {each_told}")


def version_not_loaded(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server runs another version than is installed on its node."""
    installed = {each.node_id: each.versions for each in facts.reporting()}
    for server in facts.answering():
        for name, runs in server.versions.items():
            there = installed.get(server.node_id, {}).get(name, runs)
            if there != runs:
                told = f"runs {name} {runs}; {there} is installed on its node"
                yield Fault(server_text(server.server_id), told)


def tls_unusable(facts: EnsembleFacts) -> Iterator[Fault]:
    """A file for TLS is missing or wrong."""
    for node, file in _tls_files(facts):
        if file.problem:
            yield Fault(f"node {node.name}", f"TLS for {file.used_for}: {file.problem}")


def tls_expired(facts: EnsembleFacts) -> Iterator[Fault]:
    """A certificate has expired."""
    for node, file in _tls_files(facts):
        if file.expires_in_s is not None and file.expires_in_s < 0:
            ago = _days(-file.expires_in_s)
            told = f"{file.path}, for {file.used_for}, expired {ago} days ago"
            yield Fault(f"node {node.name}", told)


def tls_expires(facts: EnsembleFacts) -> Iterator[Fault]:
    """A certificate will soon expire."""
    for node, file in _tls_files(facts):
        if file.expires_in_s is not None and 0 <= file.expires_in_s < EXPIRES_SOON_S:
            left = _days(file.expires_in_s)
            told = f"{file.path}, for {file.used_for}, expires in {left} days"
            yield Fault(f"node {node.name}", told)


def gcs_in_memory(facts: EnsembleFacts) -> Iterator[Fault]:
    """A restart of the head forgets the actors, though other nodes could keep them running."""
    if len(facts.nodes) < 2:
        return  # the servers end with the head in any case
    for node in facts.reporting():
        if node.gcs_storage == IN_MEMORY:
            told = "keeps the GCS in memory: when it restarts, Ray ends all actors"
            yield Fault(f"node {node.name}", told)


def _tls_files(facts: EnsembleFacts) -> Iterator[tuple[NodeFacts, TlsFileFacts]]:
    for node in facts.reporting():
        for file in node.tls_files:
            yield node, file


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000 // 100}"


def _days(seconds: int) -> int:
    return seconds // 86_400


_W, _E = Severity.WARNING, Severity.ERROR
NODE_RULES = (
    Rule(
        "node.silent",
        _W,
        "Ray takes the node for alive, but it does not run a task, or not in time: what it holds "
        "is not known. A launch formats no folder meanwhile.",
        "Look at the node. If it is lost, Ray notices that within a minute.",
        node_silent,
    ),
    Rule(
        "clock.apart",
        _W,
        "Times of znodes and TTLs jump when another server leads; the keeper moves no server to a "
        "node whose clock is behind. Order and sessions do not depend on clocks.",
        "Run a time service (chrony, NTP) on the node.",
        clock_apart,
    ),
    Rule(
        "version.differs",
        _W,
        "Servers of different versions may not understand each other, and Ray wants the same "
        "version everywhere.",
        "Install the same versions on all nodes, then run `raykeeper restart {name} --rolling`.",
        versions_differ,
    ),
    Rule(
        "version.not_loaded",
        _W,
        "The server will run the installed version after its next restart, whenever that comes.",
        "Run `raykeeper restart {name} --rolling`, while you watch, or install the old version "
        "again.",
        version_not_loaded,
    ),
    Rule(
        "tls.unusable",
        _E,
        "No new connection over TLS can be made with these files.",
        "Put the right files there, readable for the user who runs Ray, and the key without a "
        "passphrase.",
        tls_unusable,
    ),
    Rule(
        "tls.expired",
        _E,
        "Clients, or other servers, refuse the certificate.",
        "Put a new certificate in its place. For clients of ZooKeeper the server reads it again by "
        "itself; Ray's own needs a restart of Ray.",
        tls_expired,
    ),
    Rule(
        "tls.expires_soon",
        _W,
        "In less than 30 days clients, or other servers, refuse the certificate.",
        "Put a new certificate in its place before.",
        tls_expires,
    ),
    Rule(
        "gcs.in_memory",
        _W,
        "The ensemble runs on while the head is away, but if the head comes back without its "
        "tables, every server ends and must be launched again; no data is lost.",
        "Give the GCS a storage that outlives it: Redis (RAY_REDIS_ADDRESS), or "
        "RAY_gcs_storage=rocksdb where this Ray has it. Then launch the ensemble again.",
        gcs_in_memory,
    ),
)
