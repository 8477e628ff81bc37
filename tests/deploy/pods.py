"""The pods of kuberay-cluster.yaml with the labels that they get, and who reaches whom.

Labels, names and ports of KubeRay: ray-operator/controllers/ray/utils/constant.go, `labelPod` in
common/pod.go and `GenerateHeadServiceName` in utils/util.go, of 1.5.1.
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERAY_PORTS = {6379: "GCS", 8000: "Serve", 8080: "metrics", 8265: "dashboard"} | {
    10001: "Ray Client",
    52365: "dashboard agent",
}
HEAD_SERVICE = "{}-head-svc"
TOKEN_KEY = "auth_token"


def documents(name: str, kind: str = "") -> list[Any]:
    """The documents of a file, or those of a kind; the caller may change them."""
    return [deepcopy(each) for each in _documents(name) if not kind or each["kind"] == kind]


@cache
def _documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def ray_cluster() -> Any:
    (cluster,) = documents("kuberay-cluster.yaml", "RayCluster")
    return cluster


class Pod(NamedTuple):
    labels: dict[str, str]
    namespace: str = "here"


def pod_of(group: Any) -> Pod:
    """The pod of a group of workers, or of the head, as KubeRay makes it."""
    return Pod(
        {
            **group["template"].get("metadata", {}).get("labels", {}),
            "ray.io/cluster": ray_cluster()["metadata"]["name"],
            "ray.io/node-type": "worker" if "groupName" in group else "head",
            "ray.io/group": group.get("groupName", "headgroup"),
        }
    )


def selects(selector: Any, labels: dict[str, str]) -> bool:
    """As Kubernetes reads a LabelSelector; of its operators only what the files use."""
    for each in selector.get("matchExpressions", []):
        assert each["operator"] == "Exists", each
        if each["key"] not in labels:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def reaches(source: Pod, target: Pod, port: int) -> bool:
    """Whether the policies, which are of the namespace `here`, let `source` reach a TCP port."""
    chosen = [
        each["spec"]
        for each in documents("kuberay-network.yaml", "NetworkPolicy")
        if selects(each["spec"]["podSelector"], target.labels)
    ]
    return not chosen or any(
        _is_from(source, peer) and _is_at(port, rule)
        for spec in chosen
        for rule in spec["ingress"]
        for peer in rule["from"]
    )


def _is_from(source: Pod, peer: Any) -> bool:
    namespaces = peer.get("namespaceSelector")
    if namespaces is None:
        is_there = source.namespace == "here"
    else:
        is_there = selects(namespaces, {"kubernetes.io/metadata.name": source.namespace})
    return is_there and selects(peer["podSelector"], source.labels)


def _is_at(port: int, rule: Any) -> bool:
    ports: Iterator[Any] = iter(rule.get("ports", [{"port": 0, "endPort": 65535}]))
    return any(each["port"] <= port <= each.get("endPort", each["port"]) for each in ports)
