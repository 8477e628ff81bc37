"""The near misses: each is for a field that some message has, so a rename cannot switch one off."""

from types import ModuleType

import msgspec
import pytest

from raykeeper.server import peer_messages
from raykeeper.zab import messages
from raykeeper.znodes import requests
from tests.fuzz.near import FROM_CLIENTS, FROM_PEERS
from tests.fuzz.samples import Strategies


def fields_of(*modules: ModuleType) -> set[str]:
    """The fields of all structs of these modules, each as `field` and as `Struct.field`."""
    structs = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    names = {
        (kind.__name__, field.name) for kind in structs for field in msgspec.structs.fields(kind)
    }
    return {name for kind, field in names for name in (field, f"{kind}.{field}")}


@pytest.mark.parametrize(
    ("strategies", "modules"),
    [(FROM_CLIENTS, (requests,)), (FROM_PEERS, (messages, peer_messages, requests))],
)
def test_every_near_miss_belongs_to_a_field(
    strategies: Strategies, modules: tuple[ModuleType, ...]
) -> None:
    assert strategies.keys() - fields_of(*modules) == set()
