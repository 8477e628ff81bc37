"""Settings of a running ensemble: what differs from a request, and what is taken over."""

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raykeeper.actors.replica_status import ReplicaDescription, describe_replica
from raykeeper.clusters.config import (
    DEFAULTS,
    SETTINGS,
    Change,
    ConfigError,
    EnsembleConfig,
    LabelPin,
    change_of,
    make_config,
    resolve_requested,
)
from raykeeper.clusters.keeper import heal_settings
from raykeeper.clusters.running_settings import (
    SettingsDifferError,
    adopt_settings,
    check_rolling,
    check_settings,
    comparable_settings,
    servers_that_differ,
)
from raykeeper.clusters.starting import replica_config
from raykeeper.zab.ids import ServerId, Zxid

ROOT_ID = "digest:root:D/InIHSb7yEEbrWz8b9l71RjZJU="
VALUES: list[object] = [
    *(4321, 55, 7, 2, 1.5, 1 << 21, "/elsewhere", "ray", "spread", "0.0.0.0", [ROOT_ID], ["dump"]),
    *("json", True, False),
]
"""Of these, each setting accepts at least one that is not its default."""
TLS = make_config({"zookeeper_tls_certificate": "/c", "zookeeper_tls_key": "/k"})
"""A port with TLS needs these two."""
FIT_EACH_OTHER = make_config(
    {
        **{"session_timeout_min_s": 70, "session_timeout_max_s": 120, "zookeeper_tls_port": 2281},
        **{"sync_limit": 30, "init_limit": 40},
    },
    TLS,
)
"""Settings that contradict the defaults of others."""
NEVER_TOLD = ["name"]
"""Settings that are not compared: another name is another ensemble."""


def server(config: EnsembleConfig, server_id: int = 1) -> ReplicaDescription:
    return describe_replica(replica_config(config, "uuid", ServerId(server_id)), "node")


def unlike_the_default(setting: str) -> EnsembleConfig:
    for value in VALUES:
        try:
            config = make_config({setting: value}, TLS)
        except ConfigError:
            continue
        if config != TLS:
            return config
    raise AssertionError(f"VALUES has no other value for {setting}: add one")


def differences(
    config: EnsembleConfig, *servers: ReplicaDescription, stated: tuple[str, ...] = SETTINGS
) -> list[str]:
    try:
        check_settings(config, stated, servers)
    except SettingsDifferError as error:
        return [str(each) for each in error.differences]
    return []


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each not in NEVER_TOLD])
def test_every_setting_is_compared_or_named_as_not_comparable(setting: str) -> None:
    other = unlike_the_default(setting)
    with pytest.raises(SettingsDifferError) as raised:
        check_settings(other, [setting], [server(TLS)])
    (difference,) = raised.value.differences
    assert difference.setting == setting
    assert difference.how
    assert "{" not in difference.how


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_reaches_the_servers(setting: str) -> None:
    """What a server describes is what it or the keeper has.

    A placement ends with the launch, and a backup asks a server for its rate.
    """
    if setting in ("placement", "backup_mb_per_s"):
        return

    def effective(config: EnsembleConfig) -> Any:
        made = replica_config(config, "uuid", ServerId(1))
        return msgspec.structs.replace(made, launch_settings={}), heal_settings(config)

    assert effective(unlike_the_default(setting)) != effective(TLS)


def test_only_the_name_is_not_comparable() -> None:
    never = [setting for setting in SETTINGS if change_of(setting) is Change.NOT_COMPARABLE]
    assert never == NEVER_TOLD


ASKED = make_config({"tick_ms": 1000, "links": "ray", "servers": 5})


@pytest.mark.parametrize(
    ("config", "stated", "servers", "expected"),
    [
        # The same settings, and other settings that the caller does not state.
        (DEFAULTS, SETTINGS, [server(DEFAULTS)], []),
        (DEFAULTS, ("name",), [server(ASKED)], []),
        # No server runs or answers.
        (ASKED, SETTINGS, [], []),
        (
            ASKED,
            SETTINGS,
            [server(DEFAULTS)],
            [
                "servers: runs with 3, asked for 5",
                "tick_ms: runs with 500, asked for 1000",
                "links: runs with auto, asked for ray",
            ],
        ),
        # Servers that differ among themselves: told if one is not as asked for.
        (
            ASKED,
            ("links",),
            [server(DEFAULTS, 1), server(ASKED, 2), server(DEFAULTS, 3)],
            ["links: runs with auto (server 1, 3) and ray (server 2), asked for ray"],
        ),
        (
            make_config({"placement": {"resource": "slot"}, "session_timeout_min_s": 1}),
            SETTINGS,
            [server(DEFAULTS)],
            [
                "session_timeout_min_s: runs with 2, asked for 1",
                "placement: runs with auto, asked for {resource: slot}",
            ],
        ),
    ],
)
def test_differences_are_listed(
    config: EnsembleConfig,
    stated: tuple[str, ...],
    servers: list[ReplicaDescription],
    expected: list[str],
) -> None:
    assert differences(config, *servers, stated=stated) == expected


