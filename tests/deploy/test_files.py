"""The files of deploy/ fit the schemas of their readers, and agree with each other."""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
import typer.main
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

from raykeeper.clusters.config import LabelPin, load_config
from raykeeper.commands.command_line import app
from tests.deploy.pods import (
    DEPLOY,
    HEAD_SERVICE,
    KUBERAY_PORTS,
    TOKEN_KEY,
    Pod,
    documents,
    pod_of,
    ray_cluster,
    reaches,
    selects,
)
from tests.deploy.schemas import misfits

ROOT = Path(__file__).parents[2]
SETTINGS = load_config(DEPLOY / "ensemble.yaml")
COMMANDS = typer.main.get_command(app)
RAY_START = {option for each in start.params for option in (*each.opts, *each.secondary_opts)}
GUIDE = (ROOT / "docs/DEPLOY.md").read_text()


def slots(cluster: Any) -> dict[str, Any]:
    """The groups of workers with the label that the settings name, by its value."""
    assert isinstance(SETTINGS.placement, LabelPin)
    label = SETTINGS.placement.label
    groups = cluster["spec"]["workerGroupSpecs"]
    return {group["labels"][label]: group for group in groups if label in group.get("labels", {})}


def parse(words: Sequence[str]) -> str:
    """The command of raykeeper that the words call; its parser refuses what it does not know."""
    name, command, *others = words
    assert name == "raykeeper"
    found: Any = COMMANDS
    found.commands[command].make_context(command, others)
    return command


