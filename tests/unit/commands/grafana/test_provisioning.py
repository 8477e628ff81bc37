"""Where the dashboard is written; the alert rules: each has its page, and fires when it should."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from raykeeper.commands.command_line import app
from raykeeper.commands.grafana.dashboard import FILE, dashboard
from raykeeper.commands.grafana.provisioning import (
    FOLDER_SETTING,
    ROOT_SETTING,
    GrafanaError,
    alerts_text,
    dashboard_text,
    install_dashboard,
    session_folder,
    told_folder,
)

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/OPERATING.md").read_text()
RULES: list[dict[str, Any]] = yaml.safe_load(alerts_text())["groups"][0]["rules"]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_says_what_is_wrong_and_has_its_page(rule: dict[str, Any]) -> None:
    name, notes = rule["alert"], rule["annotations"]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert "{{ $labels.ensemble }}" in notes["summary"]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    assert notes["runbook"] == f"docs/OPERATING.md#{words.replace(' ', '-').lower()}"
    (_, page) = PAGE.split(f"\n### {words.capitalize()}\n")
    page = page.partition("\n### ")[0].partition("\n## ")[0]
    assert re.findall(r"^\*\*(\w+)\.\*\*", page, re.M) == ["Means", "See", "Do"]


def test_no_page_is_of_an_alert_that_is_gone() -> None:
    section = PAGE.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^### ", section, re.M)) == len(RULES)


def test_the_names_of_alerts_differ() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_prometheus_takes_the_rules_and_fires_when_it_should(tmp_path: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no program promtool here (Debian: apt-get install prometheus)")
    (tmp_path / "alerts.yaml").write_text(alerts_text())
    tests = Path(__file__).parent / "data/alert_tests.yaml"
    shutil.copy(tests, tmp_path)
    done = subprocess.run(
        [program, "test", "rules", tests.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tested = {
        each["alertname"]
        for test in yaml.safe_load(tests.read_text())["tests"]
        for each in test["alert_rule_test"]
        if each.get("exp_alerts")
    }
    assert tested == {rule["alert"] for rule in RULES}


def test_the_folder_is_that_of_rays_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_SETTING, raising=False)
    monkeypatch.delenv(ROOT_SETTING, raising=False)
    assert told_folder() is None
    monkeypatch.setenv(ROOT_SETTING, "/metrics")
    assert told_folder() == Path("/metrics/grafana/dashboards")
    monkeypatch.setenv(FOLDER_SETTING, "/boards")
    assert told_folder() == Path("/boards")


def test_a_session_without_provisioning_is_told_with_its_folder(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for known in (None, logs):
        with pytest.raises(GrafanaError, match="ray\\[default\\]"):
            session_folder(known)
    folder = tmp_path / "metrics/grafana/dashboards"
    folder.mkdir(parents=True)
    assert session_folder(logs) == folder


def test_the_dashboard_is_written_and_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        file = install_dashboard(tmp_path)
    assert file == tmp_path / FILE
    assert json.loads(file.read_text()) == json.loads(dashboard_text()) == dashboard()
    with pytest.raises(GrafanaError, match="cannot be written: No such file"):
        install_dashboard(tmp_path / "missing")


def test_the_pages_name_commands_and_options_that_exist() -> None:
    section = PAGE.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    named = re.findall(r"raykeeper ((?:[a-z]+ ?)+)((?: ?--[a-z-]+)*)", section)
    assert len(named) > 20
    for words, options in named:
        command: Any = typer.main.get_command(app)
        for word in words.split():
            inner = getattr(command, "commands", {})
            assert word in inner or not inner, words
            command = inner.get(word, command)
        known = {option for each in command.params for option in each.opts}
        assert set(options.split()) <= known, (words, options)