def test_the_error_tells_how_to_bring_each_change_about() -> None:
    with pytest.raises(SettingsDifferError) as raised:
        check_settings(ASKED, SETTINGS, [server(DEFAULTS)])
    assert str(raised.value) == (
        "ensemble 'coord' runs with other settings: servers: runs with 3, asked for 5; "
        "tick_ms: runs with 500, asked for 1000; links: runs with auto, asked for ray; "
        "to change servers: put the present number into the settings, or run `raykeeper up` with "
        "--apply, which changes the members as `raykeeper members set coord` does; to change "
        "tick_ms, links: run `raykeeper up` with the new value and --apply, or call "
        "`apply_settings`: the servers of coord are replaced one after the other, and no client "
        "sees an error"
    )
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.differences) == (str(raised.value), raised.value.differences)


def rolling_error(stated: dict[str, Any], *servers: ReplicaDescription) -> str:
    try:
        check_rolling(make_config(stated), stated.keys(), servers)
    except ConfigError as error:
        return str(error)
    return ""


def test_most_settings_can_be_changed_server_by_server() -> None:
    fixed = {each for each in SETTINGS if change_of(each) is not Change.ROLLING}
    assert fixed == {"name", "servers", "observers", "data_dir", "placement"}
    assert {each for each in fixed if change_of(each) is Change.MEMBERS} == {"servers", "observers"}
    assert rolling_error({"servers": 5, "observers": 1}, server(DEFAULTS)) == ""
    assert rolling_error({"log_format": "json", "tick_ms": 600}, server(DEFAULTS)) == ""
    assert rolling_error({"data_dir": "~/.raykeeper/data"}, server(DEFAULTS)) == ""


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        # Only what cannot be changed so is told.
        ({"data_dir": "/e", "tick_ms": 600}, "data_dir: runs with ~/.raykeeper/data, asked for /e"),
        ({"data_dir": "/elsewhere"}, "to change data_dir: run `raykeeper down coord`, move"),
        ({"placement": "spread"}, "placement: runs with auto, asked for spread"),
    ],
)
def test_what_cannot_be_changed_so_is_refused(stated: dict[str, Any], words: str) -> None:
    told = rolling_error(stated, server(DEFAULTS))
    assert words in told and "tick_ms" not in told


def test_a_mix_that_does_not_work_is_refused_with_a_way_round() -> None:
    streams = make_config({"links": "direct"})
    told = rolling_error({"links": "ray"}, server(streams))
    assert told == (
        "ensemble 'coord': servers with links: ray and links: direct do not reach each other; go "
        "to auto first"
    )
    # What the caller does not state stays as it runs.
    quick = make_config({"tick_ms": 50})
    assert rolling_error({"log_format": "json"}, server(quick)) == ""
    assert "smaller steps" in rolling_error({"tick_ms": 500}, server(quick))
    # There is nothing to change.
    assert rolling_error({"tick_ms": 50}, server(quick)) == ""


def test_the_servers_that_run_otherwise_are_found() -> None:
    slow, json = make_config({"tick_ms": 600}), make_config({"log_format": "json"})
    described = [server(slow, 3), server(DEFAULTS, 1), server(json, 2)]
    assert servers_that_differ(DEFAULTS, described) == [2, 3]
    assert servers_that_differ(slow, described) == [1, 2]
    assert servers_that_differ(slow, []) == []


def test_what_a_server_of_another_version_does_not_describe_is_not_different() -> None:
    silent = msgspec.structs.replace(server(DEFAULTS), settings={})
    assert differences(make_config({"tick_ms": 1000, "links": "ray"}), silent) == []
    assert differences(ASKED, silent) == ["servers: runs with 3, asked for 5"]
    newer = msgspec.structs.replace(server(DEFAULTS), settings={"tick_ms": 500, "later": 1})
    assert differences(ASKED, newer, stated=("tick_ms", "links")) == [
        "tick_ms: runs with 500, asked for 1000"
    ]
    assert adopt_settings(DEFAULTS, (), [newer]) == (DEFAULTS, [])


def test_the_numbers_of_servers_are_those_of_the_newest_list() -> None:
    """Server 2 has not delivered the change yet; what they were launched with counts no more."""
    grown = msgspec.structs.replace(
        server(DEFAULTS),
        voters=tuple(map(ServerId, (1, 3, 4, 5, 6))),
        observers=(ServerId(7),),
        members_version=Zxid(9),
    )
    servers = [server(DEFAULTS, 2), grown]
    assert differences(make_config({"servers": 5, "observers": 1}), *servers) == []
    assert differences(DEFAULTS, *servers) == [
        "servers: runs with 5, asked for 3",
        "observers: runs with 1, asked for 0",
    ]
    assert adopt_settings(DEFAULTS, (), servers) == (
        make_config({"servers": 5, "observers": 1}),
        [],
    )


