"""upgrade.py against a model of Kubernetes, KubeRay and an ensemble, with a clock of its own."""

import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.deploy.pods import DEPLOY, pod_of, ray_cluster
from tests.deploy.test_files import GUIDE, parse, slots

spec = importlib.util.spec_from_file_location("upgrade", DEPLOY / "upgrade.py")
assert spec is not None and spec.loader is not None
upgrade: Any = importlib.util.module_from_spec(spec)
sys.modules["upgrade"] = upgrade
spec.loader.exec_module(upgrade)

OLD, NEW = "raykeeper:0.1.0", "raykeeper:0.2.0"
POD_S, SERVER_S = 20.0, 7.0
"""How long after its deletion a pod is ready again, and its server has its vote."""


class Model:
    """Three slots. A pod that is deleted comes again with the image of the RayCluster, and then its
    server; `gone` says since when each is away.

    Deleting the pod of a server that still has clients, or that others need, fails the test.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = json.loads(json.dumps(ray_cluster()).replace(OLD, NEW))
        self.slots = slots(self.cluster)
        self.images = dict.fromkeys(self.slots, OLD)
        self.gone = dict.fromkeys(self.slots, -1000.0)
        self.leader = "1"
        self.drained: set[str] = set()
        self.deleted: list[int] = []
        self.through: list[str] = []
        self.lame: set[str] = set()
        """Slots whose new pods never become ready."""

    def age(self, slot: str) -> float:
        return self.now - self.gone[slot]

    def is_ready(self, slot: str) -> bool:
        return self.age(slot) >= POD_S and slot not in self.lame

    def serves(self, slot: str) -> bool:
        return self.is_ready(slot) and self.age(slot) >= POD_S + SERVER_S

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def kubectl(self, *words: str) -> str:
        match words:
            case ("get", "raycluster", "raykeeper", "--output=json"):
                return json.dumps(self.cluster)
            case ("get", "pods", "--selector=ray.io/cluster=raykeeper", "--output=json"):
                return json.dumps({"items": [self.head(), *map(self.pod, self.present())]})
            case ("exec", name, "--", *command):
                slot = name.rpartition("-")[2]
                assert self.is_ready(slot)
                self.through.append(self.images[slot])
                return self.raykeeper(command)
            case ("delete", "pod", name):
                self.delete(name.rpartition("-")[2])
                return ""
        raise AssertionError(words)

    def present(self) -> list[str]:
        return [slot for slot in self.slots if self.age(slot) >= POD_S / 2]

    def pod(self, slot: str) -> Any:
        return {
            "metadata": {"name": f"pod-of-slot-{slot}", "labels": pod_of(self.slots[slot]).labels},
            "spec": {"containers": [{"image": self.images[slot]}]},
            "status": {"conditions": [{"type": "Ready", "status": str(self.is_ready(slot))}]},
        }

    def head(self) -> Any:
        head = pod_of(self.cluster["spec"]["headGroupSpec"])
        return {
            "metadata": {"name": "the-head", "labels": head.labels},
            "spec": {"containers": [{"image": OLD}]},
        }

    def raykeeper(self, command: list[str]) -> str:
        if parse(command) == "drain-server":
            _, _, slot, ensemble = command
            assert ensemble == "coord" and self.serves(slot)
            self.drained.add(slot)
            if self.leader == slot:
                self.leader = next(each for each in self.slots if each != slot)
            return ""
        assert command == ["raykeeper", "status", "coord", "--json"]
        if self.leader and not self.serves(self.leader):
            raise subprocess.CalledProcessError(4, "kubectl", stderr="error: it has no leader\n")
        return json.dumps({"servers": [self.status(slot) for slot in self.slots]})

    def status(self, slot: str) -> Any:
        away = [each for each in self.slots if not self.serves(each)]
        role = "leader" if self.leader == slot else "follower"
        problem = f"no link to {', '.join(away)}" if away else ""
        if slot in away:
            role, problem = "down", "no answer"
        return {"server_id": int(slot), "role": role, "problem": problem}

    def delete(self, slot: str) -> None:
        assert all(self.serves(each) for each in self.slots if each != slot)
        assert slot in self.drained or not self.serves(slot)
        self.drained.discard(slot)
        self.gone[slot] = self.now
        self.images[slot] = NEW
        self.deleted.append(int(slot))

    def run(self) -> Any:
        return upgrade.Upgrade(
            self.kubectl, "coord", clock=lambda: self.now, pause=self.pause, tell=lambda line: None
        ).run()


def change_nothing(model: Model) -> None:
    """All serve, with the old image."""


def lead_with_the_last(model: Model) -> None:
    model.leader = "3"


def restart_another(model: Model) -> None:
    model.gone["3"] = 0.0


def lose_the_first_pod(model: Model) -> None:
    model.gone["1"], model.images["1"], model.leader = -1.0, NEW, "2"


def break_the_first_server(model: Model) -> None:
    """Its pod is there, but not ready with the old image."""
    model.leader, model.lame = "2", {"1"}
    delete = model.delete

    def mend(slot: str) -> None:
        delete(slot)
        model.lame.discard(slot)

    model.delete = mend  # type: ignore[method-assign]


def stop_after_the_first(model: Model) -> None:
    model.leader = "2"
    model.drained.add("1")
    model.delete("1")


@pytest.mark.parametrize(
    ("prepare", "deleted"),
    [
        (change_nothing, [1, 2, 3]),
        (lead_with_the_last, [1, 2, 3]),
        (restart_another, [1, 2, 3]),
        (lose_the_first_pod, [2, 3]),
        (break_the_first_server, [1, 2, 3]),
        (stop_after_the_first, [1, 2, 3]),
    ],
)
def test_the_pods_are_replaced_one_after_the_other(
    prepare: Callable[[Model], None], deleted: list[int]
) -> None:
    model = Model()
    prepare(model)
    model.run()
    assert model.deleted == deleted
    assert all(model.serves(slot) for slot in model.slots)
    assert set(model.images.values()) == {NEW}
    assert (
        model.through[-1] == NEW
    )  # the commands are those of the new image as soon as one is there
    assert model.run() == [] and model.deleted == deleted


def test_it_stops_where_a_pod_does_not_come() -> None:
    model = Model()
    model.lame = {"2"}
    model.leader = "3"
    with pytest.raises(
        upgrade.UpgradeError, match=r"600 s for a ready pod of slot-2 with .*0\.2\.0"
    ):
        model.lame = set()
        delete = model.delete

        def spoil(slot: str) -> None:
            delete(slot)
            model.lame |= {slot} & {"2"}

        model.delete = spoil  # type: ignore[method-assign]
        model.run()
    assert model.deleted == [1, 2]


def test_a_cluster_without_slots_is_refused() -> None:
    model = Model()
    for group in model.cluster["spec"]["workerGroupSpecs"]:
        group.pop("labels", None)
    with pytest.raises(upgrade.UpgradeError, match="raykeeper has the label slot"):
        model.run()


def test_the_guide_calls_it_with_options_that_exist(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a program, with a `kubectl` that fails: its words and what it says are told."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho no server >&2\nexit 1\n")
    kubectl.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (line,) = {line for line in GUIDE.splitlines() if line.startswith("python deploy/upgrade.py")}
    monkeypatch.setattr(sys, "argv", [*shlex.split(line)[1:], "--namespace=here"])
    with pytest.raises(SystemExit) as ended:
        upgrade.main()
    assert ended.value.code == (
        "error: kubectl --namespace=here get raycluster raykeeper --output=json: no server"
    )
