"""All rules together: nothing on a healthy ensemble, errors first, and what a finding says."""

from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.facts import KeeperFacts
from raykeeper.clusters.doctor.rules.findings import Severity, bytes_text
from raykeeper.clusters.doctor.rules.table import RULES, judge
from tests.unit.clusters.doctor.healthy import HEALTHY, with_node, with_server


def test_a_healthy_ensemble_has_no_finding() -> None:
    assert judge(HEALTHY) == []


def test_each_rule_has_a_name_of_its_own_and_says_what_to_do() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.meaning.endswith(".") and rule.advice.endswith("."), rule.name


def test_errors_stand_first_and_otherwise_the_order_is_that_of_the_table() -> None:
    facts = with_server(1, with_node(3, record_damage="no JSON"), problem="its actor is dead")
    facts = with_node(2, facts, unreadable=("permission denied",))
    told = [(each.rule, each.severity) for each in judge(facts)]
    assert told == [
        ("server.down", Severity.ERROR),
        ("folder.unreadable", Severity.ERROR),
        ("quorum.next_loss", Severity.WARNING),
        ("record.damaged", Severity.WARNING),
    ]


def test_a_finding_names_the_ensemble_in_its_advice() -> None:
    facts = with_server(1, replace(HEALTHY, keeper=KeeperFacts(True)), settings={"heal_after_s": 1})
    (finding,) = judge(facts)
    assert finding.advice.startswith("Run `raykeeper up FILE --name coord --apply` with")
    assert (finding.rule, finding.about) == ("settings.differ", "the ensemble")


def test_bytes_are_told_in_mib_and_gib() -> None:
    assert [bytes_text(each << 19) for each in (1, 3, 2048, 2048 + 1024)] == [
        *("0 MiB", "1 MiB", "1.0 GiB", "1.5 GiB"),
    ]
