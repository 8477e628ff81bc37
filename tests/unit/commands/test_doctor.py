"""What `raykeeper doctor` prints, and its exit codes."""

import json

import pytest
from msgspec.structs import replace

from raykeeper.clusters.doctor.diagnosis import Diagnosis, diagnosis_of
from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.commands.doctor import diagnosis_document, exit_code, show_diagnosis
from tests.unit.clusters.doctor.healthy import HEALTHY, with_folder, with_node, with_server
from tests.unit.commands.printed import printed

DEAD = with_server(1, problem="its actor is dead \x1b[2J")


def lines_of(diagnosis: Diagnosis) -> list[str]:
    return printed(lambda console: show_diagnosis(console, diagnosis)).splitlines()


def test_a_healthy_ensemble_is_one_line() -> None:
    (line,) = lines_of(diagnosis_of(HEALTHY))
    checks = diagnosis_of(HEALTHY).checks
    assert line == f"ensemble coord: healthy in {checks} checks of 3 servers and 3 nodes"


def test_each_finding_says_what_it_means_and_what_to_do() -> None:
    diagnosis = diagnosis_of(DEAD)
    lines = lines_of(diagnosis)
    assert lines[0] == "error: server 1: its actor is dead \\x1b[2J (server.down)"
    assert lines[1] == f"    means: {diagnosis.findings[0].meaning}"
    assert lines[2] == f"    do: {diagnosis.findings[0].advice}"
    assert lines[3].startswith("warning: the ensemble: 2 of 3 voting servers work: ")
    assert lines[-1].startswith("ensemble coord: 1 error, 1 warning in ")
    assert lines[-1].endswith("checks of 2 servers and 3 nodes")


def test_what_was_not_checked_is_told_with_a_healthy_ensemble_too() -> None:
    told, last = lines_of(diagnosis_of(with_folder(2, unread_files=3)))
    assert told.startswith("not checked: 3 files of server 2 on node host2")
    assert ": healthy, as far as it was checked, in " in last


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (HEALTHY, 0),
        (with_folder(2, unread_files=3), 0),
        (with_node(2, record_damage="no JSON"), 1),
        (DEAD, 2),
        (replace(HEALTHY, leader=None, leader_problem="nobody is there"), 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(facts: EnsembleFacts, code: int) -> None:
    assert exit_code(diagnosis_of(facts)) == code


def test_the_document_has_the_same_findings() -> None:
    diagnosis = diagnosis_of(DEAD)
    document = json.loads(json.dumps(diagnosis_document(diagnosis)))
    assert (document["name"], document["is_healthy"], document["servers"]) == ("coord", False, 2)
    first = document["findings"][0]
    assert first["rule"] == "server.down" and first["text"] == "its actor is dead \x1b[2J"
    assert (first["severity"], first["about"]) == ("error", "server 1")
    assert [each["advice"] for each in document["findings"]] == [
        each.advice for each in diagnosis.findings
    ]
    assert diagnosis_document(diagnosis_of(HEALTHY))["is_healthy"]
