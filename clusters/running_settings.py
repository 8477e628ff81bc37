"""Compare the settings that a launch asks for with those that the running servers describe.

A server describes the settings of `EnsembleConfig` that it was launched with, so a new setting is
compared without being named here. A setting that a server does not describe, such as one of
another version, is unknown, and unknown is not different. A launch takes over the settings that
its caller does not state, so a server that it adds runs like the others.
"""

import hashlib
import os.path
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.clusters.config import (
    SETTINGS,
    Change,
    ConfigError,
    EnsembleConfig,
    change_of,
    is_secret,
    make_config,
    plain_value,
)
from raykeeper.clusters.membership import newest_description
from raykeeper.clusters.mixed_settings import mixing_problem
from raykeeper.zab.ids import ServerId


class SettingDifference(Struct, frozen=True):
    """A setting of a running ensemble that is not as it was asked for."""

    setting: str
    runs_with: dict[ServerId, Any]
    """The value on each server that describes it; a text in place of a secret."""
    asked_for: Any
    how: str
    """How to bring the change about, or that it cannot be."""

    def __str__(self) -> str:
        return f"{self.setting}: runs with {self.runs_with_text}, asked for {self.asked_for_text}"

    @property
    def runs_with_text(self) -> str:
        """The values of the servers, such as `500 (server 1) and 600 (server 2, 3)`."""
        return _by_server(self.runs_with)

    @property
    def asked_for_text(self) -> str:
        """The value that was asked for."""
        return _text(self.asked_for)


class SettingsDifferError(ConfigError):
    """Raised when an ensemble runs with other settings than the launch states.

    Nothing was changed. The caller should leave these settings out, which attaches the ensemble as
    it runs, or change them as each difference says.

    Attributes:
        name: The ensemble.
        differences: The differences, in the order of the settings.
    """

    def __init__(self, name: str, differences: Iterable[SettingDifference]) -> None:
        self.name = name
        self.differences = tuple(differences)
        ways: dict[str, list[str]] = {}
        for each in self.differences:
            ways.setdefault(each.how, []).append(each.setting)
        told = [*map(str, self.differences)]
        told += [f"to change {', '.join(settings)}: {how}" for how, settings in ways.items()]
        super().__init__(f"ensemble {name!r} runs with other settings: {'; '.join(told)}")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.name, self.differences))


def check_settings(
    config: EnsembleConfig, stated: Collection[str], described: Iterable[ReplicaDescription]
) -> None:
    """Check that no server describes another value of a stated setting.

    Raises:
        SettingsDifferError: it does; lists every difference.
    """
    if differences := differences_of(config, stated, described):
        raise SettingsDifferError(config.name, differences)


def check_rolling(
    config: EnsembleConfig, stated: Collection[str], described: Collection[ReplicaDescription]
) -> None:
    """Check that the stated settings can be brought about while the ensemble works.

    Raises:
        SettingsDifferError: some cannot; lists those.
        ConfigError: they can, but not in one step.
    """
    differences = differences_of(config, stated, described)
    ways = (Change.ROLLING, Change.MEMBERS)
    fixed = [each for each in differences if change_of(each.setting) not in ways]
    if fixed:
        raise SettingsDifferError(config.name, fixed)
    asked = {setting: settings_of(config)[setting] for setting in stated}
    mixed = [{**each.settings, **more} for each in described for more in ({}, asked)]
    if differences and (problem := mixing_problem(mixed)):
        raise ConfigError(f"ensemble {config.name!r}: {problem}")


def servers_that_differ(
    config: EnsembleConfig, described: Iterable[ReplicaDescription]
) -> list[ServerId]:
    """Return the servers that run with another value of any setting than `config` has."""
    requested = settings_of(config)
    found: dict[ServerId, None] = {}
    for setting, values in _described(described).items():
        asked = requested[setting]
        found |= {s: None for s, value in values.items() if not _is_same(setting, value, asked)}
    return sorted(found)


def differences_of(
    config: EnsembleConfig, stated: Collection[str], described: Iterable[ReplicaDescription]
) -> list[SettingDifference]:
    """Return each stated setting that a server runs otherwise, in the order of the settings."""
    requested = settings_of(config)
    differences = []
    for setting, values in _described(described).items():
        asked = requested[setting]
        if setting not in stated or all(_is_same(setting, v, asked) for v in values.values()):
            continue
        how = change_of(setting).value.format(name=config.name)
        runs_with = {server: _printable(setting, v) for server, v in values.items()}
        differences.append(SettingDifference(setting, runs_with, _printable(setting, asked), how))
    return differences


