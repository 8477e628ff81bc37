"""The settings of an ensemble: their defaults, their bounds, and the file they are read from.

Every setting is a field of `EnsembleConfig`; its annotation holds the bounds, the description
for the error about a wrong value, and how it is changed while the ensemble runs. A file is read
through the nodes of its YAML tree, so an error names the line.

The file is long because every setting stands in it, with what it does.
"""

import difflib
import reprlib
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import yaml
from msgspec import Meta, Struct

from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN
from raykeeper.zab.ids import SERVER_ID_MAX, ServerId

_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"
_LABEL_PATTERN = r"^[A-Za-z0-9_./-]+\Z"
_SUPER_PATTERN = r"^(digest:[^:]{1,128}:[A-Za-z0-9+/]{27}=|scrypt:[^:]{1,128}:[A-Za-z0-9+/]{43}=)\Z"
_WORDS = (
    *("conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "isro", "mntr", "ruok", "srst"),
    *("srvr", "stat", "wchc", "wchp", "wchs"),
)
_PEM_PATTERN = r"^(~?/[^\x00\ud800-\udc7f\udd00-\udfff]+)?\Z"
_PORT_SETTINGS = ("zookeeper_port", "zookeeper_tls_port", "zookeeper_admin_port")
_WORD_PATTERN = rf"^(\*|{'|'.join(_WORDS)})\Z"
_FOLDER_PATTERN = r"^[^\x00\ud800-\udc7f\udd00-\udfff]+\Z"  # what a file system can be told

# PyYAML raises these, besides its own errors, for a scalar that does not fit its tag or form, and
# for nesting that is too deep.
_BAD_SCALAR = (ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError)


class ConfigError(RayKeeperError):
    """Raised when a setting is unknown, has a wrong type or value, or contradicts another.

    Nothing was started or changed. The caller should correct `line` of `file`, or the argument
    that the message names.

    Attributes:
        file: The settings file, None for an argument of `launch`.
        line: The line in it, counted from 1, None when the file as a whole is meant.
    """

    def __init__(self, problem: str, file: Path | None = None, line: int | None = None) -> None:
        self.problem = problem
        self.file = file
        self.line = line
        place = [str(part) for part in (file, line) if part is not None]
        super().__init__(": ".join([":".join(place), problem]) if place else problem)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.problem, self.file, self.line))


class LabelPin(Struct, frozen=True, forbid_unknown_fields=True):
    """Server i runs on the node whose Ray label `label` has the value i."""

    label: Annotated[str, Meta(pattern=_LABEL_PATTERN)]


class ResourcePin(Struct, frozen=True, forbid_unknown_fields=True):
    """Server i runs on the node that has the custom resource `<resource>_<i>`."""

    resource: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+\Z")]


class Change(Enum):
    """How a setting of a running ensemble is changed; the value is the instruction.

    The annotation of a setting names it as `change`; without that it is `ROLLING`.
    """

    ROLLING = (
        "run `raykeeper up` with the new value and --apply, or call `apply_settings`: the servers "
        "of {name} are replaced one after the other, and no client sees an error"
    )
    MOVE = (
        "run `raykeeper down {name}`, move the folder {name} from the old place to the new one on "
        "every node, then launch it with the new value; without the move that founds an empty one"
    )
    PLACE = (
        "run `raykeeper down {name}`, then launch it with the new value; a server with data still "
        "runs where its disk is"
    )
    MEMBERS = (
        "put the present number into the settings, or run `raykeeper up` with --apply, which "
        "changes the members as `raykeeper members set {name}` does"
    )
    NOT_COMPARABLE = "it says which ensemble is meant"


PlacementPolicy = Literal["auto", "spread"]
Milliseconds = Annotated[
    int, Meta(ge=10, le=60_000, description="a whole number of milliseconds from 10 to 60000")
]
Ticks = Annotated[int, Meta(ge=2, le=10_000, description="a whole number of ticks from 2 to 10000")]
Seconds = Annotated[
    float, Meta(ge=0.1, le=86_400, description="a number of seconds from 0.1 to 86400")
]

