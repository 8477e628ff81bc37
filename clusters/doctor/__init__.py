"""The doctor: what is wrong with an ensemble, what it means, and what to do about it.

diagnosis.py           `diagnose`: the findings
fact_collection.py     asks servers, keeper and nodes, within a time limit
node_inspection.py     what a task finds on its Ray node
    folder_check.py    reads the cold files of a folder
    certificates.py    files for TLS
    ray_facts.py       Ray's own settings there
rules/                 the judgement, from facts to findings: pure
"""

from raykeeper.clusters.doctor.diagnosis import Diagnosis, diagnose
from raykeeper.clusters.doctor.rules.findings import Finding, Severity

__all__ = ["diagnose", "Diagnosis", "Finding", "Severity"]
