"""Settings: what is accepted, and with which line and words everything else is refused."""

import pickle
from pathlib import Path

import pytest

from raykeeper.clusters.config import (
    DEFAULTS,
    SETTINGS,
    ConfigError,
    EnsembleConfig,
    LabelPin,
    ResourcePin,
    load_config,
    make_config,
    resolve_config,
    warnings_about,
)
from raykeeper.server.context import ALLOWED_WORDS
from raykeeper.zab.settings import Timing

ROOT_ID = "digest:root:D/InIHSb7yEEbrWz8b9l71RjZJU="
ROOT = Path(__file__).parents[3]


def write(folder: Path, text: str) -> Path:
    file = folder / "ensemble.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_example_file_shows_every_default() -> None:
    text = (ROOT / "ray-config.yaml").read_text()
    assert load_config(ROOT / "ray-config.yaml") == DEFAULTS == EnsembleConfig()
    assert [key for key in SETTINGS if f"\n{key}: " not in text] == []


def test_the_ticks_are_those_of_the_protocol() -> None:
    timing = Timing()
    assert (DEFAULTS.tick_ms, DEFAULTS.init_limit, DEFAULTS.sync_limit) == (
        timing.tick_ms,
        timing.init_limit,
        timing.sync_limit,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", DEFAULTS),
        ("# nothing but a comment\n", DEFAULTS),
        ("name: a\nservers: 5\n", make_config({"name": "a", "servers": 5})),
        (f"super_ids: ['{ROOT_ID}']", make_config({"super_ids": [ROOT_ID]})),
        ("clients_max: 5\nsessions_max: 6", make_config({"clients_max": 5, "sessions_max": 6})),
        ("clients_max: auto", DEFAULTS),
        ("observers: 2", make_config({"observers": 2})),
        ("session_timeout_max_s: 5", make_config({"session_timeout_max_s": 5.0})),
        ("placement: {label: a/b}", make_config({"placement": LabelPin("a/b")})),
        ("placement:\n  resource: r", make_config({"placement": ResourcePin("r")})),
        ("data_dir: /d", make_config({"data_dir": Path("/d")})),
    ],
)
def test_valid_settings_are_accepted(tmp_path: Path, text: str, expected: EnsembleConfig) -> None:
    assert load_config(write(tmp_path, text)) == expected


def test_relative_data_folder_belongs_to_the_file_or_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "data_dir: ensembles")
    monkeypatch.chdir("/")
    assert load_config(file).data_dir == str(tmp_path / "ensembles")
    assert resolve_config(None, {"data_dir": "here"}).data_dir == "/here"
    assert resolve_config(None, {"data_dir": "~/x"}).data_dir == "~/x"


def test_observers_are_numbered_after_the_voters() -> None:
    config = make_config({"servers": 3, "observers": 2})
    assert (config.voter_ids, config.observer_ids) == ((1, 2, 3), (4, 5))
    assert DEFAULTS.observer_ids == ()


