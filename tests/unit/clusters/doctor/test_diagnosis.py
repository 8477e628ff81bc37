"""What a diagnosis says of the facts."""

from raykeeper.clusters.doctor.diagnosis import diagnosis_of
from raykeeper.clusters.doctor.rules.findings import Severity
from raykeeper.clusters.doctor.rules.table import RULES, judge
from tests.unit.clusters.doctor.healthy import HEALTHY, with_folder, with_node, with_server


def test_a_healthy_ensemble_has_nothing_worst() -> None:
    diagnosis = diagnosis_of(HEALTHY)
    assert (diagnosis.findings, diagnosis.unchecked, diagnosis.worst) == ([], [], None)
    assert (diagnosis.checks, diagnosis.servers, diagnosis.nodes) == (len(RULES), 3, 3)


def test_the_worst_finding_stands_first() -> None:
    warning = with_node(2, record_damage="no JSON")
    assert diagnosis_of(warning).worst is Severity.WARNING
    both = with_server(1, warning, problem="its actor is dead")
    assert diagnosis_of(both).worst is Severity.ERROR
    assert diagnosis_of(both).findings == judge(both)
    assert diagnosis_of(both).servers == 2


def test_what_was_not_looked_at_is_told() -> None:
    assert len(diagnosis_of(with_folder(1, unread_files=1)).unchecked) == 1
