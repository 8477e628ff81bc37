"""What a person does on the simulated Ray when no majority runs."""

from raykeeper.zab.ids import ServerId
from tests.simulation.draw import draw_plan
from tests.simulation.keepers.plans import KEEPER
from tests.simulation.keepers.ray_cluster import RayCluster
from tests.simulation.keepers.world import KeeperWorld

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)


def cluster_of_three() -> RayCluster:
    """Return machines 1 to 3 with the disks of the servers, and at least one more."""
    plans = (draw_plan(seed, KEEPER) for seed in range(1, 50))
    return KeeperWorld(next(plan for plan in plans if len(plan.servers) == 3))._keepers.cluster


def test_a_person_ends_a_server_that_holds_its_name_without_its_vote() -> None:
    """Seed 2522: a majority was lost while a server moved, and ran on a folder without a vote."""
    cluster = cluster_of_three()
    cluster.kill(S3)
    cluster.start(S3, cluster.node_of(cluster.machines[3]))
    assert not cluster.runs_with_vote(S3)
    assert not cluster.launch()  # it has an actor
    cluster.end_without_votes()
    assert sorted(cluster.actors) == [S1, S2]
    assert cluster.launch()
    assert cluster.runs_with_vote(S3)


def test_a_server_whose_vote_is_not_at_hand_goes_on() -> None:
    cluster = cluster_of_three()
    cluster.kill(S3)
    cluster.end_node(cluster.node_of(cluster.machines[2]))
    cluster.start(S3, cluster.node_of(cluster.machines[3]))
    cluster.end_without_votes()
    assert sorted(cluster.actors) == [S1, S2, S3]
