"""The settings of a Replica; Ray keeps them and restarts the actor with them."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from raykeeper.actors.disk.identity import FolderOwner
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.links.jute_listener import BACKLOG, PortSettings
from raykeeper.links.jute_tls import TlsFiles
from raykeeper.server.context import ALLOWED_WORDS, ServerOptions, ZooKeeperOptions
from raykeeper.zab.feature_levels import LEVEL_MAX, FeatureLevel, FeatureLevels
from raykeeper.zab.ids import FOUNDING_DISK, SERVER_ID_MAX, ZERO, DiskId, Millis, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.settings import Settings, Timing
from raykeeper.znodes.acl import Identity
from raykeeper.znodes.limits import REPLY_CACHE_MAX, Limits

AUTO: Final = "auto"
RAY: Final = "ray"
DIRECT: Final = "direct"
TEXT: Final = "text"
JSON: Final = "json"
CLIENTS_MAX_CEILING: Final = 100_000
ALL_ADDRESSES: Final = ("0.0.0.0", "::")
SEGMENT_BYTES_MIN = 1 << 20
TOUCHES_PER_TIMEOUT: Final = 8
"""How many reports on live sessions the shortest timeout contains at least."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ReplicaConfig(Struct, frozen=True, kw_only=True):
    """Settings of one server. Instances can be pickled.

    Ray starts a server again with the settings that its launch sent, perhaps of another version: a
    setting that they lack has its default, and one that this program does not know is passed over.

    Raises:
        ValueError: a setting is out of range or contradicts another.
    """

    ensemble: str
    ensemble_uuid: str
    server_id: ServerId
    voters: tuple[ServerId, ...]
    observers: tuple[ServerId, ...] = ()
    """The servers with which the ensemble was founded, those with a vote and those without. Who
    the members are now is in the replicated state."""
    folder: str
    """Where its data lies; `~` is the home on the server's node."""
    newest_incarnation: int = 0
    """The newest one that other servers had seen when it was placed: it begins above that."""
    tick_ms: Millis = Millis(500)
    init_limit: int = 20
    sync_limit: int = 4
    session_timeout_min_ms: Millis = Millis(2_000)
    session_timeout_max_ms: Millis = Millis(60_000)
    value_bytes_max: int = 1 << 20
    transaction_ops_max: int = 1_000
    acl_entries_max: int = 64
    session_identities_max: int = 64
    super_identities: tuple[Identity, ...] = ()
    requests_max: int = REPLY_CACHE_MAX
    """Unanswered requests of all clients of this server, which share this number."""
    snapshot_every_txns: int = 100_000
    snapshots_kept: int = 3
    segment_bytes: int = 64 << 20
    watch_history_changes: int = 50_000
    watch_history_bytes: int = 32 << 20
    links: str = AUTO
    """Which carriers links may take: direct streams (`DIRECT`), Ray calls (`RAY`) or both."""
    clients_max: int | None = None
    """Client links of this server; one more is refused. None: as many as its open files bear."""
    sessions_max: int = 100_000
    """Sessions of the ensemble; one more is refused."""
    zookeeper_port: int = 0
    """Of this server, for clients of ZooKeeper; 0 is none."""
    zookeeper_address: str = "127.0.0.1"
    """The address of the node on which that port is opened."""
    zookeeper_clients_per_address: int = 60
    zookeeper_handshake_s: int = 10
    """How long a connection there may be without a session."""
    zookeeper_words: tuple[str, ...] = ALLOWED_WORDS
    """The four-letter words that are answered there."""
    zookeeper_admin_port: int = 0
    """Of this server's admin server, at the same address; 0 is none."""
    zookeeper_request_bytes: int = 0xFFFFF
    zookeeper_list_bytes: int = 64 << 20
    zookeeper_buffer_bytes: int = 512 << 20
    """What all connections there may make the server keep."""
    zookeeper_tls_port: int = 0
    """Of this server, for clients of ZooKeeper over TLS, at the same address; 0 is none."""
    zookeeper_tls_certificate: str = ""
    zookeeper_tls_key: str = ""
    zookeeper_tls_authority: str = ""
    """Files in PEM on the server's node; without the last clients show no certificate."""
    metrics: bool = True
    """Whether it tells its metrics to Ray."""
    log_format: str = TEXT
    """Of its log lines: `TEXT` or `JSON`."""
    log_file_bytes: int = 16 << 20
    log_files_kept: int = 3
    """A file of log lines begins anew at that size, and so many older ones are kept."""
    launch_settings: Mapping[str, Any] = {}
    """The settings of the ensemble that the server was launched with, which it describes."""
    # Later fields only at the end: Ray starts a server again with what a program of before sent.
    first_uuid: str = ""
    """The uuid that the ensemble was founded with; "" if it is `ensemble_uuid`, as it is without a
    recovery. Clients are told this one: it salts the hashes in their ACLs."""
    feature_level_max: FeatureLevel | None = None
    """The ensemble is raised to this level at most; None: to the newest that all members know."""
    members: MemberList | None = None
    """The newest member list that the launch knew of, delivered to some server; None: none since
    the founding. A server that joins finds the others by it."""
    promotion_lag_max: int = 1_000
    promotion_wait_ms: Millis = Millis(2_000)
    """An observer gets a vote when it has lacked at most so many transactions for so long."""
    niceness: int = 0
    """What the threads of the server and of its SessionTracker have at most, where the system
    allows that."""
    container_grace_ms: Millis = Millis(60_000)
    """How long a container stays after its last child was deleted."""

    def __reduce__(self) -> tuple[Callable[..., "ReplicaConfig"], tuple[dict[str, Any]]]:
        return known_config, ({name: getattr(self, name) for name in self.__struct_fields__},)

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.ensemble) is None:
            raise ValueError(f"{self.ensemble!r} is not a name for an ensemble")
        if not self.ensemble_uuid or not self.folder:
            raise ValueError("an ensemble has a uuid, and a server a folder")
        if not 1 <= self.server_id <= SERVER_ID_MAX:
            raise ValueError(f"server_id is {self.server_id}, expected 1 to {SERVER_ID_MAX}")
        if not self.voters or sorted(set(self.voters)) != list(self.voters):
            raise ValueError(f"voters are {self.voters}, expected different ids in order")
        if sorted(set(self.observers) - set(self.voters)) != list(self.observers):
            raise ValueError(f"observers are {self.observers}, expected other ids in order")
        if self.links not in (AUTO, RAY, DIRECT):
            raise ValueError(f"links is {self.links!r}, expected auto, ray or direct")
        if self.log_format not in (TEXT, JSON):
            raise ValueError(f"log_format is {self.log_format!r}, expected text or json")
        for name, value, least, most in (
            ("log_file_bytes", self.log_file_bytes, 1 << 16, 1 << 40),
            ("log_files_kept", self.log_files_kept, 1, 1000),
            ("tick_ms", self.tick_ms, 10, 60_000),
            ("sync_limit", self.sync_limit, 2, 10_000),
            ("init_limit", self.init_limit, self.sync_limit, 10_000),
            ("requests_max", self.requests_max, 1, 1_000_000),
            ("snapshot_every_txns", self.snapshot_every_txns, 1, 10**9),
            ("snapshots_kept", self.snapshots_kept, 1, 100),
            ("segment_bytes", self.segment_bytes, SEGMENT_BYTES_MIN, 1 << 40),
            ("watch_history_changes", self.watch_history_changes, 0, 10**7),
            ("watch_history_bytes", self.watch_history_bytes, 0, 1 << 34),
            ("promotion_lag_max", self.promotion_lag_max, 0, 10**9),
            ("promotion_wait_ms", self.promotion_wait_ms, 0, 600_000),
            ("niceness", self.niceness, -20, 19),
            ("container_grace_ms", self.container_grace_ms, 0, 86_400_000),
            ("zookeeper_port", self.zookeeper_port, 0, 65_535),
            ("zookeeper_admin_port", self.zookeeper_admin_port, 0, 65_535),
            ("zookeeper_tls_port", self.zookeeper_tls_port, 0, 65_535),
            (
                "zookeeper_clients_per_address",
                self.zookeeper_clients_per_address,
                1,
                CLIENTS_MAX_CEILING,
            ),
            ("zookeeper_handshake_s", self.zookeeper_handshake_s, 1, 3600),
            ("zookeeper_request_bytes", self.zookeeper_request_bytes, 1 << 10, 64 << 20),
            ("zookeeper_list_bytes", self.zookeeper_list_bytes, 1 << 10, 1 << 30),
            ("zookeeper_buffer_bytes", self.zookeeper_buffer_bytes, 1 << 20, 1 << 40),
            (
                "clients_max",
                1 if self.clients_max is None else self.clients_max,
                1,
                CLIENTS_MAX_CEILING,
            ),
        ):
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}, expected {least} to {most}")
        self.limits()

    @property
    def path(self) -> Path:
        """The data folder on this machine."""
        return Path(self.folder).expanduser()

    def newest_list(self, known: MemberList | None = None) -> MemberList:
        """Return the newest of the lists that these settings hold and of `known`."""
        founding = MemberList(ZERO, dict.fromkeys(self.voters, FOUNDING_DISK), self.observers)
        lists = [each for each in (known, self.members, founding) if each is not None]
        return max(lists, key=lambda each: each.version)

    def has_other_voters(self, known: MemberList | None = None) -> bool:
        """Return whether another server has a vote, by the newest list that these settings know.

        Only then can this one be repaired from its peers. `known` is as for `newest_list`.
        """
        return [*self.newest_list(known).voters] != [self.server_id]

    def owner(self) -> FolderOwner:
        """Return the required owner of the data folder."""
        return FolderOwner(self.ensemble, self.ensemble_uuid, self.server_id)

    def settings(self, *, disk: DiskId) -> Settings:
        """Return the settings of the server's part in Zab, which begins from `disk`."""
        timing = Timing(self.tick_ms, self.init_limit, self.sync_limit)
        levels = FeatureLevels(LEVEL_MAX, raise_to=self.feature_level_max)
        return Settings(
            *(self.server_id, self.voters, disk, timing),
            levels=levels,
            observers=self.observers,
            known=self.members,
        )

    def limits(self) -> Limits:
        """Return the limits of client requests.

        Raises:
            ValueError: a limit is out of range or contradicts another.
        """
        return Limits(
            value_bytes_max=self.value_bytes_max,
            session_timeout_min_ms=self.session_timeout_min_ms,
            session_timeout_max_ms=self.session_timeout_max_ms,
            sessions_max=self.sessions_max,
            transaction_ops_max=self.transaction_ops_max,
            request_bytes_max=self.zookeeper_request_bytes,
            acl_entries_max=self.acl_entries_max,
            session_identities_max=self.session_identities_max,
            super_identities=self.super_identities,
        )

    def options(self, node_host: str = "") -> ServerOptions:
        """Return the settings that clients do not see; `node_host` is as `zookeeper_address_at`."""
        usual = ServerOptions()
        return ServerOptions(
            # The confirmation of a heartbeat waits for a report, and must come in time.
            session_report_ms=min(
                usual.session_report_ms, Millis(self.session_timeout_min_ms // TOUCHES_PER_TIMEOUT)
            ),
            snapshot_every_txns=self.snapshot_every_txns,
            outstanding_requests_max=self.requests_max,
            zookeeper=ZooKeeperOptions(
                self.zookeeper_words,
                self.zookeeper_port,
                self.zookeeper_tls_port,
                self.zookeeper_clients_per_address,
                BACKLOG,
                str(self.path),
                self.zookeeper_list_bytes,
                self.zookeeper_address_at(node_host, self.zookeeper_port),
                self.zookeeper_buffer_bytes,
            ),
            ensemble=self.first_uuid or self.ensemble_uuid,
            change_log_count_max=self.watch_history_changes,
            change_log_bytes_max=self.watch_history_bytes,
            promotion_lag_max=self.promotion_lag_max,
            promotion_wait_ms=self.promotion_wait_ms,
            container_grace_ms=self.container_grace_ms,
            read_only_after_ms=max(usual.read_only_after_ms, self.tick_ms),
        )

    def zookeeper_settings(
        self, without_session_max: int
    ) -> tuple[PortSettings | None, PortSettings | None]:
        """Return the settings of the ports for clients of ZooKeeper, the second one with TLS."""
        files = TlsFiles(
            self.zookeeper_tls_certificate, self.zookeeper_tls_key, self.zookeeper_tls_authority
        )
        ports = ((self.zookeeper_port, None), (self.zookeeper_tls_port, files))
        plain, encrypted = (
            PortSettings(
                self.zookeeper_address,
                port,
                self.zookeeper_clients_per_address,
                without_session_max,
                self.zookeeper_handshake_s,
                tls,
            )
            if port
            else None
            for port, tls in ports
        )
        return plain, encrypted

    def zookeeper_address_at(self, node_host: str, port: int) -> str:
        """Return where its clients find one of the ports, "" if that is 0.

        `node_host` stands for all addresses.
        """
        if not port:
            return ""
        address = self.zookeeper_address
        host = node_host if address in ALL_ADDRESSES else address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def storage_limits(self) -> StorageLimits:
        """Return the limits of the data folder."""
        return StorageLimits(self.segment_bytes, self.snapshots_kept)


def known_config(settings: Mapping[str, Any]) -> ReplicaConfig:
    """Return the config with those of the settings that this program knows."""
    known = ReplicaConfig.__struct_fields__
    return ReplicaConfig(**{name: value for name, value in settings.items() if name in known})