def test_arguments_override_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "name: a\nservers: 5\n")
    config = resolve_config(file, {"servers": 1})
    assert (config.name, config.servers) == ("a", 1)
    assert resolve_config(config, {}) == config


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        # Wrong keys.
        ("\nserver: 3", 2, "unknown setting 'server'; did you mean servers?"),
        ("zzz: 3", 1, "unknown setting 'zzz'; settings are name, servers"),
        ("1: 3", 1, "unknown setting '1'"),
        ("servers: 3\nname: a\nservers: 3", 3, "servers is already set in line 1"),
        # Wrong types.
        ("# x\nservers: three", 2, "servers: expected a whole number from 1 to 254, not 'three'"),
        ("servers: 2.5", 1, "not 2.5"),
        ("servers: true", 1, "not True"),
        ("servers:", 1, "not nothing"),
        ("servers: [3]", 1, "not [3]"),
        ("name: 7", 1, "name: expected 1 to 64 letters"),
        ("session_timeout_min_s: soon", 1, "a number of seconds from 0.1 to 86400"),
        # Wrong values.
        ("servers: 0", 1, "not 0"),
        ("servers: 255", 1, "not 255"),
        ("observers: -1", 1, "observers: expected a whole number from 0 to 253, not -1"),
        ("servers: 200\nobservers: 100", 2, "servers (200) and observers (100) are more than 254"),
        ("name: a/b", 1, "not 'a/b'"),
        ('name: "a\\n"', 1, "name: expected"),
        ("name: ..", 1, "not '..'"),
        ("super_ids: root", 1, "super_ids: expected up to 16 of digest:USER:HASH or scrypt"),
        ("super_ids: ['digest:root:secret']", 1, "not ['digest:root:secret']"),
        (f"super_ids: ['{ROOT_ID}x']", 1, "super_ids: expected"),
        ("tick_ms: 1", 1, "milliseconds from 10 to 60000"),
        ("session_timeout_min_s: .nan", 1, "not nan"),
        ("session_timeout_max_s: .inf", 1, "not inf"),
        ("placement: anywhere", 1, "expected auto, spread, {label: NAME} or {resource: NAME}"),
        ("placement: {label: a, resource: b}", 1, "placement: expected"),
        ("placement: {}", 1, "placement: expected"),
        ("name: a\nclients_max: 0", 2, "clients_max: expected auto, or a whole number from 1 to"),
        ("clients_max: 100001", 1, "from 1 to 100000, not 100001"),
        ("clients_max: many", 1, "not 'many'"),
        ("sessions_max: 0", 1, "sessions_max: expected a whole number from 1 to 10000000, not 0"),
        ("sessions_max: auto", 1, "not 'auto'"),
        ("links: wires", 1, "links: expected auto, ray or direct, not 'wires'"),
        ("zookeeper_port: 65536", 1, "zookeeper_port: expected a whole number from 0 to 65535"),
        ("zookeeper_address: localhost", 1, "zookeeper_address: expected an IP address"),
        ("zookeeper_clients_per_address: 0", 1, "from 1 to 100000, not 0"),
        ("zookeeper_handshake_s: 0", 1, "seconds from 1 to 3600, not 0"),
        ("zookeeper_words: [stat, quit]", 1, "wchp, wchs, or of '*' for all, not ['stat', 'quit']"),
        ("zookeeper_words: stat", 1, "expected a list of the four-letter words conf, cons, "),
        ("zookeeper_request_bytes: 9", 1, "bytes from 1024 to 67108864, not 9"),
        ("zookeeper_list_bytes: 9", 1, "bytes from 1024 to 1073741824, not 9"),
        ("zookeeper_buffer_bytes: 9", 1, "bytes from 1048576 to 1099511627776, not 9"),
        ("transaction_ops_max: 0", 1, "transaction_ops_max: expected a whole number from 1 to"),
        ("acl_entries_max: 1001", 1, "acl_entries_max: expected a whole number from 1 to 1000"),
        ("session_identities_max: 0", 1, "session_identities_max: expected a whole number from"),
        ("zookeeper_port: 65534", 1, "(65534) leaves no port for each of 3 servers"),
        ("zookeeper_admin_port: -1", 1, "zookeeper_admin_port: expected a whole number from 0 to"),
        ("zookeeper_admin_port: 65534", 1, "zookeeper_admin_port (65534) leaves no port for each"),
        (
            "zookeeper_admin_port: 2183\nzookeeper_port: 2181",
            2,
            "zookeeper_port (2181) and zookeeper_admin_port (2183) overlap: each of 3 servers has",
        ),
        (
            "zookeeper_tls_key: keys/a.pem",
            1,
            "expected a path that begins with / or ~/, or nothing",
        ),
        ("zookeeper_tls_port: 2281", 1, "needs zookeeper_tls_certificate and zookeeper_tls_key"),
        (
            "zookeeper_tls_port: 2281\nzookeeper_tls_key: ~/k",
            2,
            "needs zookeeper_tls_certificate and zookeeper_tls_key",
        ),
        # Settings that contradict each other: the later line.
        ("session_timeout_min_s: 9\nsession_timeout_max_s: 8", 2, "(9) is above"),
        ("name: a\nsession_timeout_min_s: 90", 2, "is above session_timeout_max_s (60)"),
        ("sync_limit: 99", 1, "sync_limit (99) is above init_limit (20)"),
        # Not YAML, not a mapping.
        ("name: a\nservers: [3", 2, "expected ',' or ']'"),
        ("name: a\n\tservers: 3", 2, "cannot start any token"),
        ("\n- name", 2, "expected settings such as 'name: coord'"),
        ("name: !!python/object:os.system {}", 1, "could not determine a constructor"),
        ("name: a\n---\nname: b", 2, "but found another document"),
    ],
)
def test_a_bad_setting_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert (caught.value.file, caught.value.line) == (file, line)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{file}:{line}: ")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        load_config(tmp_path / "missing.yaml")
    assert (caught.value.file, caught.value.line) == (tmp_path / "missing.yaml", None)
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(file)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"server": 3}, "did you mean servers"),
        ({"servers": "3"}, "expected a whole number from 1 to 254, not '3'"),
        ({"data_dir": ""}, "data_dir: expected the path of a folder"),
        ({"data_dir": "a\0b"}, "data_dir: expected"),
        ({"session_timeout_max_s": 1}, "is above"),
    ],
)
def test_bad_arguments_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make_config(settings)
    assert (caught.value.file, caught.value.line) == (None, None)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        (1, None),
        (2, "2 bear the loss of none, as 1 would; 3 bear the loss of 1"),
        (3, None),
        (4, "4 bear the loss of 1, as 3 would; 5 bear the loss of 2"),
        (6, "6 bear the loss of 2, as 5 would; 7 bear the loss of 3"),
    ],
)
def test_an_even_number_of_servers_is_a_warning(servers: int, words: str | None) -> None:
    warnings = warnings_about(make_config({"name": "even", "servers": servers, "observers": 0}))
    assert len(warnings) == (words is not None)
    for warning in warnings:
        assert warning.startswith("ensemble 'even' has an even number of voting servers")
        assert words is not None
        assert words in warning
    assert warnings_about(make_config({"observers": 1})) == []


