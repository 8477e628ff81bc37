"""Types that come from a driver's script by cloudpickle: whole ones are taken, others are refused.

tests/ray has the same script run with a worker of Ray.
"""

import base64
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raykeeper.client.errors import BadArgumentsError
from tests.harness.recipe_stage import RecipeStage

ROOT = Path(__file__).parents[2]
LOSES = {
    "struct": "Limits has lost its fields here: rate_max",
    "struct in a list": "Limits has lost its fields here: rate_max",
    "struct in a dict": "Limits has lost its fields here: rate_max",
    "struct, optional, in a dataclass": "Limits has lost its fields here: rate_max",
    "union of structs": "all Struct types must be tagged",
    "struct with an imported base": "Grown has lost its fields here: more",
    "generic struct": "Holds has lost its fields here: inside",
    "recursive struct": "name 'Node' is not defined",
    "dataclass with text of ours": "name 'Plain' is not defined",
}
"""What is refused where it arrives, and what the error says."""
LEFT_OUT = {
    "{}": "/defaults holds no valid Plain: Object missing required field `rate`",
    '{"rate":7}': "Plain(rate=7, name='web', tags=[])",
}


def check_outcomes(here: dict[str, str], there: dict[str, str]) -> None:
    """Of `driver_types.tried`, in the script's own process and where the types have arrived."""
    for name, text in here.items():
        if name in LOSES:
            assert LOSES[name] in there[name]
            assert "put the class into a module that workers import" in there[name]
        else:
            assert there[name] == text, name


@pytest.fixture(scope="module")
def arrived() -> Any:
    """What the script defines, as it is here."""
    command = [sys.executable, "-m", "tests.recipes.driver_types", "dump"]
    sent = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=100).stdout
    return pickle.loads(base64.b64decode(sent))


def test_only_a_type_that_has_lost_fields_is_refused(stage: RecipeStage, arrived: Any) -> None:
    tried, _, kinds = arrived
    texts = {name: text for name, (_, text) in kinds.items()}
    check_outcomes(texts, tried(stage.member(), kinds))


def test_a_dataclass_recovers_which_fields_have_no_default(
    stage: RecipeStage, arrived: Any
) -> None:
    _, defaults, kinds = arrived
    assert defaults(kinds, stage.member()) == LEFT_OUT


def test_every_recipe_that_takes_a_type_refuses_it(stage: RecipeStage, arrived: Any) -> None:
    member, lost = stage.member(), arrived[2]["struct"][0]
    for take in (
        lambda: member.configuration("/app", lost),
        lambda: member.configuration("/app", lost, form="msgpack"),
        lambda: member.configurations({"/app": dict, "/other": lost}),
        lambda: member.services("/services", lost),
        lambda: member.services("/services").register("web", "here", 80, lost()),
    ):
        with pytest.raises(BadArgumentsError, match="lost its fields here: rate_max"):
            take()


def test_services_take_a_type_that_arrives_whole(stage: RecipeStage, arrived: Any) -> None:
    kind = arrived[2]["dataclass"][0]
    services = stage.member().services("/services", kind)
    services.register("web", "here", 80, kind(7))
    services.register("web", "there", 80, {"rate": 8})
    services.register("web", "nowhere", 80, {"name": "x"})
    rates = [each.metadata for each in services.instances("web")]
    assert rates == [kind(7), kind(8)]
    (problem,) = services.malformed().values()
    assert "missing required field `rate`" in problem
