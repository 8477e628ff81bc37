"""The doctor: what is wrong with an ensemble, what it means, and what to do about it."""

from msgspec import Struct

from raykeeper.clusters.doctor.fact_collection import collect_facts
from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.findings import Finding, Severity
from raykeeper.clusters.doctor.rules.table import RULES, judge
from raykeeper.clusters.doctor.rules.unchecked import find_unchecked
from raykeeper.clusters.ensemble import Ensemble

TIMEOUT_S = 30.0


class Diagnosis(Struct, frozen=True):
    """The findings about an ensemble at one moment."""

    name: str
    findings: list[Finding]
    """Errors first."""
    checks: int
    """How many rules were asked."""
    servers: int
    """How many answered."""
    nodes: int
    """How many answered."""
    unchecked: list[str]
    """What was not looked at, and why."""

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding; None: the ensemble is healthy."""
        return self.findings[0].severity if self.findings else None


def diagnose(ensemble: Ensemble | str, *, timeout_s: float = TIMEOUT_S) -> Diagnosis:
    """Examine an ensemble that runs in this Ray cluster. Changes nothing.

    Servers that are dead or late are findings. Every live Ray node runs a task, which reads the
    cold files of the folders there and forces a small file without a name a few times.

    Args:
        ensemble: The ensemble, or its name.
        timeout_s: How long it may take, but for the first look at Ray's actors; nodes always have
            5 s. What of the folders is not read by then stands in `unchecked`.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
        RayNotFoundError: there is no Ray cluster.
    """
    name = ensemble if isinstance(ensemble, str) else ensemble.name
    return diagnosis_of(collect_facts(name, timeout_s))


def diagnosis_of(facts: EnsembleFacts) -> Diagnosis:
    """Return what these facts amount to."""
    return Diagnosis(
        facts.name,
        judge(facts),
        len(RULES),
        len(facts.answering()),
        len(facts.reporting()),
        find_unchecked(facts),
    )
