"""What an etcd server tells of itself."""

import pytest

from raykeeper.bench.systems.etcd import gauge_of

METRICS = """# HELP etcd_server_is_leader Whether or not this member is a leader.
# TYPE etcd_server_is_leader gauge
etcd_server_is_leader 1
etcd_server_is_learner 0
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [("etcd_server_is_leader", 1), ("etcd_server_is_learner", 0), ("etcd_server_is", None)],
)
def test_a_gauge_is_read(name: str, value: float | None) -> None:
    assert gauge_of(METRICS, name) == value