def test_a_folder_is_the_same_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    at_home = server(make_config({"data_dir": "~/data"}))
    for same in ("~/data", "~/data/", "/home/someone/data", "/home/someone/./data"):
        other = make_config({"data_dir": same})
        assert differences(other, at_home) == []
        assert comparable_settings(server(other)) == comparable_settings(at_home)
    assert differences(make_config({"data_dir": "/data"}), at_home) == [
        "data_dir: runs with ~/data, asked for /data"
    ]


def test_a_secret_is_not_printed() -> None:
    with pytest.raises(SettingsDifferError) as raised:
        check_settings(make_config({"super_ids": [ROOT_ID]}), SETTINGS, [server(DEFAULTS)])
    assert "D/InIHSb7" not in str(raised.value)
    assert "super_ids: runs with 0 secret values (sha256 " in str(raised.value)
    assert "D/InIHSb7" not in str(msgspec.json.encode(raised.value.differences))


def test_what_the_caller_does_not_state_is_taken_over() -> None:
    runs = make_config({"servers": 5, "tick_ms": 1000, "data_dir": "/d", "super_ids": [ROOT_ID]})
    assert adopt_settings(DEFAULTS, ("name",), [server(runs)]) == (runs, [])
    pinned = make_config({"placement": {"label": "slot"}})
    assert adopt_settings(DEFAULTS, (), [server(pinned)]) == (pinned, [])
    assert adopt_settings(ASKED, SETTINGS, []) == (ASKED, [])


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_newcomer_describes_what_it_took_over_by_the_same_values(setting: str) -> None:
    """As it is told to the doctor, type and all; also settings that only fit each other."""
    for founded in (DEFAULTS, unlike_the_default(setting), FIT_EACH_OTHER):
        adopted, warnings = adopt_settings(DEFAULTS, ("name",), [server(founded)])
        assert warnings == []
        described, newcomer = (comparable_settings(server(x, 4)) for x in (founded, adopted))
        assert repr(newcomer) == repr(described)


def test_settings_have_one_form_however_they_are_given() -> None:
    given = EnsembleConfig(heal_pause_s=30, super_ids=[ROOT_ID], placement={"label": "a"})  # type: ignore[arg-type]
    assert repr(given) == repr(
        make_config({"heal_pause_s": 30.0, "super_ids": (ROOT_ID,), "placement": LabelPin("a")})
    )
    with pytest.raises(ConfigError, match="tick_ms: expected a whole number of milliseconds"):
        EnsembleConfig(tick_ms="500")  # type: ignore[arg-type]


def test_of_servers_that_differ_the_most_frequent_value_is_taken_with_a_warning() -> None:
    slow = make_config({"tick_ms": 1000})
    config, warnings = adopt_settings(
        DEFAULTS, (), [server(slow, 3), server(DEFAULTS, 1), server(slow, 2)]
    )
    assert config == slow
    assert warnings == [
        "the servers of ensemble 'coord' run with different settings: tick_ms is 500 (server 1) "
        "and 1000 (server 2, 3); run `raykeeper up` with the right value and --apply"
    ]


def test_a_value_that_this_version_does_not_accept_is_not_taken() -> None:
    newer = msgspec.structs.replace(server(DEFAULTS), settings={"links": "carrier pigeon"})
    config, (warning,) = adopt_settings(DEFAULTS, (), [newer])
    assert config == DEFAULTS
    assert "expected auto, ray or direct, not 'carrier pigeon'" in warning


def test_a_setting_is_stated_by_argument_file_or_changed_field(tmp_path: Path) -> None:
    file = tmp_path / "coord.yaml"
    file.write_text("tick_ms: 500\n")
    assert resolve_requested(None, {})[1] == frozenset()
    assert resolve_requested(None, {"servers": 3})[1] == {"servers"}
    assert resolve_requested(file, {"links": "ray"})[1] == {"tick_ms", "links"}
    given = make_config({"links": "ray"})
    assert resolve_requested(given, {"servers": 3})[1] == {"links", "servers"}


def test_a_server_learns_which_of_its_incarnations_others_have_seen() -> None:
    """It begins above that, also where the clock is behind that of its last node."""
    assert replica_config(EnsembleConfig(), "uuid", ServerId(1), 9).newest_incarnation == 9


def test_each_server_has_ports_of_its_own() -> None:
    config = EnsembleConfig(zookeeper_port=2181, zookeeper_admin_port=8080, zookeeper_tls_port=2281)
    made = [replica_config(config, "uuid", ServerId(number)) for number in (1, 3)]
    assert [each.zookeeper_port for each in made] == [2181, 2183]
    assert [each.zookeeper_admin_port for each in made] == [8080, 8082]
    assert [each.zookeeper_tls_port for each in made] == [2281, 2283]
    off = replica_config(EnsembleConfig(), "uuid", ServerId(3))
    assert (off.zookeeper_port, off.zookeeper_admin_port) == (0, 0)
