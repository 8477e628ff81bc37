"""The keeper and other launches beside a change of settings, without Ray."""

import pytest

from raykeeper.actors.replica_status import ReplicaDescription, describe_replica
from raykeeper.clusters import rolling_settings
from raykeeper.clusters.config import EnsembleConfig, make_config
from raykeeper.clusters.starting import replica_config
from raykeeper.zab.ids import ServerId

OLD = make_config({"name": "coord", "heal_after_s": 300.0})
NEW = make_config({"heal_pause_s": 5.0}, OLD)


def described(*configs: EnsembleConfig) -> list[ReplicaDescription]:
    made = [replica_config(each, "uuid", ServerId(n)) for n, each in enumerate(configs, 1)]
    return [describe_replica(each, "node") for each in made]


class Keepers:
    """What happens to the keeper."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *servers: EnsembleConfig) -> None:
        self.ended: list[str] = []
        self.started: list[EnsembleConfig] = []
        monkeypatch.setattr(rolling_settings, "end_actors", self.ended.extend)
        monkeypatch.setattr(rolling_settings, "start_missing_keeper", self.started.append)
        monkeypatch.setattr(rolling_settings, "_described", lambda _: described(*servers))


def test_a_keeper_that_a_launch_has_started_meanwhile_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    keepers = Keepers(monkeypatch, NEW, NEW, NEW)
    with rolling_settings._without_keeper("coord"):
        assert keepers.ended == ["coord/keeper"]
    assert (keepers.ended, keepers.started) == (["coord/keeper"] * 2, [])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_an_error_a_keeper_goes_on(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    keepers = Keepers(monkeypatch, NEW, OLD, OLD)
    with pytest.raises(error), rolling_settings._without_keeper("coord"):
        raise error
    assert [each.heal_pause_s for each in keepers.started] == [OLD.heal_pause_s]
    assert keepers.started[0].heal_after_s == 300
