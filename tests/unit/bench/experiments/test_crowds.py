"""The rows of a crowd, from the reports of its generators and of the bystander."""

from raykeeper.bench.experiments.crowds import Phase, change_phase, rows_of
from raykeeper.bench.loads.crowd_sessions import waits_of
from raykeeper.bench.loads.task import LoadReport


def report(*moments: float) -> LoadReport:
    return LoadReport(seconds=1, cpu_s=1, timings={"told": [(each, 0.0) for each in moments]})


def test_a_change_ends_when_the_last_client_was_told() -> None:
    begun = [(10.0, 0.3), (13.0, 0.5)]
    phase = change_phase(begun, [report(9.9, 10.1, 13.2), report(10.4, 13.1)])
    assert phase.spans == [(10.0, 10.4), (13.0, 13.2)]
    assert round(phase.seconds, 3) == 0.3
    assert phase.columns == {"told": 2, "server_cpu_s": 0.4}


def test_a_change_that_nobody_was_told_of_has_no_span() -> None:
    phase = change_phase([(10.0, 0.3), (13.0, 0.5)], [report(10.5)])
    assert (phase.spans, phase.columns["told"]) == ([(10.0, 10.5)], 1)
    assert change_phase([(10.0, 0.3)], [report()]).columns["told"] == 0


def test_a_phase_has_the_sets_that_were_due_in_it() -> None:
    phases = [
        Phase("alone", [(0.0, 1.0)], 1.0, {"server_mb": 5.0}),
        Phase("changes", [(2.0, 3.0), (4.0, 5.0)], 1.0, {}),
        Phase("forming", [(9.0, 9.1)], 0.1, {}),
    ]
    sets = [(0.5, 2_000.0), (1.5, 9e6), (2.5, 4_000.0), (3.5, 9e6), (4.5, 8_000.0)]
    alone, changes, forming = rows_of(phases, sets, 3)
    assert alone["server_mb"] == 5.0
    assert (alone["sets"], alone["set_p99_ms"], alone["p99_of_alone"]) == (1, 2, 1)
    assert (changes["sets"], changes["set_p50_ms"], changes["set_max_ms"]) == (2, 4, 8)
    assert changes["p99_of_alone"] == 4
    assert (forming["sets"], "set_p99_ms" in forming, forming["errors"]) == (0, False, 3)


def test_a_pause_counts_for_every_set_that_was_due_in_it() -> None:
    assert [(round(due, 3), round(took)) for due, took in waits_of(1.0, 1.025)] == [
        (1.0, 25_000),
        (1.01, 15_000),
        (1.02, 5_000),
    ]
    assert len(waits_of(1.0, 1.004)) == 1
