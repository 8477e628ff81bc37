"""What people and Ray hand us as text: settings files, addresses, names of actors, records.

The property is that of `test_decoders`: a legal value, or the documented error, whatever is read.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from raykeeper.client import head_record, ray_address
from raykeeper.clusters import node_discovery
from raykeeper.clusters.config import (
    DEFAULTS,
    SETTINGS,
    ConfigError,
    load_config,
    make_config,
)
from raykeeper.clusters.node_report import EnsembleRecord
from raykeeper.links.ray_names import NAMESPACE, replica_name, replicas_among
from raykeeper.zab.ids import SERVER_ID_MAX
from tests.fuzz.budget import bounded, examples
from tests.fuzz.mutations import hostile_bytes
from tests.fuzz.samples import texts, values_of

BOMB = (
    ", ".join(
        ["[&a [x, x, x, x, x, x, x, x]"]
        + [f"&{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 8)}]" for i in range(12)]
    )
    + "]"
)
"""Each list holds the one before it eight times: a few hundred bytes that none could write out."""
SCALARS = [
    *["", "~", "3", "-1", "0x10", "0o17", "1e9", ".inf", ".nan", "auto", "{label: a}"],
    *[
        "1:99",
        "2024-13-45",
        "0b_",
        "0x_",
        "1" * 5_000,
        "!!int x",
        "!!int",
        "!!float",
        "!!timestamp x",
        "!!bool x",
    ],
    *["!!float x", "!!binary a", "!!set {a}", "!!python/name:os.system", "=", "<<", "&a [*a]"],
    *['"\\ud800"', '"\\0"', "'", "{", "[" * 50, "? x", "|\n  a", "*a", "@", "%", "\t"],
    BOMB,
]
lines = st.tuples(st.sampled_from([*SETTINGS, *SCALARS]), st.sampled_from(SCALARS) | texts)
documents = st.lists(lines.map(": ".join), max_size=4).map("\n".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


def check_settings(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with bounded(len(data)):
        try:
            config = load_config(file)
        except ConfigError as error:
            assert error.file == file and error.problem
            str(error).encode("utf-8", "surrogateescape")
            return
    assert make_config({}, config) == config
    assert os.fsencode(config.data_dir)


@pytest.mark.parametrize("setting", [*SETTINGS, "other"])
def test_odd_values_of_settings_are_refused_or_valid(folder: Path, setting: str) -> None:
    for scalar in SCALARS:
        check_settings(folder / "odd.yaml", f"{setting}: {scalar}".encode())


@pytest.mark.parametrize("start", ["", "name: "])
@pytest.mark.parametrize("nest", ["[", "{a: ", "- "])
def test_deeply_nested_settings_are_refused_or_valid(folder: Path, start: str, nest: str) -> None:
    check_settings(folder / "deep.yaml", (start + nest * 300).encode())


@examples(100)
@given(documents.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_settings_files_are_refused_or_valid(folder: Path, data: bytes) -> None:
    check_settings(folder / "settings.yaml", data)


written = st.fixed_dictionaries(
    {}, optional={setting: st.just(getattr(DEFAULTS, setting)) for setting in SETTINGS}
).map(lambda settings: yaml.safe_dump(settings).encode())


@examples(150)
@given(hostile_bytes(documents.map(lambda text: text.encode("utf-8", "surrogatepass")) | written))
def test_mutated_settings_files_are_refused_or_valid(folder: Path, data: bytes) -> None:
    check_settings(folder / "mutated.yaml", data)


@pytest.fixture
def nothing_listens(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Addresses that can be reached would make the test depend on the machine."""
    monkeypatch.setattr(ray_address, "CONNECT_TIMEOUT_S", 0.001)
    yield


HOSTS = [
    "",
    "127.0.0.1",
    "[::1]",
    "localhost",
    "a" * 64,
    "a..b",
    "ü" * 70,
    "a\0b",
    "1.2.3.4.5",
    "::",
]
PORTS = ["", "0", "1", "65535", "65536", "99999", "-1", "٣", "1" * 5_000, "1_0", "x"]


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.usefixtures("nothing_listens")
def test_random_addresses_are_refused_or_valid(host: str, port: str) -> None:
    with bounded(len(host) + len(port)):
        assert ray_address.answers_at(f"{host}:{port}") in (True, False)


NUMBERS = ["", "0", "1", "3", "-1", "255", "٣", "²", "1" * 5_000, "01", " 1", "x"]


@examples(200)
@given(
    st.lists(
        st.tuples(texts, st.sampled_from(["replica", "tracker", ""]), st.sampled_from(NUMBERS)),
        max_size=4,
    )
)
@example([("coord", "replica", "1" * 5_000), ("coord", "replica", "1")])
def test_random_actor_names_are_parsed_or_ignored(names: list[tuple[str, str, str]]) -> None:
    actors = [{"namespace": NAMESPACE, "name": "/".join(parts)} for parts in names]
    for ensemble, servers in replicas_among(actors).items():
        for server in servers:
            assert 0 < server <= SERVER_ID_MAX
            assert {"namespace": NAMESPACE, "name": replica_name(ensemble, server)} in actors


@examples(150)
@given(hostile_bytes(values_of(EnsembleRecord).map(msgspec.json.encode)))
@example(b'{"ensemble_uuid":"\xff"}')
@example(b'{"x":' * 20_000)
def test_random_ensemble_records_are_refused_or_valid(folder: Path, data: bytes) -> None:
    home = folder / "coord"
    home.mkdir(exist_ok=True)
    (home / node_discovery.RECORD_FILE).write_bytes(data)
    with bounded(len(data)):
        found = node_discovery.inspect_node(str(folder), "coord")
    assert isinstance(found.record, EnsembleRecord) is not bool(found.record_damage)
    assert found.folders == [] == found.unreadable


@examples(150)
@given(hostile_bytes(values_of(head_record.LocalHead).map(msgspec.json.encode)))
@example(b'{"pid":-1,"started":1,"pid_namespace":"x","address":""}')
@example(b'{"pid":9223372036854775808,"started":1,"pid_namespace":"x","address":""}')
@example(b'{"pid":1,"started":1,"pid_namespace":"x","address":"\xff"}')
@example(b'{"x":' * 20_000)
def test_random_head_records_are_refused_or_valid(folder: Path, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_record, "head_folder", lambda: folder)
        (folder / "head.json").write_bytes(data)
        with bounded(len(data)):
            assert head_record.find_head() is None
