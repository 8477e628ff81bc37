"""The columns of one kill, from the reports of the generators."""

from raykeeper.bench.experiments.returns import Kill, kill_columns
from raykeeper.bench.loads.task import LoadReport


def test_a_kill_has_the_absences_that_began_in_its_span() -> None:
    kill = Kill((10.0, 20.0), clients=3, servers_s=0.6, generators_s=0.9, over_calls=1)
    reports = [
        LoadReport(seconds=30, cpu_s=1, timings={"return": [(9.9, 1e6), (10.5, 2e6)], "lost": []}),
        LoadReport(
            seconds=30, cpu_s=1, timings={"return": [(11.0, 4e6)], "lost": [(19.9, 9e6), (20.0, 0)]}
        ),
    ]
    row = kill_columns(kill, (0.02, 0.05), reports)
    assert (row["clients"], row["returned"], row["lost"], row["over_calls"]) == (3, 2, 1, 1)
    assert (row["away_p50_ms"], row["away_p99_ms"], row["away_max_ms"]) == (2000, 4000, 4000)
    assert row["server_ms_each"] == (0.6 - 0.02 * 10) * 1000 / 2
    assert row["client_ms_each"] == (0.9 - 0.05 * 10) * 1000 / 2


def test_a_kill_after_which_nobody_returned_has_no_cost_each() -> None:
    row = kill_columns(Kill((0.0, 1.0), 2, 1.0, 1.0, 0), (0.0, 0.0), [])
    assert row == {"clients": 2, "returned": 0, "lost": 0, "over_calls": 0}
