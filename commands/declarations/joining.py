"""The Ray cluster and the ensemble that a command means."""

import sys
from typing import TYPE_CHECKING

from raykeeper.commands.completion import forget_name, note_name

if TYPE_CHECKING:
    from raykeeper.clusters.admin import EnsembleAdmin
    from raykeeper.clusters.ensemble import Ensemble


def join(address: str | None) -> None:
    """Join the cluster at `address`, else the one that client/ray_address.py chooses."""
    from raykeeper.clusters.local_ray import join_ray

    join_ray(address, is_quiet=True)


def find_ensemble(name: str | None) -> "Ensemble":
    from raykeeper.client.errors import EnsembleNotFoundError
    from raykeeper.clusters.config import DEFAULTS
    from raykeeper.clusters.ensemble import attach, list_ensembles

    if name is None:
        known = list_ensembles()
        name = known[0] if len(known) == 1 else DEFAULTS.name
    try:
        found = attach(name)
    except EnsembleNotFoundError:
        forget_name(name)
        raise
    note_name(name)
    return found


def find_place(place: str | None, walk_timeout_s: float = 30.0) -> "tuple[str, str, EnsembleAdmin]":
    """Return the name of the ensemble, the path in it or "", and its admin interface."""
    from raykeeper.client.session_options import split_ensemble_name
    from raykeeper.clusters.admin import admin_of

    name, path = split_ensemble_name(place or "")
    ensemble = find_ensemble(name or None)
    return ensemble.name, path, admin_of(ensemble.name, walk_timeout_s)


def is_in_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()