Port = Annotated[int, Meta(ge=0, le=65_535, description="a whole number from 0 to 65535")]
PemFile = Annotated[
    str, Meta(pattern=_PEM_PATTERN, description="a path that begins with / or ~/, or nothing")
]
Patience = Annotated[
    float, Meta(ge=0, le=604_800, description="a number of seconds from 0 to 604800")
]


class EnsembleConfig(Struct, frozen=True, kw_only=True):
    """The settings of one ensemble. Made by `make_config` or `load_config`, which check them.

    However it is made, each value is checked by itself and has one form, the type of its field: a
    newcomer that gets its settings from a running server describes the same values.

    Raises:
        ConfigError: a value is invalid.
    """

    name: Annotated[
        str,
        Meta(
            pattern=_NAME_PATTERN,
            description="1 to 64 letters, digits, '_', '.' or '-', a letter or digit first",
            extra={"change": Change.NOT_COMPARABLE},
        ),
    ] = "coord"
    """Names the ensemble in its Ray cluster and its folder under `data_dir`."""

    servers: Annotated[
        int,
        Meta(
            ge=1,
            le=SERVER_ID_MAX,
            description=f"a whole number from 1 to {SERVER_ID_MAX}",
            extra={"change": Change.MEMBERS},
        ),
    ] = 3
    """Voting servers, numbered from 1 when it is founded; later the member list says them. A
    majority must be up: 3 bear the loss of 1, 5 of 2.

    An even number bears no more losses than one server less; `launch` warns of it.
    """

    observers: Annotated[
        int,
        Meta(
            ge=0,
            lt=SERVER_ID_MAX,
            description=f"a whole number from 0 to {SERVER_ID_MAX - 1}",
            extra={"change": Change.MEMBERS},
        ),
    ] = 0
    """Servers without a vote, numbered after the others: more clients, no larger majority."""

    data_dir: Annotated[
        str,
        Meta(
            pattern=_FOLDER_PATTERN,
            description="the path of a folder",
            extra={"change": Change.MOVE},
        ),
    ] = "~/.raykeeper/data"
    """Folder for logs and snapshots, the same path on every node; `~` is the home on that node.

    A relative path is taken from the folder of the settings file, or from the current folder
    when it is an argument of `launch`.
    """

    tick_ms: Milliseconds = 500
    """Heartbeat between servers, and the unit of the two limits below."""

    sync_limit: Ticks = 4
    """Ticks without a word after which a leader and a follower give each other up."""

    init_limit: Ticks = 20
    """Ticks that a new leader and its followers may take to agree on a history."""

    session_timeout_min_s: Seconds = 2.0
    """A client that asks for a shorter session timeout gets this one."""

    session_timeout_max_s: Seconds = 60.0
    """A client that asks for a longer session timeout gets this one."""

    container_grace_s: Annotated[
        float, Meta(ge=0, le=86_400, description="a number of seconds from 0 to 86400")
    ] = 60.0
    """A container stays for so long after its last child was deleted, as does a znode whose TTL is
    over, this no longer than its TTL."""

    value_limit_bytes: Annotated[
        int,
        Meta(ge=1, le=64 << 20, description="a whole number of bytes from 1 to 67108864"),
    ] = 1 << 20
    """Largest value of a znode; a larger one is refused, the connection lives on."""

    transaction_ops_max: Annotated[
        int, Meta(ge=1, le=100_000, description="a whole number from 1 to 100000")
    ] = 1_000
    """Operations of one transaction, and conditions, if it has more bytes than
    `zookeeper_request_bytes`; a longer one is refused. See ray-config.yaml for shorter ones."""

    acl_entries_max: Annotated[
        int, Meta(ge=1, le=1_000, description="a whole number from 1 to 1000")
    ] = 64
    """Entries of the ACL of a znode; a longer one is refused."""

    session_identities_max: Annotated[
        int, Meta(ge=1, le=1_000, description="a whole number from 1 to 1000")
    ] = 64
    """Identities that a session may prove with add_auth; a further one is refused."""

    super_ids: Annotated[
        tuple[Annotated[str, Meta(pattern=_SUPER_PATTERN)], ...],
        Meta(
            max_length=16,
            description="up to 16 of digest:USER:HASH or scrypt:USER:HASH, see docs/SECURITY.md",
            extra={"is_secret": True},
        ),
    ] = ()
    """A client that proves one of these identities is exempt from every ACL."""

    requests_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="a whole number from 1 to 1000000")
    ] = 2_000
    """Unanswered requests of all clients of one server; each may have its share, and waits."""

    clients_max: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=1, le=100_000)],
        Meta(description="auto, or a whole number from 1 to 100000"),
    ] = "auto"
    """Clients of one server; it refuses the next one, which goes on to another server.
    auto: as many as the limit of open files of its process bears (docs/OPERATIONS.md).
    """

    sessions_max: Annotated[
        int, Meta(ge=1, le=10_000_000, description="a whole number from 1 to 10000000")
    ] = 100_000
    """Sessions of the ensemble, which every server has in memory; a further one is refused."""

    snapshot_every_txns: Annotated[
        int,
        Meta(ge=100, le=10**9, description="a whole number from 100 to 1000000000"),
    ] = 100_000
    """A server writes a snapshot after about so many transactions."""

    snapshots_kept: Annotated[
        int, Meta(ge=1, le=100, description="a whole number from 1 to 100")
    ] = 3
    """Snapshots kept on disk, with the log they need; older ones are deleted."""

    feature_level_max: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=LEVEL_MIN, le=LEVEL_MAX)],
        Meta(description=f"auto, or a whole number from {LEVEL_MIN} to {LEVEL_MAX}"),
    ] = "auto"
    """The leader raises the ensemble to this feature level at most; then servers of before are
    refused. auto: to the newest that all servers know (docs/UPGRADING.md)."""

    watch_history_changes: Annotated[
        int, Meta(ge=0, le=10**7, description="a whole number from 0 to 10000000")
    ] = 50_000
    """Changes of znodes that a server remembers for the watches of clients that were away."""

    watch_history_bytes: Annotated[
        int, Meta(ge=0, le=1 << 34, description="a whole number of bytes from 0 to 17179869184")
    ] = 32 << 20
    """Memory for these changes, about 250 bytes each and the path."""

    promotion_lag_max: Annotated[
        int, Meta(ge=0, le=10**9, description="a whole number from 0 to 1000000000")
    ] = 1_000
    """Transactions that an observer may lack when it gets a vote."""

    promotion_wait_ms: Annotated[
        int, Meta(ge=0, le=600_000, description="a whole number of milliseconds from 0 to 600000")
    ] = 2_000
    """How long it must have lacked no more (docs/MEMBERS.md, rule M5)."""

    placement: Annotated[
        PlacementPolicy | LabelPin | ResourcePin,
        Meta(
            description="auto, spread, {label: NAME} or {resource: NAME}",
            extra={"change": Change.PLACE},
        ),
    ] = "auto"
    """auto: on different nodes, sharing nodes (with a warning) when there are too few.
    spread: on different nodes, or an error. A pin ties server i to a label or resource.
    """

    heal_after_s: Patience = 0
    """When the node of a voting server is dead for so long, the keeper moves the server to another
    node. 0: there is no keeper, and the next `launch` moves it.
    """

    heal_pause_s: Patience = 600
    """The keeper moves servers at least so far apart; doubled for each move of one server within a
    day.
    """

    heal_moves_per_hour: Annotated[
        int, Meta(ge=1, le=20, description="a whole number from 1 to 20")
    ] = 2
    """The keeper moves at most so many servers within an hour."""

    heal_node_age_s: Patience = 60
    """The keeper moves servers only to nodes that have been alive for so long."""

    heal_vote_wait_s: Patience = 600
    """A server that was moved and gets no vote within this time is stopped; the move is undone."""

    stale_folder_days: Annotated[
        int, Meta(ge=0, le=3650, description="a whole number of days from 0 to 3650")
    ] = 7
    """The keeper removes folders that it has set aside after so many days."""

    backup_mb_per_s: Annotated[
        float, Meta(ge=0.1, le=100_000, description="a number of megabytes from 0.1 to 100000")
    ] = 16
    """How fast a backup reads, in megabytes (of 1 000 000 bytes) per second. A faster one makes the
    writes wait that come meanwhile. An archive follows its log however fast that grows.
    """

    links: Annotated[Literal["auto", "ray", "direct"], Meta(description="auto, ray or direct")] = (
        "auto"
    )
    """How servers and clients talk. direct: over streams of their own, many times quicker.
    ray: over calls of Ray actors, which need no port. auto: streams, and calls where none opens.
    """

    zookeeper_port: Port = 0
    """Port of server 1 for ZooKeeper's own clients, such as 2181; server i has this plus i - 1.
    0: there is no port.
    """

    zookeeper_address: Annotated[
        str,
        Meta(
            pattern=r"^[0-9A-Fa-f.:]+$",
            description="an IP address of the nodes, 0.0.0.0 or :: for all of them",
        ),
    ] = "127.0.0.1"
    """Where these ports are opened. This one has no TLS: see docs/SECURITY.md before you open more
    than the loopback.
    """

    zookeeper_tls_port: Port = 0
    """Port of server 1 for ZooKeeper's own clients over TLS, such as 2281; server i has this plus
    i - 1. 0: there is no port.
    """

    zookeeper_tls_certificate: PemFile = ""
    """The server's certificate in PEM, with those between it and its authority, on every node. Read
    again when it changes, as the other two files.
    """

    zookeeper_tls_key: PemFile = ""
    """The key of that certificate, in PEM and without a passphrase."""

    zookeeper_tls_authority: PemFile = ""
    """Clients must show a certificate of this authority (PEM). Empty: they need none."""

    zookeeper_clients_per_address: Annotated[
        int, Meta(ge=1, le=100_000, description="a whole number from 1 to 100000")
    ] = 60
    """Connections that one client address may have to such a port; a further one is closed."""

    zookeeper_handshake_s: Annotated[
        int, Meta(ge=1, le=3600, description="a whole number of seconds from 1 to 3600")
    ] = 10
    """A connection to such a port that has no session after so long is closed."""

    zookeeper_words: Annotated[
        tuple[Annotated[str, Meta(pattern=_WORD_PATTERN)], ...],
        Meta(
            max_length=17,
            description=f"a list of the four-letter words {', '.join(_WORDS)}, or of '*' for all",
        ),
    ] = ("ruok", "isro", "srvr", "stat", "envi", "mntr", "conf", "cons", "dirs", "wchs", "gtmk")
    """The four-letter words that these ports answer; srvr and isro always are. ZooKeeper's
    whitelist. Of the others dump, wchc and wchp list everything, crst and srst reset counts.
    """

    zookeeper_admin_port: Port = 0
    """Port of server 1 for ZooKeeper's admin server, such as 8080; server i has this plus i - 1.
    0: there is none. It answers GET /commands/NAME at zookeeper_address, with JSON, and needs the
    package aiohttp: pip install 'raykeeper[admin]'.
    """

    zookeeper_request_bytes: Annotated[
        int, Meta(ge=1024, le=64 << 20, description="a whole number of bytes from 1024 to 67108864")
    ] = 0xFFFFF
    """Largest request of a client of ZooKeeper, its `jute.maxbuffer`; a larger one closes its
    connection.
    """

    zookeeper_list_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="a whole number of bytes from 1024 to 1073741824"),
    ] = 64 << 20
    """Longest list of names that a client of ZooKeeper is sent, in one frame; a longer one closes
    its connection. The lists of children that each server keeps for the next such clients that ask
    are together no longer.
    """

    zookeeper_buffer_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            le=1 << 40,
            description="a whole number of bytes from 1048576 to 1099511627776",
        ),
    ] = 512 << 20
    """Bytes that all clients of ZooKeeper together may make a server keep: requests that have not
    arrived as a whole or are not answered, and replies that were not read, above 64 KiB of each
    connection. Beyond it the connections with the most are closed.
    """

    niceness: Annotated[int, Meta(ge=-20, le=19, description="a whole number from -20 to 19")] = 0
    """The niceness that a server, its session tracker and the keeper have at most: Ray starts them
    with 15, behind all other work of the node. To go lower needs root, CAP_SYS_NICE or a limit
    (`ulimit -e`); without them they keep what they have, and the doctor tells it. 19 leaves it to
    Ray.
    """

    metrics: Annotated[bool, Meta(description="on or off")] = True
    """on: each server tells its metrics to Ray once a second, see docs/METRICS.md."""

    log_format: Annotated[Literal["text", "json"], Meta(description="text or json")] = "text"
    """The form of a server's log lines, in a file of the Ray session's log folder."""

    log_file_bytes: Annotated[
        int,
        Meta(
            ge=1 << 16,
            le=1 << 40,
            description="a whole number of bytes from 65536 to 1099511627776",
        ),
    ] = 16 << 20
    """At this size such a file is renamed, and a new one begins."""

    log_files_kept: Annotated[
        int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000")
    ] = 3
    """So many renamed ones are kept, beside the file itself."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            msgspec.structs.force_setattr(self, name, _check_value(name, getattr(self, name)))

    @property
    def voter_ids(self) -> tuple[ServerId, ...]:
        """The servers that vote."""
        return tuple(ServerId(i) for i in range(1, self.servers + 1))

    @property
    def observer_ids(self) -> tuple[ServerId, ...]:
        """The servers that do not."""
        first = self.servers + 1
        return tuple(ServerId(i) for i in range(first, first + self.observers))


SETTINGS = tuple(EnsembleConfig.__struct_fields__)
_HINTS = get_type_hints(EnsembleConfig, include_extras=True)


def make_config(
    settings: Mapping[str, object], base: EnsembleConfig | None = None
) -> EnsembleConfig:
    """Return `base`, None for the defaults, with some settings replaced by arguments.

    Raises:
        ConfigError: a setting is unknown, or its value is invalid.
    """
    for key in settings:
        _check_key(key)
    config = msgspec.structs.replace(base or DEFAULTS, **settings)
    for problem, _ in _contradictions(config):
        raise ConfigError(problem)
    return config


def load_config(path: str | Path) -> EnsembleConfig:
    """Read a settings file in YAML; a missing setting has its default.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has a wrong setting. The message
            names the line and what was expected.
    """
    return _load(path)[0]


def _load(path: str | Path) -> tuple[EnsembleConfig, frozenset[str]]:
    """Return the settings of a file, and the names of those that it states."""
    file = Path(path).expanduser()
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    try:
        for key, value, line in _settings_of(file):
            if key in lines:
                raise ConfigError(f"{key} is already set in line {lines[key]}", file, line)
            try:
                _check_key(key)
                values[key] = _check_value(key, value)
            except ConfigError as error:
                raise ConfigError(error.problem, file, line) from None
            lines[key] = line
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        raise ConfigError(problem, file, mark.line + 1 if mark else None) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("the file is not YAML text in UTF-8", file) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file) from error
    config = EnsembleConfig(**values)
    for problem, keys in _contradictions(config):
        raise ConfigError(problem, file, max(lines.get(key, 0) for key in keys) or None)
    return _rooted(config, file.absolute().parent), frozenset(lines)


def resolve_config(
    source: "str | Path | EnsembleConfig | None", settings: Mapping[str, object]
) -> EnsembleConfig:
    """Return the settings of `source`, a file, a config or None, overridden by arguments.

    Raises:
        ConfigError: the file or an argument is wrong.
    """
    return resolve_requested(source, settings)[0]


def resolve_requested(
    source: "str | Path | EnsembleConfig | None", settings: Mapping[str, object]
) -> tuple[EnsembleConfig, frozenset[str]]:
    """Return what `resolve_config` does, and the names of the settings that the caller stated.

    A caller states a setting as an argument, in the file, or as a field of a config that differs
    from the default. A running ensemble may have any value of the others.

    Raises:
        ConfigError: the file or an argument is wrong.
    """
    if source is None:
        base, stated = DEFAULTS, frozenset[str]()
    elif isinstance(source, EnsembleConfig):
        base = source
        stated = frozenset(s for s in SETTINGS if getattr(base, s) != getattr(DEFAULTS, s))
    else:
        base, stated = _load(source)
    return _rooted(make_config(settings, base), Path.cwd()), stated | settings.keys()


def plain_value(setting: str, value: object) -> Any:
    """Return a value of a setting as a config holds it, in plain values.

    Raises:
        ConfigError: this version does not accept it.
    """
    return msgspec.to_builtins(_check_value(setting, value))


def change_of(setting: str) -> Change:
    """Return how this setting of a running ensemble is changed."""
    change: Change = _extra_of(setting).get("change", Change.ROLLING)
    return change


def is_secret(setting: str) -> bool:
    """Return whether the value must not be printed."""
    return bool(_extra_of(setting).get("is_secret", False))


def _extra_of(setting: str) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    for meta in getattr(_HINTS[setting], "__metadata__", ()):
        if isinstance(meta, Meta):
            extra |= meta.extra or {}
    return extra


def warnings_about(config: EnsembleConfig) -> list[str]:
    """Return warnings about valid settings that are hardly intended."""
    warnings = []
    if not _is_loopback(config.zookeeper_address):
        ensemble, address = f"ensemble {config.name!r}", config.zookeeper_address
        if config.zookeeper_port:
            warnings.append(
                f"{ensemble} takes clients of ZooKeeper at {address}: who reaches that port needs "
                "no token of Ray's, and nothing is encrypted"
            )
        if config.zookeeper_admin_port:
            warnings.append(
                f"{ensemble} has its admin server at {address}: who reaches that port is told of "
                "the servers and their clients, and nothing is encrypted"
            )
    if even := warning_of_even(config.servers):
        warnings.append(f"ensemble {config.name!r} has {even}")
    return warnings


def warning_of_even(voters: int) -> str:
    """Return what an even number of voting servers does not bring; empty if it is odd."""
    losses = (voters - 1) // 2
    if voters % 2:
        return ""
    return (
        f"an even number of voting servers: {voters} bear the loss of {losses or 'none'}, as "
        f"{voters - 1} would; {voters + 1} bear the loss of {losses + 1}"
    )


def _is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def _rooted(config: EnsembleConfig, folder: Path) -> EnsembleConfig:
    """Make a relative `data_dir` absolute; each node resolves one that starts with `~` itself."""
    if config.data_dir.startswith("~"):
        return config
    return msgspec.structs.replace(config, data_dir=str(folder / config.data_dir))


def _settings_of(file: Path) -> Iterator[tuple[str, object, int]]:
    """Yield each key, value and line of the mapping in `file`; an empty file has none."""
    loader = yaml.SafeLoader(file.read_text(encoding="utf-8"))
    try:
        try:
            root = loader.get_single_node()
        except RecursionError:
            raise ConfigError("the values are nested too deeply", file) from None
        if root is None:
            return
        if not isinstance(root, yaml.MappingNode):
            line = root.start_mark.line + 1
            raise ConfigError("expected settings such as 'name: coord'", file, line)
        for key_node, value_node in root.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError("expected the name of a setting", file, line)
            try:
                value = loader.construct_object(value_node, deep=True)
            except _BAD_SCALAR as error:
                text = value_node.value if isinstance(value_node, yaml.ScalarNode) else ""
                problem = f"{_shown(key_node.value)} has an unreadable value: {_shown(text)}"
                raise ConfigError(problem, file, line) from error
            yield key_node.value, value, line
    finally:
        loader.dispose()


def _check_key(key: str) -> None:
    if key in SETTINGS:
        return
    close = difflib.get_close_matches(key, SETTINGS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"settings are {', '.join(SETTINGS)}"
    raise ConfigError(f"unknown setting {_shown(key)}; {hint}")


def _check_value(key: str, value: object) -> object:
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, LabelPin | ResourcePin):
        value = msgspec.to_builtins(value)
    try:
        if key == "placement" and isinstance(value, dict):
            pin = LabelPin if "label" in value else ResourcePin
            return msgspec.convert(value, pin)
        kind = _HINTS[key] if key != "placement" else PlacementPolicy
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        expected = next(
            meta.description for meta in _HINTS[key].__metadata__ if isinstance(meta, Meta)
        )
        raise ConfigError(f"{key}: expected {expected}, not {_shown(value)}") from error


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    # Only in part: a few lines of YAML can describe a list whose text fits no memory.
    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = 80
    shown.maxlevel = 3
    try:
        return shown.repr(value)[:80]
    except ValueError:
        return "a number of so many digits"


def ports_of(config: EnsembleConfig, server: ServerId) -> list[int]:
    """Return the ports that a server opens by the settings."""
    return [port + server - 1 for port in _ports(config).values()]


def port_problems(config: EnsembleConfig, server: ServerId) -> Iterator[str]:
    """Yield why the settings have no ports for servers up to this one."""
    return (problem for problem, _ in _contradictions_of_ports(config, server))


def _ports(config: EnsembleConfig) -> dict[str, int]:
    return {name: getattr(config, name) for name in _PORT_SETTINGS if getattr(config, name)}


def _contradictions_of_ports(
    config: EnsembleConfig, servers: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each setting of ports that leaves too few, or those of another one, to the servers."""
    ports = _ports(config)
    for name, port in ports.items():
        if port + servers - 1 > 65_535:
            yield f"{name} ({port}) leaves no port for each of {servers} servers", (name,)
    for (one, port), (other, next_port) in pairwise(sorted(ports.items(), key=itemgetter(1))):
        if port + servers > next_port:
            yield (
                f"{one} ({port}) and {other} ({next_port}) overlap: "
                f"each of {servers} servers has a port of both",
                (one, other),
            )