@pytest.mark.parametrize("name", sorted(each.name for each in DEPLOY.glob("kuberay-*.yaml")))
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
    (volume,) = ray_cluster()["spec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    claims.append(volume["persistentVolumeClaim"]["claimName"])
    there = [
        each["metadata"]["name"]
        for each in documents("kuberay-cluster.yaml", "PersistentVolumeClaim")
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


def test_one_slot_may_be_away_at_once() -> None:
    """Kubernetes knows no scale of a RayCluster: it takes an integer `minAvailable` and no more."""
    (budget,) = documents("kuberay-cluster.yaml", "PodDisruptionBudget")
    spec = budget["spec"]
    assert spec.keys() == {"minAvailable", "selector"}
    assert spec["minAvailable"] == SETTINGS.servers - 1
    groups = [ray_cluster()["spec"]["headGroupSpec"], *ray_cluster()["spec"]["workerGroupSpecs"]]
    chosen = [each for each in groups if selects(spec["selector"], pod_of(each).labels)]
    assert chosen == list(slots(ray_cluster()).values())


def ports_of_settings(tmp_path: Path) -> tuple[list[int], list[int]]:
    """The ports for ZooKeeper's clients and of the admin server, by the settings in the guide."""
    (text,) = re.findall(r"```yaml\n(zookeeper_port:\n?.*?)```", GUIDE, re.DOTALL)
    file = tmp_path / "ensemble.yaml"
    file.write_text((DEPLOY / "ensemble.yaml").read_text() + text)
    config = load_config(file)
    assert config.zookeeper_address == "0.0.0.0"
    servers = [server - 1 for server in config.voter_ids]
    return (
        [config.zookeeper_port + each for each in servers],
        [config.zookeeper_admin_port + each for each in servers],
    )


def test_only_whom_the_policies_name_reaches_a_pod(tmp_path: Path) -> None:
    zookeeper, admin = ports_of_settings(tmp_path)
    assert not KUBERAY_PORTS.keys() & {*zookeeper, *admin}
    spec = ray_cluster()["spec"]
    head, worker = pod_of(spec["headGroupSpec"]), pod_of(spec["workerGroupSpecs"][-1])
    slot = pod_of(slots(ray_cluster())["1"])
    by_label = {"raykeeper-client": "yes"}
    (backup,) = documents("kuberay-backup.yaml")
    assert "labels" not in backup["spec"]["jobTemplate"]["spec"]["template"].get("metadata", {})
    job = Pod({"batch.kubernetes.io/job-name": "raykeeper-backup-29400150"})
    prometheus = {"app.kubernetes.io/name": "prometheus"}
    operator = Pod({"app.kubernetes.io/component": "kuberay-operator"}, "kuberay")
    beside = [edge for each in (zookeeper, admin) for edge in (min(each) - 1, max(each) + 1)]
    everything = [*zookeeper, *admin, *beside, *KUBERAY_PORTS, 34567]
    expected: list[tuple[Pod, Pod, list[int]]] = [
        *((a, b, everything) for a in (head, worker, slot) for b in (head, worker, slot)),
        (Pod(by_label), slot, zookeeper),
        (Pod(by_label), head, []),
        (Pod(by_label), worker, []),
        (Pod(by_label, "elsewhere"), slot, []),
        (Pod(prometheus, "monitoring"), slot, [*admin, 8080]),
        (Pod(prometheus, "monitoring"), worker, [8080]),
        (Pod(prometheus, "monitoring"), head, [8080]),
        (Pod(prometheus), slot, []),
        (Pod({}, "monitoring"), slot, []),
        *((each, head, [8265]) for each in (job, operator)),
        *((each, slot, []) for each in (job, operator)),
        (Pod(job.labels, "elsewhere"), head, []),
        *((Pod({}), each, []) for each in (head, worker, slot)),
    ]
    for source, target, ports in expected:
        found = [port for port in everything if reaches(source, target, port)]
        assert sorted(found) == sorted(ports), (source, target)


def test_each_slot_has_a_name_for_clients_of_zookeeper(tmp_path: Path) -> None:
    zookeeper, _ = ports_of_settings(tmp_path)
    services = documents("kuberay-network.yaml", "Service")
    hosts = []
    for service, (_, group), port in zip(
        services, sorted(slots(ray_cluster()).items()), zookeeper, strict=True
    ):
        groups = ray_cluster()["spec"]["workerGroupSpecs"]
        chosen = [each for each in groups if selects_all(service, pod_of(each))]
        assert chosen == [group]
        assert service["spec"]["ports"] == [{"port": port}]
        hosts.append(f"{service['metadata']['name']}:{port}")
    assert f"`{','.join(hosts)}`" in GUIDE


def selects_all(service: Any, pod: Pod) -> bool:
    return selects({"matchLabels": service["spec"]["selector"]}, pod.labels)


def test_backups_go_to_the_volume_of_the_head() -> None:
    (cron,) = documents("kuberay-backup.yaml")
    (container,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    cluster = ray_cluster()
    name = cluster["metadata"]["name"]
    (head,) = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert container["image"] == head["image"]
    mode, token = container["env"]
    assert mode == {"name": "RAY_AUTH_MODE", "value": cluster["spec"]["authOptions"]["mode"]}
    assert token["valueFrom"]["secretKeyRef"] == {"name": name, "key": TOKEN_KEY}
    *submit, separator = container["command"]
    assert submit[:3] == ["ray", "job", "submit"] and separator == "--"
    assert submit[3:] == ["--address", f"http://{HEAD_SERVICE.format(name)}:8265"]
    assert set(submit[3::2]) <= job_submit_options()
    shell, script, ensemble, folder, days = container["args"]
    assert (shell, ensemble, int(days) > 0) == ("sh", SETTINGS.name, True)
    place, file = script.rsplit("/", 1)
    (copied,) = re.findall(r"^COPY (deploy/.*) (\S+)/$", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert f"deploy/{file}" in copied[0].split() and copied[1] == place
    assert [mount["mountPath"] for mount in head["volumeMounts"]] == [folder]


def test_the_script_for_backups_calls_a_command_that_exists() -> None:
    (line,) = re.findall(r"^raykeeper .*", (DEPLOY / "backup.sh").read_text(), re.MULTILINE)
    assert parse(shlex.split(line)) == "backup"


def test_the_guide_and_its_files_call_commands_that_exist() -> None:
    """Each line of a block of the guide that begins with `raykeeper`, also in a pod."""
    found = re.findall(r"^(?:kubectl exec \S+ -- )?(raykeeper .*?)(?: +#.*)?$", GUIDE, re.MULTILINE)
    assert {parse(shlex.split(line)) for line in found} >= {"drain-server", "status", "restore"}


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
    assert parse(shlex.split(launching)) == "up"
    place, file = shlex.split(launching)[2].rsplit("/", 1)
    build = (DEPLOY / "Dockerfile").read_text()
    assert re.search(rf"^COPY .*\bdeploy/{file} .*{place}/$", build, re.MULTILINE)
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


def job_submit_options() -> set[str]:
    from ray.dashboard.modules.job.cli import submit as job_submit

    return {option for each in job_submit.params for option in each.opts}


def test_the_guide_submits_jobs_with_options_that_exist() -> None:
    commands = re.findall(r"^ray job submit (.*?) -- ", GUIDE, re.MULTILINE)
    assert commands
    for command in commands:
        words = {w.partition("=")[0] for w in shlex.split(command) if w.startswith("-")}
        assert words <= job_submit_options()
