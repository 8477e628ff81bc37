"""The files of deploy/ fit the schemas of their readers, and agree with each other."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

from raykeeper.clusters.config import LabelPin, load_config
from raykeeper.commands.command_line import app
from tests.deploy.schemas import misfits

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SETTINGS = load_config(DEPLOY / "ensemble.yaml")
RAY_START = {option for each in start.params for option in (*each.opts, *each.secondary_opts)}
GUIDE = (ROOT / "docs/DEPLOY.md").read_text()


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def ray_cluster() -> Any:
    return next(each for each in documents("kuberay-cluster.yaml") if each["kind"] == "RayCluster")


def slots(cluster: Any) -> dict[str, Any]:
    """The groups of workers with the label that the settings name, by its value."""
    assert isinstance(SETTINGS.placement, LabelPin)
    label = SETTINGS.placement.label
    groups = cluster["spec"]["workerGroupSpecs"]
    return {group["labels"][label]: group for group in groups if label in group.get("labels", {})}


@pytest.mark.parametrize("name", ["kuberay-cluster.yaml", "kuberay-job.yaml"])
def test_the_objects_fit_the_types_of_kubernetes_and_kuberay(name: str) -> None:
    assert [misfit for each in documents(name) for misfit in misfits(each)] == []


def test_the_variants_in_the_guide_fit_too() -> None:
    found = re.findall(r"```yaml\n(spec:\n.*?)```", GUIDE, re.DOTALL)
    assert len(found) == 2
    for text in found:
        cluster = ray_cluster()
        variant = yaml.safe_load(text)["spec"]
        assert not variant.keys() & cluster["spec"].keys()
        cluster["spec"] |= variant
        assert misfits(cluster) == []


def misspell(cluster: Any) -> None:
    group = cluster["spec"]["workerGroupSpecs"][0]
    group["label"] = group.pop("labels")


def forget_a_name(cluster: Any) -> None:
    del cluster["spec"]["workerGroupSpecs"][1]["template"]["spec"]["volumes"][0]["name"]


def mount_nowhere(cluster: Any) -> None:
    (mount,) = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0][
        "volumeMounts"
    ]
    mount["path"] = mount.pop("mountPath")


def number_a_parameter(cluster: Any) -> None:
    cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0


def drop_the_head(cluster: Any) -> None:
    del cluster["spec"]["headGroupSpec"]


def invent_a_mode(cluster: Any) -> None:
    cluster["spec"]["authOptions"]["mode"] = "password"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (misspell, "RayCluster.spec.workerGroupSpecs[0]: WorkerGroupSpec has no field label"),
        (forget_a_name, "workerGroupSpecs[1].template.spec.volumes[0]: "),
        (mount_nowhere, "V1VolumeMount has no field path"),
        (number_a_parameter, "RayCluster.spec.headGroupSpec.rayStartParams.num-cpus: 0 is no str"),
        (drop_the_head, "RayCluster.spec: RayClusterSpec needs headGroupSpec"),
        (invent_a_mode, "RayCluster.spec.authOptions.mode: password is none of disabled|token"),
    ],
)
def test_a_mistake_is_found(spoil: Callable[[Any], None], said: str) -> None:
    cluster = ray_cluster()
    spoil(cluster)
    found = misfits(cluster)
    assert found and any(said in misfit for misfit in found), found


def test_each_server_has_a_slot_with_a_volume_of_its_own() -> None:
    found = slots(ray_cluster())
    assert sorted(found) == [str(server) for server in SETTINGS.voter_ids]
    claims = []
    for group in found.values():
        assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 1
        pod = group["template"]["spec"]
        (volume,) = pod["volumes"]
        (container,) = pod["containers"]
        (mount,) = container["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], SETTINGS.data_dir)
        claims.append(volume["persistentVolumeClaim"]["claimName"])
    there = [
        each["metadata"]["name"]
        for each in documents("kuberay-cluster.yaml")
        if each["kind"] == "PersistentVolumeClaim"
    ]
    assert sorted(claims) == sorted(there) == sorted(set(claims))


def test_slots_stay_apart() -> None:
    for group in slots(ray_cluster()).values():
        template = group["template"]
        (rule,) = template["spec"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert rule["topologyKey"] == "kubernetes.io/hostname"
        assert rule["labelSelector"]["matchLabels"] == template["metadata"]["labels"]


def test_ray_start_has_the_parameters_of_every_group() -> None:
    spec = ray_cluster()["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert {f"--{name}" for name in group["rayStartParams"]} <= RAY_START


def test_the_images_are_of_the_ray_that_the_cluster_states() -> None:
    spec = ray_cluster()["spec"]
    build = (DEPLOY / "Dockerfile").read_text()
    assert f"FROM rayproject/ray:{spec['rayVersion']}-py" in build
    assert f'"ray[default]=={spec["rayVersion"]}"' in (DEPLOY / "ray-up.yaml").read_text()
    groups = (spec["headGroupSpec"], *spec["workerGroupSpecs"])
    images = {each["image"] for g in groups for each in g["template"]["spec"]["containers"]}
    (image,) = images
    assert f"-t {image} " in build


def test_the_job_runs_on_that_cluster_and_reads_the_settings_of_the_image() -> None:
    (job,) = documents("kuberay-job.yaml")
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": ray_cluster()["metadata"]["name"]}
    shell, option, script = shlex.split(job["spec"]["entrypoint"])
    assert (shell, option) == ("sh", "-c")
    launching, program = script.split(" && ")
    name, command, settings = shlex.split(launching)
    assert name == "raykeeper" and command in {
        each.name or each.callback.__name__ for each in app.registered_commands if each.callback
    }
    assert f"COPY deploy/ensemble.yaml {settings}" in (DEPLOY / "Dockerfile").read_text()
    python, option, module = shlex.split(program)
    assert (python, option) == ("python", "-m")
    source = ROOT / (module.removeprefix("raykeeper.").replace(".", "/") + ".py")
    assert f'launch(name="{SETTINGS.name}", servers={SETTINGS.servers})' in source.read_text()


def test_ray_up_takes_its_file() -> None:
    (config,) = documents("ray-up.yaml")
    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(config, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**config, "worker_commands": []}, schema)
    prepared = prepare_config(config)
    validate_config(prepared)
    assert prepared["max_workers"] == SETTINGS.servers


def split_command(text: str) -> tuple[dict[str, str], list[str]]:
    """The variables of a command of a shell, and its words."""
    words = shlex.split(text)
    program = words.index("ray")
    return dict(word.split("=", 1) for word in words[:program]), words[program:]


def test_servers_do_not_run_behind_all_other_work() -> None:
    (config,) = documents("ray-up.yaml")
    found = [split_command(config["worker_start_ray_commands"][1])[0]]
    for group in slots(ray_cluster()).values():
        (container,) = group["template"]["spec"]["containers"]
        found.append({each["name"]: each["value"] for each in container["env"]})
    assert [each["RAY_worker_niceness"] for each in found] == [str(SETTINGS.niceness)] * 4


def test_ray_up_starts_nodes_with_the_label_of_the_settings() -> None:
    (config,) = documents("ray-up.yaml")
    for text in (*config["head_start_ray_commands"][1:], *config["worker_start_ray_commands"][1:]):
        variables, words = split_command(text)
        assert (variables["RAY_AUTH_MODE"], words[:2]) == ("token", ["ray", "start"])
        assert {word.partition("=")[0] for word in words[2:]} <= RAY_START
    labels = re.search(r'--labels="(\w+)=', config["worker_start_ray_commands"][1])
    assert labels is not None
    assert SETTINGS.placement == LabelPin(labels[1])


def test_the_guide_submits_jobs_with_options_that_exist() -> None:
    commands = re.findall(r"^ray job submit (.*?) -- ", GUIDE, re.MULTILINE)
    assert commands
    from ray.dashboard.modules.job.cli import submit as job_submit

    known = {option for each in job_submit.params for option in each.opts}
    for command in commands:
        assert {w.partition("=")[0] for w in shlex.split(command) if w.startswith("-")} <= known
