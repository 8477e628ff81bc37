"""Where Ray's Grafana loads dashboards from, and the dashboard written there.

The dashboard of a head node with ray[default] writes the provisioning of a Grafana into the folder
of its session, and wipes it when a head starts (`ray.dashboard.modules.metrics.metrics_head`).
"""

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Final

from raykeeper.commands.grafana.dashboard import FILE, dashboard
from raykeeper.zab.errors import RayKeeperError

FOLDER_SETTING: Final = "RAY_METRICS_GRAFANA_DASHBOARD_OUTPUT_DIR"
ROOT_SETTING: Final = "RAY_METRICS_OUTPUT_ROOT"
_BELOW_ROOT: Final = Path("grafana/dashboards")


class GrafanaError(RayKeeperError):
    """Raised when the dashboard cannot be written where Ray's Grafana looks for it.

    Nothing was changed. The caller should run the command on the head node, or name a folder.
    """


def dashboard_text() -> str:
    """Return the dashboard as JSON."""
    return json.dumps(dashboard(), indent=2) + "\n"


def alerts_text() -> str:
    """Return the alert rules as Prometheus reads them."""
    return files("raykeeper.commands.grafana").joinpath("alerts.yaml").read_text(encoding="utf-8")


def told_folder() -> Path | None:
    """Return the folder of dashboards that Ray's settings in the environment name, if any does."""
    if folder := os.environ.get(FOLDER_SETTING):
        return Path(folder)
    root = os.environ.get(ROOT_SETTING)
    return Path(root) / _BELOW_ROOT if root else None


def session_folder(logs: Path | None) -> Path:
    """Return the folder of dashboards in the Ray session whose logs are in `logs`.

    Raises:
        GrafanaError: Ray has made none there.
    """
    folder = None if logs is None else logs.parent / "metrics" / _BELOW_ROOT
    if folder is None or not folder.is_dir():
        raise GrafanaError(
            f"Ray has no Grafana provisioning in {folder or 'its session'}: the dashboard of the "
            "head node makes it, if ray[default] is installed there. Run this on that node, or "
            "name a folder with --folder"
        )
    return folder


def install_dashboard(folder: Path) -> Path:
    """Write the dashboard into `folder`; return its file.

    Raises:
        GrafanaError: it cannot be written.
    """
    file = folder / FILE
    try:
        file.write_text(dashboard_text(), encoding="utf-8")
    except OSError as error:
        raise GrafanaError(f"{file} cannot be written: {error.strerror}") from error
    return file
