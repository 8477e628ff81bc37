"""The cluster of deploy/ on one machine, from its own files. Run as a program by test_deploy.py.

Every slot of kuberay-cluster.yaml is a Ray node with the same label and number of CPUs. Its home
folder stands for the volume: it outlives the node. The jobs are processes of their own, each with a
namespace and a runtime environment of its own.
"""

import io
import json
import os
import signal
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import ray
from ray.cluster_utils import Cluster

from raykeeper.clusters import Ensemble, attach, launch
from raykeeper.commands.command_line import main as raykeeper
from tests.deploy.pods import DEPLOY, pod_of, ray_cluster
from tests.deploy.test_files import slots
from tests.deploy.test_upgrade import NEW, OLD, upgrade
from tests.ray import programs
from tests.ray.three_nodes import PATIENCE_S, alive, eventually, homes

SETTINGS = DEPLOY / "ensemble.yaml"
DATA_DIR = "~/data"
"""Instead of the path at which a pod has its volume: `~` is another folder on each node."""
VALUE = b"written before the head restarted"


class Slots:
    """A Ray node for each slot, and a head without CPUs."""

    def __init__(self, home: Path, gcs_state: str) -> None:
        os.environ.update(RAY_gcs_storage_path=str(home / gcs_state))
        self._home = home
        self._groups = slots(ray_cluster())
        head = ray_cluster()["spec"]["headGroupSpec"]
        self.cluster = Cluster(initialize_head=True, head_node_args=_arguments(head))
        self.nodes = {int(slot): self.add(int(slot)) for slot in self._groups}
        self.cluster.connect()

    def add(self, slot: int) -> Any:
        folder = self._home / f"volume-{slot}"
        folder.mkdir(exist_ok=True)
        group = self._groups[str(slot)]
        return self.cluster.add_node(
            **_arguments(group), labels=group["labels"], env_vars={"HOME": str(folder)}
        )

    def replace(self, slot: int) -> None:
        """As Kubernetes replaces a pod: another node, with the label and the volume."""
        lost = self.nodes.pop(slot)
        self.cluster.remove_node(lost, allow_graceful=False)
        eventually(lambda: lost.node_id not in alive())
        self.nodes[slot] = self.add(slot)

    def restart_gcs(self) -> None:
        """It has its state from the disk."""
        self.cluster.head_node.kill_gcs_server()
        self.cluster.head_node.start_gcs_server()

    def run_job(self, program: str, namespace: str, folder: Path) -> str:
        """Run a job with its own namespace, variables and files; what it prints."""
        folder.mkdir()
        (folder / "only_here.py").write_text(f"COLOR = {namespace!r}\n")
        source = f"""
import os, ray
ray.init(
    address={self.cluster.address!r}, namespace={namespace!r}, log_to_driver=False,
    runtime_env={{"working_dir": {str(folder)!r}, "env_vars": {{"COLOR": {namespace!r}}}}},
)
{program}
"""
        done = programs.run([sys.executable, "-c", source])
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def check_homes(self, ensemble: Ensemble) -> None:
        """Every server runs on its slot."""
        expected = {slot: node.node_id for slot, node in self.nodes.items()}
        eventually(lambda: homes(ensemble) == expected)

    def end(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()


class Kubectl:
    """What upgrade.py asks of Kubernetes: a Ray node stands for the pod of each slot.

    The commands run in this process, which is a driver already, and as good as one in a pod.
    """

    def __init__(self, deployed: Slots, old: set[int]) -> None:
        self._deployed = deployed
        self._cluster = json.loads(json.dumps(ray_cluster()).replace(OLD, NEW))
        self._images = {each: OLD if int(each) in old else NEW for each in slots(self._cluster)}

    def __call__(self, *words: str) -> str:
        match words:
            case ("get", "raycluster", *_):
                return json.dumps(self._cluster)
            case ("get", "pods", *_):
                return json.dumps({"items": [self._pod(slot) for slot in self._images]})
            case ("exec", _, "--", *command):
                sys.argv = command
                with redirect_stdout(io.StringIO()) as printed:
                    try:
                        raykeeper()
                    except SystemExit as ended:
                        if ended.code:
                            raise CalledProcessError(1, command, stderr="") from None
                return printed.getvalue()
            case ("delete", "pod", slot):
                self._deployed.replace(int(slot))
                self._images[slot] = NEW
                return ""
        raise AssertionError(words)

    def _pod(self, slot: str) -> Any:
        return {
            "metadata": {"name": slot, "labels": pod_of(slots(self._cluster)[slot]).labels},
            "spec": {"containers": [{"image": self._images[slot]}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }


def back_up(deployed: Slots, folder: Path) -> None:
    """The job of kuberay-backup.yaml: it keeps what is young, and all if there is no new backup."""
    folder.mkdir()
    old, other = folder / "coord-20260101T000000Z.rkb", folder / "notes.txt"
    for file in (old, other):
        file.touch()
        os.utime(file, (0, time.time() - 40 * 86400))
    path = f"{programs.RAYKEEPER.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "RAY_ADDRESS": deployed.cluster.address, "PATH": path}
    script = ["sh", DEPLOY / "backup.sh"]
    assert programs.run([*script, "nobody", folder, "30"], environment).returncode == 3
    assert sorted(folder.iterdir()) == [old, other]
    young = folder / "coord-20260102T000000Z.rkb"
    young.touch()
    programs.run([*script, "coord", folder, "30"], environment).check_returncode()
    (new,) = {*folder.iterdir()} - {old, young, other}
    assert (new.suffix, old.exists(), young.exists(), other.exists()) == (".rkb", False, True, True)


def _arguments(group: Any) -> dict[str, Any]:
    cpus = int(group["rayStartParams"]["num-cpus"])
    return {"num_cpus": cpus, "include_dashboard": False}


TASK = """
from raykeeper.client import connect, with_session

@ray.remote(num_cpus=0)
@with_session("coord")
def join(client):
    import only_here
    assert os.environ["COLOR"] == only_here.COLOR
    client.create(f"/jobs/{only_here.COLOR}", makepath=True)
    return client.get_children("/jobs")
"""
FIRST = f"""
from raykeeper.clusters import launch
launch({str(SETTINGS)!r}, data_dir={DATA_DIR!r})
{TASK}
print(sorted(ray.get(join.remote())))
"""
SECOND = f"""
{TASK}
ray.get(join.remote())
with connect("coord") as client:
    print(sorted(client.get_children("/jobs")))
"""


def kill(ensemble: Ensemble, server_id: int) -> None:
    """SIGKILL to the process of a server; Ray starts another one."""
    before = next(s for s in ensemble.status().servers if s.server_id == server_id)
    os.kill(before.pid, signal.SIGKILL)

    def is_back() -> bool:
        now = next(s for s in ensemble.status().servers if s.server_id == server_id)
        return now.role in ("leader", "follower") and now.pid != before.pid

    eventually(is_back)


def main(home: Path) -> None:
    deployed = Slots(home, "gcs")

    # Two jobs share the ensemble. The first one launches it, and has ended when a server dies.
    assert deployed.run_job(FIRST, "blue", home / "blue") == "['blue']"
    ensemble = attach("coord")
    deployed.check_homes(ensemble)
    assert deployed.run_job(SECOND, "green", home / "green") == "['blue', 'green']"
    kill(ensemble, 2)
    deployed.check_homes(ensemble)

    # The pods of the leader and of a follower are replaced: nobody launches, no client notices.
    with ensemble.connect() as client:
        session = client.session_id
        old = {ensemble.wait_for_leader() % 3 + 1, ensemble.wait_for_leader()}
        kubectl = Kubectl(deployed, old)
        assert upgrade.Upgrade(kubectl, "coord", wait_s=PATIENCE_S).run() == sorted(old)
        client.create("/upgraded")
        assert client.session_id == session
    deployed.check_homes(ensemble)
    assert [server.problem for server in ensemble.status().servers] == ["", "", ""]
    back_up(deployed, home / "backups")

    # The GCS restarts with its state, under a client that goes on.
    with ensemble.connect() as client:
        before = homes(ensemble)
        session = client.session_id
        deployed.restart_gcs()
        client.create("/kept", VALUE)
        assert homes(attach("coord")) == before
        kill(ensemble, 1)
        assert (client.get("/kept")[0], client.session_id) == (VALUE, session)
    deployed.end()

    # The head restarts without its state, and so every node does. The volumes are there.
    deployed = Slots(home, "empty")
    ensemble = launch(SETTINGS, data_dir=DATA_DIR)
    deployed.check_homes(ensemble)
    with ensemble.connect() as client:
        assert client.get("/kept")[0] == VALUE
        assert sorted(client.get_children("/jobs")) == ["blue", "green"]
    ensemble.shutdown()
    deployed.end()
    sys.stdout.write("all is well\n")


if __name__ == "__main__":
    programs.in_temporary_folder(main)