def _contradictions(config: EnsembleConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each contradiction between settings, with the names of these settings."""
    if config.servers + config.observers > SERVER_ID_MAX:
        yield (
            f"servers ({config.servers}) and observers ({config.observers}) are more than "
            f"{SERVER_ID_MAX}",
            ("servers", "observers"),
        )
    yield from _contradictions_of_ports(config, config.servers + config.observers)
    files = (config.zookeeper_tls_certificate, config.zookeeper_tls_key)
    if config.zookeeper_tls_port and not all(files):
        yield (
            "zookeeper_tls_port needs zookeeper_tls_certificate and zookeeper_tls_key",
            ("zookeeper_tls_port", "zookeeper_tls_certificate", "zookeeper_tls_key"),
        )
    if config.session_timeout_min_s > config.session_timeout_max_s:
        yield (
            f"session_timeout_min_s ({config.session_timeout_min_s:g}) is above "
            f"session_timeout_max_s ({config.session_timeout_max_s:g})",
            ("session_timeout_min_s", "session_timeout_max_s"),
        )
    if config.sync_limit > config.init_limit:
        yield (
            f"sync_limit ({config.sync_limit}) is above init_limit ({config.init_limit})",
            ("sync_limit", "init_limit"),
        )


DEFAULTS = EnsembleConfig()  # at the end: it is checked as every other one
