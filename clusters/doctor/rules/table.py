"""All rules of the doctor. Their findings are shown in this order, errors first."""

from raykeeper.clusters.doctor.rules.disk_rules import DISK_RULES
from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.findings import Finding, Rule, Severity
from raykeeper.clusters.doctor.rules.member_rules import MEMBER_RULES
from raykeeper.clusters.doctor.rules.node_rules import NODE_RULES
from raykeeper.clusters.doctor.rules.quorum_rules import QUORUM_RULES
from raykeeper.clusters.doctor.rules.server_rules import SERVER_RULES

RULES: tuple[Rule, ...] = (*QUORUM_RULES, *MEMBER_RULES, *DISK_RULES, *SERVER_RULES, *NODE_RULES)


def judge(facts: EnsembleFacts) -> list[Finding]:
    """Return what is not as it should be, errors first."""
    found = [finding for rule in RULES for finding in rule.findings(facts)]
    return sorted(found, key=lambda each: each.severity is not Severity.ERROR)
