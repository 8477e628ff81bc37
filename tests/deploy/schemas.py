"""The types of Kubernetes and KubeRay, and what of a YAML document does not fit them.

Kubernetes' own types come from its Python client. Those of KubeRay are listed here with all their
fields, as in ray-operator/apis/ray/v1/raycluster_types.go and rayjob_types.go of KubeRay 1.5 and
later; no package for Python has them. A type is written as the client writes it.
"""

import re
from collections.abc import Iterator
from typing import Any

from kubernetes import client

SCALARS: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "object": object,
}
CONTAINER = re.compile(r"(?i)(list|dict)[\[(](.+)[\])]")
TOP = {
    ("ray.io/v1", "RayCluster"): "RayCluster",
    ("ray.io/v1", "RayJob"): "RayJob",
    ("v1", "PersistentVolumeClaim"): "V1PersistentVolumeClaim",
    ("v1", "Service"): "V1Service",
    ("batch/v1", "CronJob"): "V1CronJob",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
    ("policy/v1", "PodDisruptionBudget"): "V1PodDisruptionBudget",
}
HEAD = {"apiVersion": "str", "kind": "str", "metadata": "V1ObjectMeta"}
KUBERAY: dict[str, dict[str, str]] = {
    "RayCluster": {**HEAD, "spec": "RayClusterSpec"},
    "RayJob": {**HEAD, "spec": "RayJobSpec"},
    "RayClusterSpec": {
        "upgradeStrategy": "object",
        "authOptions": "AuthOptions",
        "suspend": "bool",
        "managedBy": "str",
        "autoscalerOptions": "object",
        "headServiceAnnotations": "dict[str, str]",
        "enableInTreeAutoscaling": "bool",
        "gcsFaultToleranceOptions": "GcsFaultToleranceOptions",
        "headGroupSpec": "HeadGroupSpec",
        "rayVersion": "str",
        "workerGroupSpecs": "list[WorkerGroupSpec]",
    },
    "AuthOptions": {"mode": "disabled|token", "secretName": "str", "enableK8sTokenAuth": "bool"},
    "GcsFaultToleranceOptions": {
        "backend": "redis|rocksdb",
        "redisUsername": "RedisCredential",
        "redisPassword": "RedisCredential",
        "externalStorageNamespace": "str",
        "redisAddress": "str",
        "storage": "object",
    },
    "RedisCredential": {"value": "str", "valueFrom": "V1EnvVarSource"},
    "HeadGroupSpec": {
        "template": "V1PodTemplateSpec",
        "headService": "V1Service",
        "enableIngress": "bool",
        "resources": "dict[str, str]",
        "labels": "dict[str, str]",
        "rayStartParams": "dict[str, str]",
        "serviceType": "str",
    },
    "WorkerGroupSpec": {
        "suspend": "bool",
        "groupName": "str",
        "replicas": "int",
        "minReplicas": "int",
        "maxReplicas": "int",
        "idleTimeoutSeconds": "int",
        "resources": "dict[str, str]",
        "labels": "dict[str, str]",
        "rayStartParams": "dict[str, str]",
        "template": "V1PodTemplateSpec",
        "scaleStrategy": "object",
        "numOfHosts": "int",
    },
    "RayJobSpec": {
        "activeDeadlineSeconds": "int",
        "backoffLimit": "int",
        "rayClusterSpec": "RayClusterSpec",
        "submitterPodTemplate": "V1PodTemplateSpec",
        "metadata": "dict[str, str]",
        "clusterSelector": "dict[str, str]",
        "submitterConfig": "object",
        "managedBy": "str",
        "deletionStrategy": "object",
        "entrypoint": "str",
        "runtimeEnvYAML": "str",
        "jobId": "str",
        "submissionMode": "K8sJobMode|HTTPMode|InteractiveMode|SidecarMode",
        "entrypointResources": "str",
        "entrypointNumCpus": "float",
        "entrypointNumGpus": "float",
        "ttlSecondsAfterFinished": "int",
        "shutdownAfterJobFinishes": "bool",
        "suspend": "bool",
    },
}
"""Each type and its fields; the values of an enumeration are parted by `|`."""
REQUIRED = {
    "RayCluster": {"metadata", "spec"},
    "RayJob": {"metadata", "spec"},
    "RayClusterSpec": {"headGroupSpec"},
    "HeadGroupSpec": {"template"},
    "WorkerGroupSpec": {"groupName", "minReplicas", "maxReplicas", "template"},
}


def misfits(document: Any) -> list[str]:
    """What of an object of Kubernetes does not fit its type, each with its place."""
    kind = TOP[document["apiVersion"], document["kind"]]
    return list(_misfits(document, kind, document["kind"]))


def _misfits(value: Any, kind: str, place: str) -> Iterator[str]:
    container = CONTAINER.fullmatch(kind)
    if container and container[1].lower() == "list":
        if not isinstance(value, list):
            yield f"{place}: not a list"
            return
        for number, each in enumerate(value):
            yield from _misfits(each, container[2], f"{place}[{number}]")
    elif container:
        if not isinstance(value, dict):
            yield f"{place}: not a mapping"
            return
        for key, each in value.items():
            yield from _misfits(each, container[2].split(", ")[1], f"{place}.{key}")
    elif "|" in kind:
        if value not in kind.split("|"):
            yield f"{place}: {value} is none of {kind}"
    elif kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield f"{place}: {value!r} is no {kind}"
    else:
        yield from _misfits_of_fields(value, kind, place)


def _misfits_of_fields(value: Any, kind: str, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place}: not a mapping"
        return
    fields = KUBERAY[kind] if kind in KUBERAY else _fields_of_kubernetes(kind)
    for key, each in value.items():
        if key in fields:
            yield from _misfits(each, fields[key], f"{place}.{key}")
        else:
            yield f"{place}: {kind} has no field {key}"
    for key in sorted(REQUIRED.get(kind, set()) - value.keys()):
        yield f"{place}: {kind} needs {key}"
    if kind not in KUBERAY:
        model = getattr(client, kind)
        names = {field: name for name, field in model.attribute_map.items()}
        try:
            model(**{names[key]: each for key, each in value.items() if key in names})
        except ValueError as error:  # a required field is missing
            yield f"{place}: {error}"


def _fields_of_kubernetes(kind: str) -> dict[str, str]:
    model = getattr(client, kind)
    return {field: model.openapi_types[name] for name, field in model.attribute_map.items()}
