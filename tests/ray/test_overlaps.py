"""Acts of operators that meet: each one ends as the table of docs/OPERATIONS.md says."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from msgspec.structs import replace

from raykeeper.clusters import Ensemble, NoLeaderError, list_ensembles
from raykeeper.clusters.config import make_config
from raykeeper.clusters.healing.vocabulary import Cause, MoveStep
from raykeeper.clusters.keeper_journal import ELECTION, Journal
from raykeeper.clusters.launch import start_stopped
from raykeeper.clusters.member_journal import LOCK, MemberJournal
from raykeeper.clusters.member_steps.vocabulary import Members, Plan
from raykeeper.clusters.members_lock import identify_process
from raykeeper.clusters.rolling_settings import apply_settings
from raykeeper.links.ray_names import NAMESPACE
from raykeeper.zab.ids import ServerId
from tests.harness.decisions import BEGUN
from tests.ray.conftest import Launch, Run, all_serve, eventually, new_name
from tests.unit.clusters.overlaps import GOES_ON, REFUSED, WAITS, overlaps

IDS = (ServerId(1), ServerId(2), ServerId(3))
PLAN = Plan(text="set", begun_by="pid 1 on host", before=Members(IDS), target=Members(IDS))
RESUME = "raykeeper members resume"


@contextmanager
def left(ensemble: Ensemble) -> Iterator[None]:
    """A change of the members whose process has ended."""
    with ensemble.connect(60) as client:
        journal = MemberJournal(client)
        journal.create_paths()
        with client.lock(LOCK) as held:
            journal.begin(held, PLAN)
        yield
        with client.lock(LOCK) as held:
            if journal.read_plan() is not None:
                journal.end(held)


@contextmanager
def at_it(ensemble: Ensemble) -> Iterator[None]:
    """Another process restarts servers, or changes the members."""
    with ensemble.connect(60) as client:
        MemberJournal(client).create_paths()
        with client.lock(LOCK, b"pid 7 on host"):
            yield


@contextmanager
def moving(ensemble: Ensemble) -> Iterator[None]:
    """The keeper moves a server away from a live node."""
    with ensemble.connect(60) as client:
        journal, drain = Journal(client), replace(BEGUN, cause=Cause.DRAINED)
        journal.create_paths()
        leadership = client.election(ELECTION).lead()
        journal.write_decision(leadership, drain)
        yield
        journal.write_decision(leadership, replace(drain, step=MoveStep.DONE))


@contextmanager
def drained(ensemble: Ensemble) -> Iterator[None]:
    """A server takes no clients."""
    ensemble.drain(1)
    yield
    ensemble.end_drain(1)


SITUATIONS: Mapping[str, Callable[[Ensemble], AbstractContextManager[None]]] = {
    "a change of the members was left": left,
    "another process changes members, restarts or applies": at_it,
    "the keeper moves a server off a live node": moving,
    "a server is drained": drained,
}
NAME, SETTINGS, BACKUP, WAIT = "NAME", "SETTINGS", "BACKUP", "--wait-s WAIT_S"
ACTS: Mapping[str, str] = {
    "up": f"up --name {NAME}",
    "up --apply": f"up {SETTINGS} --name {NAME} --apply {WAIT}",
    "restart --rolling": f"restart {NAME} --rolling --since 0 {WAIT}",
    "members add, remove, replace, promote, demote, set": f"members set --voters 3 {NAME} {WAIT}",
    "members resume, undo": f"members resume {NAME} {WAIT}",
    "transfer": f"transfer {NAME}",
    "drain-server": f"drain-server 2 {NAME}",
    "backup": f"backup {NAME} {BACKUP}",
    "restore, recover of this name": f"recover {NAME}",
    "down": f"down {NAME}",
}
BY_OTHER_TESTS = ("drain NODE",)
"""tests/unit/clusters/healing and tests/contract/test_rolling_turn.py: no keeper runs here."""


def test_the_table_has_these_acts_and_situations() -> None:
    table = overlaps()
    assert [*table] == [*ACTS, *BY_OTHER_TESTS]
    assert all([*row] == [*SITUATIONS] for row in table.values())


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_act_that_meets_another_ends_as_the_table_says(
    launch_one: Launch, run: Run, tmp_path: Path, situation: str
) -> None:
    ensemble = launch_one()
    eventually(lambda: all_serve(ensemble))
    settings = tmp_path / "settings.yaml"
    words = {NAME: ensemble.name, SETTINGS: str(settings), BACKUP: str(tmp_path / "b.rkb")}
    with SITUATIONS[situation](ensemble):
        for number, (act, line) in enumerate(ACTS.items()):
            outcome = overlaps()[act][situation]
            settings.write_text(f"stale_folder_days: {number + 10}\n")
            if act == "members resume, undo" and situation != "a change of the members was left":
                continue  # there is none
            words["WAIT_S"] = "1" if outcome == WAITS else "90"
            code, out, err = run(*(words.get(word, word) for word in line.split()))
            told = f"{act}: {code} {out} {err}"
            if outcome == GOES_ON:
                assert code == 0, told
            elif outcome == REFUSED:
                assert code == 1, told
                assert RESUME in err or " runs; " in err, told
            else:
                assert outcome == WAITS
                assert code == 1 and ("pid 7 on host" in err or "wait for it" in err), told
            if act == "members resume, undo":
                assert ensemble.members().plan is None
            if act == "drain-server":
                ensemble.end_drain(2)
        assert ensemble.name in out  # it is down
        launch_one(ensemble.name)


def test_an_act_that_is_interrupted_says_how_it_goes_on(launch_one: Launch) -> None:
    ensemble = launch_one()
    told: list[str] = []

    def interrupted_by(line: str) -> None:
        told.append(line)
        if line.startswith(("started server", "restarting server")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensemble.add_server(observer=True, tell=interrupted_by)
    begun = f"'add server 4 as observer', begun by {identify_process()}"
    back = f"or back with `raykeeper members undo {ensemble.name}`"
    assert told[-1] == (
        f"interrupted. The change has not ended: {begun}. Go on with `raykeeper members resume "
        f"{ensemble.name}`, {back}"
    )
    assert ensemble.undo_change().servers[3:] == []
    with pytest.raises(KeyboardInterrupt):
        apply_settings(name=ensemble.name, stale_folder_days=9, tell=interrupted_by)
    assert told[-1] == "interrupted; go on with the same call"


@ray.remote(num_cpus=0)
class Restarted:
    """Starts another server of its ensemble while it ends, as an act that meets `down` may."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def stop(self) -> None:
        if self.number < 3:
            start_fake(self.name, self.number + 1)


def start_fake(name: str, number: int) -> Any:
    place = {"name": f"{name}/replica/{number}", "namespace": NAMESPACE, "lifetime": "detached"}
    return Restarted.options(**place).remote(name, number)  # type: ignore[attr-defined]


def test_what_is_started_while_an_ensemble_is_stopped_is_stopped_too(ray_session: str) -> None:
    name = new_name()
    ray.get(start_fake(name, 1).__ray_ready__.remote())
    Ensemble(name).shutdown()
    assert name not in list_ensembles()


def test_nothing_of_a_stopped_ensemble_is_started_again(ray_session: str, tmp_path: Path) -> None:
    config = make_config({"name": new_name(), "data_dir": tmp_path})
    with pytest.raises(NoLeaderError, match="was stopped meanwhile"):
        start_stopped(config, print)
    assert config.name not in list_ensembles()
