"""What Grafana and Prometheus are given for the metrics of docs/METRICS.md.

| module | |
|---|---|
| `dashboard.py` | the dashboard: its panels, and the JSON that Grafana reads |
| `alerts.yaml` | the alert rules for Prometheus |
| `provisioning.py` | where Ray's Grafana loads dashboards from |
"""
