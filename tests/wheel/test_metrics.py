"""The metrics as Prometheus finds them: Ray's endpoint, with ray[default] in its own environment.

Without the program `prometheus` (a package of Debian) the expressions of the dashboard are not
answered.
"""

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from raykeeper.actors.metric_samples import SERVER_LABELS, SERVER_METRICS
from raykeeper.client.process_metrics import CLIENT_LABELS, CLIENT_METRICS
from raykeeper.clusters.keeper_metrics import KEEPER_LABELS, KEEPER_METRICS
from raykeeper.commands.grafana.dashboard import FILE, expressions
from raykeeper.commands.grafana.provisioning import alerts_text
from tests.wheel.environments import NEWEST, Installed, build_wheel, end, find_python

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "metrics_program.py"
PATIENCE_S = 90.0
SELDOM = {"raykeeper_client_lost_sessions", "raykeeper_keeper_moves", "call_failed"}
"""Counters of what does not happen here: they are exported with the first event."""
METRICS = (
    *((metric, SERVER_LABELS) for metric in SERVER_METRICS),
    *((metric, CLIENT_LABELS) for metric in CLIENT_METRICS),
    *((metric, KEEPER_LABELS) for metric in KEEPER_METRICS),
)
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)", re.M)


@dataclass
class Measured:
    """A Ray with an ensemble that is at work."""

    installed: Installed
    process: "subprocess.Popen[str]"
    metrics: str
    address: str
    session: str

    def go_on(self) -> None:
        """Have the program do the next thing."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def exported(self) -> dict[str, list[dict[str, str]]]:
        """The labels of each series of Raykeeper, by the name of the metric."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, list[dict[str, str]]] = {}
        for name, labels, _ in SAMPLE.findall(text):
            if name.startswith("ray_raykeeper_"):
                found.setdefault(name, []).append(dict(re.findall(r'(\w+)="([^"]*)"', labels)))
        return found


def eventually(found: Callable[[], Any]) -> Any:
    """What `found` returns once that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer: Any = None
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            if answer := found():
                return answer
        assert time.monotonic() < deadline, f"it is still {answer}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    python = find_python(NEWEST)
    if python is None:
        versions = " or ".join(NEWEST.pythons)
        pytest.skip(f"there is no Python {versions} here: make test-wheel {NEWEST.variable}=…")
    wheel = build_wheel(sys.executable, tmp_path_factory.mktemp("wheel"))
    installed = Installed(str(python))
    installed.install(str(wheel), f"{NEWEST.ray.replace('ray', 'ray[default]', 1)}")
    process = installed.start("python", PROGRAM)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        yield Measured(installed, process, **json.loads(line))
    finally:
        try:
            process.communicate("\n\n", timeout=PATIENCE_S)  # whatever it waits for
        except subprocess.TimeoutExpired:
            end(psutil.Process(process.pid))
            process.communicate()
        installed.remove()


@pytest.fixture(scope="module")
def prometheus(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes the endpoint."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no program prometheus here (Debian: apt-get install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    scraped = {"job_name": "ray", "static_configs": [{"targets": [measured.metrics]}]}
    (folder / "alerts.yaml").write_text(alerts_text())
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [scraped],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = free_port()
    process = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def ask(prometheus: str, expression: str) -> list[Any]:
    """What Prometheus answers to an expression of the dashboard."""
    query = expression.replace("$ensemble", ".*").replace("$__rate_interval", "30s")
    url = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            return []  # it is starting
        raise AssertionError(f"{query}: {error.read().decode()}") from None
    result: list[Any] = document["data"]["result"]
    return result


def test_ray_exports_every_metric_with_its_labels(measured: Measured) -> None:
    metrics = {metric.exported: {*metric.labels, *labels} for metric, labels in METRICS}
    late = {metric.exported for metric, _ in METRICS if metric.name in SELDOM}
    late.add("ray_raykeeper_client_reconnects_total")  # nobody was killed yet
    # A server without load collects garbage once a minute.
    late |= {"ray_raykeeper_gc_seconds_total", "ray_raykeeper_gc_collections_total"}
    expected = metrics.keys() - late
    found = eventually(
        lambda: exported if expected <= (exported := measured.exported()).keys() else None
    )
    assert found.keys() <= metrics.keys()
    for name, series in found.items():
        assert all(metrics[name] <= each.keys() for each in series), (name, series[0])
    servers = {each["server"] for each in found["ray_raykeeper_role"]}
    assert servers == {"1", "2", "3"}


def test_prometheus_answers_every_expression_of_the_dashboard(
    measured: Measured, prometheus: str
) -> None:
    measured.go_on()
    assert measured.process.stdout is not None
    assert measured.process.stdout.readline() == "killed\n"
    eventually(lambda: ask(prometheus, "ray_raykeeper_client_reconnects_total"))

    def only_seldom_ones() -> list[str] | None:
        missing = [each for each in expressions() if not ask(prometheus, each)]
        seldom = [each for each in missing if any(name in each for name in SELDOM)]
        return seldom if len(seldom) == len(missing) else None

    missing = eventually(only_seldom_ones)
    assert any("raykeeper_client_lost_sessions" in each for each in missing)
    (leading,) = ask(prometheus, 'sum by (ensemble) (ray_raykeeper_role{role="leader"})')
    assert leading["metric"] == {"ensemble": "measured"}


def test_no_rule_for_an_alert_fails(prometheus: str) -> None:
    def evaluated() -> list[Any] | None:
        with urllib.request.urlopen(f"{prometheus}/api/v1/rules", timeout=10) as answer:
            (group,) = json.load(answer)["data"]["groups"]
        rules: list[Any] = group["rules"]
        return None if any(each["health"] == "unknown" for each in rules) else rules

    found = eventually(evaluated)
    assert [each["name"] for each in found if each["health"] != "ok"] == []


def test_the_dashboard_is_installed_beside_those_of_ray(measured: Measured) -> None:
    folder = Path(measured.session) / "metrics/grafana/dashboards"
    eventually(lambda: (folder / "default_grafana_dashboard.json").exists())
    told = measured.installed.run(
        *("raykeeper", "grafana", "--install", "--address", measured.address),
        RAY_AUTH_MODE="token",
    )
    assert str(folder / FILE) in told
    assert json.loads((folder / FILE).read_text())["uid"] == "raykeeper"
    assert measured.installed.run("raykeeper", "grafana", "--alerts") == alerts_text()
