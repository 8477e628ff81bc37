"""Processes and nodes are killed, frozen and removed under load: nothing is lost or told wrong."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from raykeeper.chaos.fault_plan import EXCLUSIVE_KINDS, KINDS, OrderlyKind
from tests.pinned_version import check_out_pinned
from tests.ray.chaos_nodes import PROGRESS, Verdict
from tests.ray.programs import QUICK_HEALTH_CHECKS, run_module, run_raykeeper
from tests.unit.chaos.story import A, B, Story, X


@pytest.mark.ray
def test_the_ensemble_survives_faults_of_processes_and_nodes_under_load() -> None:
    done = run_module("tests.ray.chaos_nodes", QUICK_HEALTH_CHECKS)
    verdict = msgspec.json.decode(done.stdout.splitlines()[-1], type=Verdict)
    assert (verdict.lost, verdict.violations, verdict.undecided) == ([], [], [])
    assert len(verdict.faults) == len(KINDS) + 5
    assert verdict.operations > len(KINDS) * PROGRESS


@pytest.mark.ray
def test_the_command_prints_its_report() -> None:
    done = run_raykeeper("chaos", "--faults", "kill,freeze", "--minutes", "0.1", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(re.findall(r"^(\w[\w ]+?)  +(\d+)", done.stdout, re.MULTILINE))
    assert told["seed"] == "1"
    assert int(told["acknowledged writes"]) > 0
    assert int(told["faults"]) > 0
    assert (told["lost acknowledged writes"], told["violations"]) == ("0", "0")


@pytest.mark.ray
def test_clients_see_no_error_while_an_operator_works() -> None:
    """The seed draws each kind once, the upgrade before what needs the new feature level."""
    words = ["chaos", "--faults", "orderly", "--minutes", "0.19", "--seed", "2031", "--json"]
    done = run_raykeeper(*words, timeout_s=280)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["client_errors"], document["lost_writes"]) == ([], [])
    results = document["fault_results"]
    assert results.keys() >= set(OrderlyKind), results
    for kind in EXCLUSIVE_KINDS:  # a transfer or a drain may meet a server that restarts
        assert results[kind]["number"] > len(results[kind]["refusals"]), results


@pytest.mark.ray
def test_clients_see_no_error_of_an_upgrade(tmp_path: Path) -> None:
    earlier = check_out_pinned(tmp_path)
    words = ["chaos", "--upgrade-from", str(earlier), "--seed", "1", "--json"]
    done = run_raykeeper(*words, timeout_s=280)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["is_met"], document["client_errors"]) == (True, [])
    assert document["faults"] == {
        "downgrade follower": 1,
        "refused downgrade": 1,
        "upgrade after refusal": 1,
        "upgrade follower": 3,
        "upgrade leader": 1,
    }


@pytest.mark.parametrize(
    ("story", "code", "lost"),
    [
        (Story().create(A, 1, 2, "/r", "").create(A, 3, 4, X, "u"), 0, []),
        (Story().create(A, 1, 2, "/r", "").create(A, 3, 4, X, "u").set(B, 5, 6, "v", 5), 1, ["v"]),
    ],
)
def test_a_lost_write_is_reported_and_sets_the_exit_code(
    tmp_path: Path, story: Story, code: int, lost: list[str]
) -> None:
    story.get("end", 90, 91, "u", 1, synced=True).write(tmp_path / "round-1" / "clients.jsonl")
    done = run_raykeeper("chaos", "--judge", str(tmp_path))
    assert (done.returncode, done.stderr) == (code, "")
    told = dict(re.findall(r"^(\w[\w ]+?)  +(\d+)", done.stdout, re.MULTILINE))
    assert told["lost acknowledged writes"] == str(len(lost))
    assert re.findall(rf"^lost: .* set {X} '(\w)'", done.stdout, re.MULTILINE) == lost
    done = run_raykeeper("chaos", "--judge", str(tmp_path), "--json")
    assert (done.returncode, done.stderr) == (code, "")
    document = json.loads(done.stdout)
    assert (document["is_clean"], len(document["lost_writes"])) == (not lost, len(lost))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "0"], "error: --minutes must be above 0"),
        (["--minutes", "nan"], "error: --minutes must be above 0"),
        (["--seed", "-1"], "error: --seed must not be negative"),
        (["--faults", "fire"], "error: --faults knows kill-leader, "),
        (["--upgrade-from", "/nothing"], "error: --upgrade-from needs a folder with the package"),
        (["--lose-nodes", "--upgrade-from", "/x"], "--upgrade-from: choose one"),
        (["--minutes", "many"], "Invalid value for '--minutes'"),
        (["--lose-nodes", "--tree-mb", "-1"], "error: --tree-mb must be from 0 to 10000"),
        (["--lose-nodes", "--heal-after-s", "nan"], "error: --heal-after-s must be from 0"),
    ],
)
def test_bad_arguments_are_refused(words: list[str], said: str) -> None:
    done = run_raykeeper("chaos", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
