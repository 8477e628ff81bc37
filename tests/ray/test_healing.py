"""The keeper moves a server whose node is lost or drained, and no acknowledged write is lost."""

from tests.ray.programs import QUICK_HEALTH_CHECKS, run_module


def test_a_server_whose_node_is_lost_gets_its_vote_on_another_node() -> None:
    done = run_module("tests.ray.lost_server_nodes", QUICK_HEALTH_CHECKS)
    assert done.stdout.endswith("all is well\n")
