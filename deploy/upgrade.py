"""Give the pods of the slots the image that their RayCluster names, one pod after the other.

    kubectl apply -f deploy/kuberay-cluster.yaml    # with the new image; no pod is replaced for it
    python deploy/upgrade.py coord

For each slot whose pod has another image: wait until all other servers serve, move the clients and
the lead of its server to them (`raykeeper drain-server`), delete the pod, wait until KubeRay has
made another one, and until the server is back with its vote and its links. If the program stops,
because something did not come about in time or because it was interrupted, the same command goes
on. `--help` lists the options.

It needs `kubectl`, and no package. `raykeeper` runs in the pods, in one with the new image if there
is one. Pods that are no slots are left alone; see ../docs/DEPLOY.md.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

Kubectl = Callable[..., str]
"""Runs `kubectl` with these words and returns what it prints; CalledProcessError if it fails."""
SERVING = ("leader", "follower", "observer")
POLL_S = 2.0


class UpgradeError(Exception):
    """Raised when something does not come about in time. The pods replaced so far stay replaced."""


@dataclass(frozen=True)
class Slot:
    """The server of a slot, its group of workers, and the image that its pod should have."""

    server: int
    group: str
    image: str


@dataclass
class Upgrade:
    kubectl: Kubectl
    ensemble: str
    cluster: str = "raykeeper"
    label: str = "slot"
    wait_s: float = 600.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    tell: Callable[[str], object] = print

    def run(self) -> list[int]:
        """Upgrade slot after slot; the servers whose pods were replaced.

        Raises:
            UpgradeError: something did not come about within `wait_s`, or there are no slots.
            subprocess.CalledProcessError: `kubectl`, or a drain, failed.
        """
        self._slots = self._read_slots()
        replaced = []
        for slot in self._slots:
            pod = self._pods().get(slot.group)
            if pod is None or image(pod) != slot.image:
                self._empty(slot)
                if pod is not None:
                    self.tell(f"server {slot.server}: deleting pod {pod['metadata']['name']}")
                    self.kubectl("delete", "pod", pod["metadata"]["name"])
                replaced.append(slot.server)
            self._await(
                f"a ready pod of {slot.group} with {slot.image}", lambda s=slot: self._lacks_pod(s)
            )
            self._await("all servers", self._lacks)
            self.tell(f"server {slot.server} is back")
        return replaced

    def _read_slots(self) -> list[Slot]:
        spec = self._json("get", "raycluster", self.cluster)["spec"]
        slots = [
            Slot(int(group["labels"][self.label]), group["groupName"], image(group["template"]))
            for group in spec["workerGroupSpecs"]
            if self.label in group.get("labels", {})
        ]
        if not slots:
            raise UpgradeError(
                f"no group of the RayCluster {self.cluster} has the label {self.label}"
            )
        return sorted(slots, key=lambda slot: slot.server)

    def _empty(self, slot: Slot) -> None:
        """Once the others serve, they take the clients and the lead of this server."""
        others = {each.server for each in self._slots} - {slot.server}
        self._await("the other servers", lambda: self._lacks(others))
        if not self._lacks({slot.server}):
            self.tell(f"server {slot.server}: moving its clients to the others")
            self._raykeeper("drain-server", str(slot.server), self.ensemble)

    def _lacks_pod(self, slot: Slot) -> str:
        pod = self._pods().get(slot.group)
        if pod is None or not is_ready(pod):
            return "it is not ready"
        return "" if image(pod) == slot.image else f"pod {pod['metadata']['name']} has {image(pod)}"

    def _lacks(self, servers: Collection[int] = ()) -> str:
        """What these servers, or all, lack to take part; "" if nothing.

        A link to a server that is not up counts only if all are asked for.
        """
        try:
            status = json.loads(self._raykeeper("status", self.ensemble, "--json"))
        except (subprocess.CalledProcessError, UpgradeError) as error:
            return f"no status: {getattr(error, 'stderr', None) or error}"
        said = {each["server_id"]: each for each in status["servers"]}
        all_up = all(each["role"] in SERVING for each in said.values())
        for server in sorted(servers or {each.server for each in self._slots}):
            found = said.get(server, {"role": "none", "problem": "it is no member"})
            if found["role"] not in SERVING or (found["problem"] and (all_up or not servers)):
                return f"server {server} is {found['role']} {found['problem']}".rstrip()
        return ""

    def _await(self, what: str, lacks: Callable[[], str]) -> None:
        deadline = self.clock() + self.wait_s
        while missing := lacks():
            if self.clock() >= deadline:
                raise UpgradeError(f"waited {self.wait_s:g} s for {what}: {missing.strip()}")
            self.pause(POLL_S)

    def _raykeeper(self, *words: str) -> str:
        """Run a command in a pod of a slot, in one with the new image if there is one."""
        new = {slot.group: slot.image for slot in self._slots}
        ready = [
            (image(pod) != new[group], group)
            for group, pod in self._pods().items()
            if is_ready(pod)
        ]
        if not ready:
            raise UpgradeError("no pod of a slot is ready")
        pod = self._pods()[min(ready)[1]]
        return self.kubectl("exec", pod["metadata"]["name"], "--", "raykeeper", *words)

    def _pods(self) -> dict[str, Any]:
        """The pods of the slots by their groups, without those that end."""
        groups = {slot.group for slot in self._slots}
        found = self._json("get", "pods", f"--selector=ray.io/cluster={self.cluster}")["items"]
        return {
            pod["metadata"]["labels"]["ray.io/group"]: pod
            for pod in found
            if pod["metadata"]["labels"]["ray.io/group"] in groups
            and not pod["metadata"].get("deletionTimestamp")
        }

    def _json(self, *words: str) -> Any:
        return json.loads(self.kubectl(*words, "--output=json"))


def image(pod: Any) -> str:
    """The image of Ray's container, which KubeRay wants to be the first one."""
    name: str = pod["spec"]["containers"][0]["image"]
    return name


def is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def run_kubectl(*words: str) -> str:
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, check=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ensemble", help="name of the ensemble")
    parser.add_argument("--cluster", default="raykeeper", help="name of the RayCluster")
    parser.add_argument(
        "--label", default="slot", help="label of the slots, as `placement` names it"
    )
    parser.add_argument("--namespace", help="namespace of Kubernetes; else that of kubectl")
    parser.add_argument(
        "--wait-s", type=float, default=600.0, help="how long to wait for each thing"
    )
    options = parser.parse_args()
    where = [f"--namespace={options.namespace}"] if options.namespace else []
    upgrade = Upgrade(
        lambda *words: run_kubectl(*where, *words),
        options.ensemble,
        options.cluster,
        options.label,
        options.wait_s,
    )
    try:
        replaced = upgrade.run()
    except UpgradeError as error:
        sys.exit(f"error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {' '.join(error.cmd)}: {error.stderr.strip()}")
    print(f"replaced the pods of servers {replaced}" if replaced else "all slots have that image")


if __name__ == "__main__":
    main()