def adopt_settings(
    config: EnsembleConfig, stated: Collection[str], described: Iterable[ReplicaDescription]
) -> tuple[EnsembleConfig, list[str]]:
    """Return `config` with the settings of the running servers where the caller states none.

    Also return warnings about servers that differ among themselves in these, of whose values the
    most frequent one is taken, and about values that this version does not accept, which are not
    taken.
    """
    adopted: dict[str, Any] = {}
    warnings = []
    for setting, values in _described(described).items():
        if setting in stated:
            continue
        groups = _groups(setting, values)
        if len(groups) > 1:
            told = {server: _printable(setting, value) for server, value in values.items()}
            warnings.append(
                f"the servers of ensemble {config.name!r} run with different settings: {setting} "
                f"is {_by_server(told)}; run `raykeeper up` with the right value and --apply"
            )
        value = values[max(groups, key=len)[0]]
        try:
            # By itself only: beside the others that are adopted it contradicts none.
            adopted[setting] = plain_value(setting, value)
        except ConfigError as error:
            if not _is_same(setting, value, settings_of(config)[setting]):
                warnings.append(f"ensemble {config.name!r} runs with a setting of its own: {error}")
    return make_config(adopted, config), warnings


def settings_of(config: EnsembleConfig) -> dict[str, Any]:
    """Return every setting by its name, in plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(config)
    return plain


def comparable_settings(described: ReplicaDescription) -> dict[str, Any]:
    """Return what a server runs with: equal if settings mean the same, no secret and no name."""
    found = list(_described([described]).items())
    if described.members_version:  # the list says them, which each server delivers in its time
        found = [(name, each) for name, each in found if name not in ("servers", "observers")]
    plain = {name: _comparable(name, values[described.server_id]) for name, values in found}
    return {name: _printable(name, value) for name, value in plain.items()}


def _described(
    described: Iterable[ReplicaDescription],
) -> dict[str, dict[ServerId, Any]]:
    """Return the comparable settings that this version knows, each with the value per server.

    A value has the form that this version gives it, or, if it does not accept it, its own.
    """
    found: dict[str, dict[ServerId, Any]] = {}
    servers = sorted(described, key=lambda each: each.server_id)
    newest = newest_description(servers)
    for setting in SETTINGS:
        if change_of(setting) is Change.NOT_COMPARABLE:
            continue
        for server in servers:
            # The numbers of servers are known of every version.
            known = {"servers": len(server.voters), "observers": len(server.observers)}
            known |= server.settings
            if newest is not None and newest.members_version:
                known |= {"servers": len(newest.voters), "observers": len(newest.observers)}
            if setting in known:
                value = known[setting]
                with suppress(ConfigError):
                    value = plain_value(setting, value)
                found.setdefault(setting, {})[server.server_id] = value
    return found


def _is_same(setting: str, one: Any, other: Any) -> bool:
    return bool(_comparable(setting, one) == _comparable(setting, other))


def _comparable(setting: str, value: Any) -> Any:
    """Return what is equal for values that mean the same."""
    if setting == "data_dir" and isinstance(value, str):
        # A node may have another home than this one; then the paths count as written.
        return os.path.normpath(Path(value).expanduser())
    if isinstance(value, tuple | list) and all(isinstance(each, str) for each in value):
        return sorted(set(value))  # identities, or words: their order means nothing
    return value


def _groups(setting: str, values: Mapping[ServerId, Any]) -> list[list[ServerId]]:
    """Return the servers with the same value together."""
    groups: list[list[ServerId]] = []
    for server, value in values.items():
        for group in groups:
            if _is_same(setting, values[group[0]], value):
                group.append(server)
                break
        else:
            groups.append([server])
    return groups


def _printable(setting: str, value: Any) -> Any:
    if not is_secret(setting):
        return value
    mark = hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:8]
    return f"{len(value)} secret values (sha256 {mark})"


def _by_server(values: Mapping[ServerId, Any]) -> str:
    texts: dict[str, list[str]] = {}
    for server, value in values.items():
        texts.setdefault(_text(value), []).append(str(server))
    if len(texts) == 1:
        return next(iter(texts))
    return " and ".join(f"{text} (server {', '.join(ids)})" for text, ids in texts.items())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_text(each)}' for key, each in value.items())}}}"
    if isinstance(value, float):
        return f"{value:g}"
    return "nothing" if value is None else str(value)