def test_a_port_with_tls_that_others_reach_is_no_warning() -> None:
    settings = {
        "zookeeper_tls_port": 2281,
        "zookeeper_tls_certificate": "/c",
        "zookeeper_tls_key": "~/k",
        "zookeeper_address": "0.0.0.0",
    }
    assert warnings_about(make_config(settings)) == []


def test_an_admin_server_that_others_reach_is_warned_of() -> None:
    settings = {"zookeeper_admin_port": 8080, "zookeeper_address": "10.0.0.7"}
    (warning,) = warnings_about(make_config(settings))
    assert "has its admin server at 10.0.0.7: who reaches that port is told of" in warning
    assert warnings_about(make_config({"zookeeper_admin_port": 8080})) == []


@pytest.mark.parametrize(
    ("port", "address", "warns"),
    [
        (0, "0.0.0.0", False),
        (2181, "127.0.0.1", False),
        (2181, "::1", False),
        (2181, "0.0.0.0", True),
        (2181, "10.0.0.7", True),
    ],
)
def test_a_port_that_others_reach_is_warned_of(port: int, address: str, warns: bool) -> None:
    found = warnings_about(make_config({"zookeeper_port": port, "zookeeper_address": address}))
    assert [f"clients of ZooKeeper at {address}: " in warning for warning in found] == warns * [
        True
    ]


def test_the_words_are_those_that_a_server_answers() -> None:
    assert DEFAULTS.zookeeper_words == ALLOWED_WORDS
    every = make_config({"zookeeper_words": ["*", "dump", "wchc", "wchp", "crst", "srst"]})
    assert every.zookeeper_words[0] == "*"


def test_the_error_survives_a_pickle() -> None:
    error = ConfigError("problem", Path("a.yaml"), 7)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.line) == ("a.yaml:7: problem", Path("a.yaml"), 7)
